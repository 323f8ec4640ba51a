"""Whatever user code started, however far it went to be on its own.

A worker process leads a process group, and its group is killed when it ends; a daemon leaves the
group. So a worker has a mark in its environment, which everything it starts inherits, and who has
the mark is killed too. What is meant to live on has to be started without it:

    subprocess.Popen(command, env={k: v for k, v in os.environ.items() if k != "SERVO_WORKER"})

Where the system does not show environments (macOS, other people's processes) only the group goes.
"""

import os
import signal
from contextlib import suppress
from pathlib import Path

MARK = "SERVO_WORKER"
ROUNDS = 5


def kill_marked(mark: str) -> None:
    """Kill every process that has this mark, except this one."""
    # Again and again: one may have started another while we looked.
    for _ in range(ROUNDS if mark else 0):
        if not sum(_kill(number, mark) for number in _processes()):
            return


def _processes() -> list[int]:
    try:
        return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    except OSError:
        return []


def _kill(number: int, mark: str) -> bool:
    """Kill a process if it has the mark; whether it had, and lived."""
    if number == os.getpid() or not _has(number, mark):
        return False
    with suppress(OSError, AttributeError):  # gone, or not ours to kill
        # Held by a handle while it is looked at again: its number may be another's by now.
        handle = os.pidfd_open(number)
        try:
            if _has(number, mark):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                return True
        finally:
            os.close(handle)
    return False


def _has(number: int, mark: str) -> bool:
    try:
        environment = Path(f"/proc/{number}/environ").read_bytes()
    except OSError:
        return False
    return f"{MARK}={mark}".encode() in environment.split(b"\0")
