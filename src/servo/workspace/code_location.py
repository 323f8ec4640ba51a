"""Where the code of a workspace is."""

import os
from pathlib import Path

import msgspec

from servo.core.retry import RetryRules


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
        """The identity of the code, different from code with the same name elsewhere."""
        if self.code.endswith(".py"):
            return os.path.realpath(Path(self.folder, self.code))
        return f"{self.code} in {self.folder}"
