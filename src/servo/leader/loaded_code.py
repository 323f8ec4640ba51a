"""The code that a leader has loaded, so that other processes can compare theirs with it."""

import msgspec


class LoadedCode(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A code location as a leader last looked at it.

    `code` is its file or module. `files` are digests of its source files, by their paths in its
    folder. `error` says why this version could not be loaded; an earlier one may be in use.
    """

    code: str
    files: dict[str, str] = {}
    error: str = ""
