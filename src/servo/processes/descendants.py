"""Killing every process that user code started, daemons included.

A worker process leads a process group, and its group is killed when it ends; a daemon leaves the
group. So a worker has a mark in its environment, which everything it starts inherits, and every
process with the mark is killed too. To outlive the worker, a process must be started without it:

    subprocess.Popen(command, env={k: v for k, v in os.environ.items() if k != "SERVO_WORKER"})

Where the system does not show environments (macOS, processes of other users) only the group is
killed.
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
    """Kill a process if it has the mark; whether it had it and was alive."""
    if number == os.getpid() or not _has(number, mark):
        return False
    with suppress(OSError, AttributeError):  # ended, or not ours to kill
        # Keep a handle while checking again: its number may belong to another process by now.
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
