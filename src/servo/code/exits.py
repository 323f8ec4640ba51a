"""`os._exit` in code that is being imported, which would end the importing process silently.

While code is imported, the call raises `SystemExit` instead, so that it is reported with file and
line like any other error. Everywhere else, in another thread and in a
process that the code has forked, it does what it always does.
"""

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import NoReturn


@contextmanager
def exits_raised() -> Generator[None]:
    """Make `os._exit` raise `SystemExit` in this thread of this process."""
    real, here = os._exit, _where()
    importing = True

    def told(status: int) -> NoReturn:
        if importing and _where() == here:  # code that kept a reference may call it much later
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
