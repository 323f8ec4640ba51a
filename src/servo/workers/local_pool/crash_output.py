"""The last output of a worker process that died, and where it crashed.

A process stores the output of its execution every second, and the rest when the execution ends. If
it dies, the rest is still in its file, and the pool stores it, unless the process knew a secret:
the pool could not find the secret in the text.
"""

import re
from contextlib import suppress
from pathlib import PurePath

from servo.errors import NotFound, ServoError
from servo.ports.object_store import ObjectStore
from servo.processes.own_code import is_machinery

WITHHELD = "(the end of its output is not kept because it may contain secrets)\n"

_FRAME = re.compile(r'^  File "(?P<file>.+)", line (?P<line>\d+) in (?P<name>.+)$', re.MULTILINE)


def store_crash_output(store: ObjectStore, key: str, printed: bytes | None, crash: str) -> None:
    """Store the last output of an execution, None if it may hold secrets, and its crash."""
    if printed == b"" and not crash:
        return
    # Losing it must not stop the pool.
    with suppress(ServoError):
        if printed is None:
            with suppress(NotFound):
                printed = store.get(key).data
            printed = (printed or b"") + WITHHELD.encode()
        store.put(key, printed + crash.encode(errors="replace"))


def without_servo_frames(crash: str) -> str:
    """Where a process crashed, without the frames of Servo and what only a debugger needs."""
    lines = crash.partition("\n\nExtension modules:")[0].splitlines()
    kept = [line for line in lines if not _is_machinery(line) and "<frozen" not in line]
    return "".join(f"{line}\n" for line in kept)


def _is_machinery(line: str) -> bool:
    frame = _FRAME.match(line)
    return frame is not None and is_machinery(frame["file"])


def crash_place(crash: str, folder: str) -> str:
    """Where in the user's own code a process crashed; empty if that is not known."""
    for frame in _FRAME.finditer(crash):
        file = PurePath(frame["file"])
        if file.is_relative_to(folder) and "site-packages" not in file.parts:
            return f"{frame['name']} ({file.relative_to(folder)}:{frame['line']})"
    return ""
