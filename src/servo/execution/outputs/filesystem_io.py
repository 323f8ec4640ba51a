"""Values as files in a folder, one pickle for each asset or partition."""

import os
import pickle
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from servo.errors import Invalid, NotFound
from servo.sdk.resources.configurable import ConfigurableIOManager
from servo.sdk.resources.io_context import InputContext, OutputContext
from servo.sdk.resources.io_manager import io_manager
from servo.sdk.resources.resources import InitResourceContext

DEFAULT_FOLDER = ".servo-files"  # not in .servo, which is the store
_ESCAPED = str.maketrans({"%": "%25", "/": "%2F", "\\": "%5C", "\0": "%00"})


class FilesystemIOManager(ConfigurableIOManager):
    """Stores values as pickles under `base_dir/<parts of the asset's key>[/<partition>]`.

    A file appears whole or not at all. Two executions that store the same asset at once leave the
    value of one of them.
    """

    base_dir: str | None = Field(default=None, description="The folder; .servo-files if not given.")

    def handle_output(self, context: OutputContext, obj: Any) -> None:
        """Store a value and say where it is."""
        path, shown = self._paths(context.get_identifier())
        try:
            data = pickle.dumps(obj, protocol=5)
        except Exception as error:
            raise Invalid(
                f"{context!r}: a value of type {type(obj).__qualname__} cannot be pickled: {error}",
                remedy="return plain data or a table, or give the asset another IO manager",
            ) from error
        try:
            _replace(path, data)
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            raise Invalid(
                f"{shown} cannot be written: another asset has a file or a folder in its place",
                remedy="rename one of the two assets, so that neither key begins with the other",
            ) from None
        context.add_output_metadata({"path": shown})

    def load_input(self, context: InputContext) -> Any:
        """The value that was stored; those of several partitions by their keys."""
        if context.has_asset_partitions and len(context.asset_partition_keys) != 1:
            parts = context.asset_key.parts
            return {key: self._load((*parts, key)) for key in context.asset_partition_keys}
        return self._load(context.get_identifier())

    def _load(self, identifier: Sequence[str]) -> Any:
        path, shown = self._paths(identifier)
        try:
            data = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise NotFound(
                f"no value of {'/'.join(identifier)} is stored: there is no file {shown}",
                remedy="materialize it first, with the same IO manager and base_dir",
            ) from None
        return pickle.loads(data)  # noqa: S301 - written by this class, in the user's own folder

    def _paths(self, identifier: Sequence[str]) -> tuple[Path, Path]:
        """The file of a value, and how to show it: with a variable's name, not its value."""
        parts = [_file_name(part) for part in identifier]
        named = self.__servo_named__().__servo_values__()["base_dir"]
        folders = (self.base_dir or DEFAULT_FOLDER, str(named or DEFAULT_FOLDER))
        return Path(folders[0], *parts), Path(folders[1], *parts)


@io_manager(config_schema=FilesystemIOManager)
def fs_io_manager(context: InitResourceContext) -> FilesystemIOManager:
    """The same, in the older spelling."""
    return FilesystemIOManager(**context.resource_config)


def _file_name(part: str) -> str:
    """A part of a path that is one: no partition may reach outside its folder."""
    name = part.translate(_ESCAPED)
    return name.replace(".", "%2E") if name in {".", ".."} else name or "%"


def _replace(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # One name for each thread, so that what a crash leaves behind is written over.
    partial = path.with_name(f".writing-{os.getpid()}-{threading.get_ident()}")
    try:
        with partial.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """So that the file outlives the machine: the ledger will say that it is there."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
