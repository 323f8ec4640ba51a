"""Texts that a command reads from files and standard input; they are UTF-8."""

import sys
from pathlib import Path

from servo.errors import Invalid, NotFound
from servo.workspace.typed_paths import is_file


def read_text_file(path: Path, *, remedy: str) -> str:
    """What a file contains; `remedy` is for a file that does not exist."""
    if not is_file(path):
        raise NotFound(f"there is no file {path}", remedy=remedy)
    try:
        return path.read_text()
    except OSError as error:
        raise Invalid(
            f"{path} cannot be read: {error.strerror}", remedy="make it readable for this user"
        ) from None
    except UnicodeDecodeError:
        raise Invalid(f"{path} is not UTF-8", remedy="save it as UTF-8") from None


def read_standard_input() -> str:
    """What is typed or piped into a command."""
    try:
        return sys.stdin.read()
    except UnicodeDecodeError:
        raise Invalid("standard input is not UTF-8", remedy="convert it first") from None
