"""Servo's table in a file on disk: all of a `servo.toml`, or `[tool.servo]` in a `pyproject.toml`.

A file that cannot be read is refused, never passed over: its `store` would be ignored, and a
second workspace created in silence. Only a `pyproject.toml` without a word about Servo is somebody
else's business, whatever is wrong with it.
"""

import tomllib
from pathlib import Path
from typing import Any, cast

from servo.errors import Invalid

SERVO_TOML = "servo.toml"
PYPROJECT = "pyproject.toml"
TABLE = "tool.servo"

TomlTable = dict[str, Any]


def table_of_servo_toml(path: Path) -> TomlTable | None:
    """The content of a `servo.toml`; None if there is no such file."""
    data = _bytes(path)
    return None if data is None else _parsed(path, _decoded(path, data))


def table_of_pyproject(path: Path) -> TomlTable | None:
    """Servo's table in a `pyproject.toml`; None if it has none. Its other errors are ignored."""
    data = _bytes(path)
    if data is None or b"servo" not in data.replace(b"\0", b""):  # null bytes: it may be UTF-16
        return None
    if not _mentions_table(data):
        return None
    tools: Any = _parsed(path, _decoded(path, data)).get("tool")
    found: Any = cast("TomlTable", tools).get("servo") if isinstance(tools, dict) else None
    if not isinstance(found, dict):
        raise Invalid(
            f"{path}: {TABLE} is not a table",
            remedy=f'write [{TABLE}] on a line of its own, and keys such as store = "…" below it',
        )
    return cast("TomlTable", found)


def _mentions_table(data: bytes) -> bool:
    """Whether there is a table of Servo in a file, even if other parts of it are broken."""
    text = data.replace(b"\0", b"").decode(errors="replace")
    try:
        tools: Any = tomllib.loads(text).get("tool")
    except (tomllib.TOMLDecodeError, RecursionError):
        return f"[{TABLE}" in text
    return isinstance(tools, dict) and "servo" in tools


def _bytes(path: Path) -> bytes | None:
    try:
        if not path.is_file() and path.exists():  # reading a named pipe would wait for its writer
            raise Invalid(f"{path} is not a regular file", remedy="rename or delete it")
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        if not path.is_symlink():
            return None
        raise Invalid(f"{path} links to no file", remedy="correct or delete the link") from None
    except OSError as error:
        raise Invalid(
            f"{path} cannot be read: {error.strerror}",
            remedy="make it a readable file, or delete it",
        ) from None


def _decoded(path: Path, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Invalid(f"{path} is not UTF-8 (line {line})", remedy="save it as UTF-8") from None


def _parsed(path: Path, text: str) -> TomlTable:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Invalid(f"{path} is not valid TOML: {error}", remedy="correct it") from None
    except RecursionError:
        raise Invalid(f"{path} is nested too deeply", remedy="correct it") from None
