"""`os._exit` in code that is being imported, which would end whoever imports it without a word.

While code is imported, the call raises `SystemExit` with what was called, so that it is told by
file and line like anything else that goes wrong there. Everywhere else, in another thread and in a
process that the code has forked, it does what it always does.
"""

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import NoReturn


@contextmanager
def exits_raised() -> Generator[None]:
    """Have `os._exit` raise `SystemExit` in this thread of this process."""
    real, here = os._exit, _where()
    importing = True

    def told(status: int) -> NoReturn:
        if importing and _where() == here:  # who kept the name may call it much later
            raise SystemExit(f"it calls os._exit({status}), which ends the process that imports it")
        real(status)

    os._exit = told
    try:
        yield
    finally:
        importing = False
        os._exit = real


def _where() -> tuple[int, int]:
    return os.getpid(), threading.get_ident()
