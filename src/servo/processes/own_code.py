"""Which frames of a traceback belong to Servo, so that users see only theirs.

Files are compared with the folder of the installed package: a user's project may well live in a
folder called `servo`.
"""

from pathlib import Path

PACKAGE = f"{Path(__file__).parents[1]}/"
_MACHINERY = tuple(f"{PACKAGE}{room}/" for room in ("execution", "workers", "processes", "code"))


def is_own(file: str) -> bool:
    """Whether a file is part of Servo."""
    return file.startswith(PACKAGE)


def is_machinery(file: str) -> bool:
    """Whether a file only calls user code, and so says nothing about that code."""
    return file.startswith(_MACHINERY)
