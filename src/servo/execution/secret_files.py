"""Secrets in files: a folder with one file for each, as Kubernetes and Docker mount them, or one
file with all of them, as JSON or in the style of `.env`.

Files are read whenever a secret is asked for, so that one that was replaced is taken from then on.
No error quotes what stands in a file.
"""

import re
from pathlib import Path, PurePosixPath
from typing import Any, cast

import msgspec

from servo.errors import Invalid

_LINE = re.compile(
    r"""^[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_][\w.-]*)[ \t]*=[ \t]*
    (?: "(?P<double>(?:[^"\\]|\\.)*)" | '(?P<single>[^']*)' | (?P<bare>.*?) )
    [ \t]*(?:(?<=\s)\#.*)?$""",
    re.MULTILINE | re.VERBOSE,
)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


class FileSecrets:
    """Secrets in a folder, or in one file; a path that is not there has none."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def get(self, name: str) -> str | None:
        """The value of a secret, without the newline at its end."""
        if self.path.is_dir():
            return self._in_folder(name)
        if not self.path.exists():
            return None
        text = _read(self.path)
        found = _json(text, self.path) if text.lstrip().startswith("{") else _env(text)
        return found.get(name)

    def _in_folder(self, name: str) -> str | None:
        parts = PurePosixPath(name)
        if parts.is_absolute() or ".." in parts.parts or "\0" in name:
            raise Invalid(
                f"the secret {name!r} would be outside of {self.path}",
                remedy="name a file in that folder",
            )
        path = self.path / parts
        if not path.is_file():
            return None
        text = _read(path)
        return text.removesuffix("\n").removesuffix("\r")

    def __repr__(self) -> str:
        return f"FileSecrets({str(self.path)!r})"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        told = error.strerror or type(error).__name__
    except UnicodeDecodeError:
        told = "it is not UTF-8"
    # Raised here: the error above may hold the bytes.
    raise Invalid(
        f"the secrets in {path} cannot be read: {told}",
        remedy="use a UTF-8 file that this process can read",
    )


def _json(text: str, path: Path) -> dict[str, str]:
    try:
        found: Any = msgspec.json.decode(text)
    except msgspec.MsgspecError:
        found = None
    if not isinstance(found, dict):
        raise Invalid(
            f"{path} is not a JSON object", remedy='use names and values: {"token": "..."}'
        )
    return {name: _as_text(value) for name, value in cast("dict[str, Any]", found).items()}


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _env(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in _LINE.finditer(text):
        double, single, bare = line.group("double", "single", "bare")
        if double is not None:
            value = re.sub(r"\\(.)", _unescaped, double, flags=re.DOTALL)
        else:
            value = single if single is not None else bare
        found[line["name"]] = value
    return found


def _unescaped(match: re.Match[str]) -> str:
    return _ESCAPES.get(match[1], match[1])
