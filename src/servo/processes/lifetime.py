"""Child processes live as long as their parent, and never see its Ctrl-C."""

import os
import select
import signal
from collections.abc import Generator
from contextlib import contextmanager

from servo.processes.descendants import kill_marked


@contextmanager
def without_ctrl_c() -> Generator[None]:
    """Start processes within this that never see Ctrl-C, even before they ignore it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def die_with(pool: int, mark: str = "") -> None:
    """End this process and all it started when the pool ends, whatever user code is doing."""
    poll = select.poll()
    poll.register(pool, 0)
    poll.poll()  # no event is requested, so only the hang-up is reported
    kill_marked(mark)
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)
