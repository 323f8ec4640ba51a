"""Where a process that runs user code finds the code and the store."""

from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from servo.processes.frames import framed

RECEIVE_BYTES = 1 << 16


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """Where a worker finds the code and the store."""

    code: str
    folder: str
    store: str
    tenant: str
    workspace: str
    as_dagster: bool = False
    stays: bool = False
    """Whether whoever leads goes on when there is nothing to do, and takes requests of others."""

    @property
    def place(self) -> str:
        """Which code is meant, told apart from that of the same name elsewhere."""
        if self.code.endswith(".py"):
            return str(Path(self.folder, self.code).resolve())
        return f"{self.code} in {self.folder}"

    @property
    def address(self) -> str:
        """The workspace, told apart from every other on this machine."""
        return f"{self.store}|{self.tenant}|{self.workspace}"


def framed_setting(setting: Setting) -> bytes:
    """What a worker is told first."""
    data = msgspec.msgpack.encode(setting)
    return framed(data)


def open_instance(setting: Setting) -> Any:
    """What `context.instance` is; loaded when user code asks for it, which it seldom does."""
    made = import_module("servo.workspace.instance.instance").ServoInstance
    tenant, workspace = setting.tenant, setting.workspace
    return made.of_store(setting.store, tenant=tenant, workspace=workspace)
