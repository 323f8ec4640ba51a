"""Where a process that runs user code finds the code and the store."""

from importlib import import_module
from typing import Any

import msgspec

from servo.processes.frames import framed
from servo.workspace.address import Address
from servo.workspace.code_location import CodeLocation

RECEIVE_BYTES = 1 << 16


class ProcessSetup(msgspec.Struct, frozen=True, kw_only=True):
    """Where a worker finds its code and the workspace it works for."""

    location: CodeLocation
    address: Address
    stays: bool = False
    """Whether the leader keeps running when idle and serves other processes (`servo dev`)."""


def framed_setup(setup: ProcessSetup) -> bytes:
    """The first message to a worker."""
    data = msgspec.msgpack.encode(setup)
    return framed(data)


def open_instance(setup: ProcessSetup) -> Any:
    """The value of `context.instance`, opened when user code first uses it."""
    made = import_module("servo.workspace.instance.instance").ServoInstance
    address = setup.address
    return made.of_store(address.store, tenant=address.tenant, workspace=address.workspace)
