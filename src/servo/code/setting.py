"""Where a process that runs user code finds the code and the store."""

from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from servo.core.retry import RetryRules
from servo.processes.frames import framed
from servo.workspace.address import Address

RECEIVE_BYTES = 1 << 16


class CodeLocation(msgspec.Struct, frozen=True, kw_only=True):
    """A named set of definitions: a file or a module, and the folder it is run from.

    The name goes on record with every run, so it stays the same when the file moves. `retry` is for
    its assets that have no retry policy of their own.
    """

    name: str
    code: str
    folder: str
    as_dagster: bool = False
    retry: RetryRules | None = None

    @property
    def place(self) -> str:
        """Which code is meant, told apart from that of the same name elsewhere."""
        if self.code.endswith(".py"):
            return str(Path(self.folder, self.code).resolve())
        return f"{self.code} in {self.folder}"


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """Where a worker finds its code and the workspace it works for."""

    location: CodeLocation
    address: Address
    stays: bool = False
    """Whether whoever leads goes on when there is nothing to do, and takes requests of others."""


def framed_setting(setting: Setting) -> bytes:
    """What a worker is told first."""
    data = msgspec.msgpack.encode(setting)
    return framed(data)


def open_instance(setting: Setting) -> Any:
    """What `context.instance` is; loaded when user code asks for it, which it seldom does."""
    made = import_module("servo.workspace.instance.instance").ServoInstance
    address = setting.address
    return made.of_store(address.store, tenant=address.tenant, workspace=address.workspace)
