"""How a program is told its context, and how its messages come back.

An injector and a reader each give parameters, which the program finds in its environment. A reader
hands every message to the handler while the program runs, and has handed over the last one when it
is left: so whoever leaves it after the program has ended has missed nothing.
"""

import json
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, cast

from servo.execution.pipes.handler import PipesMessageHandler

LOOK_EVERY = 0.05

PipesParams = dict[str, Any]


class PipesContextInjector(ABC):
    """Puts the context where the program finds it."""

    @abstractmethod
    def inject_context(self, context: PipesParams) -> AbstractContextManager[PipesParams]:
        """Parameters that say where it is, around its use."""

    def no_messages_debug_text(self) -> str:
        """What to look at when the program says nothing."""
        return f"the context was given by {type(self).__name__}"


class PipesEnvContextInjector(PipesContextInjector):
    """Puts the context into the environment itself; small ones only."""

    @contextmanager
    def inject_context(self, context: PipesParams) -> Generator[PipesParams]:
        yield {"data": context}


class PipesFileContextInjector(PipesContextInjector):
    """Writes the context to a file of this path, and removes it afterwards."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    @contextmanager
    def inject_context(self, context: PipesParams) -> Generator[PipesParams]:
        self._path.write_text(json.dumps(context), encoding="utf-8")
        try:
            yield {"path": str(self._path)}
        finally:
            self._path.unlink(missing_ok=True)


class PipesTempFileContextInjector(PipesContextInjector):
    """Writes the context to a file that only this user can read."""

    @contextmanager
    def inject_context(self, context: PipesParams) -> Generator[PipesParams]:
        with tempfile.TemporaryDirectory(prefix="servo-pipes-") as folder:
            inner = PipesFileContextInjector(str(Path(folder) / "context"))
            with inner.inject_context(context) as params:
                yield params


class PipesMessageReader(ABC):
    """Takes the messages of a program to the handler."""

    @abstractmethod
    def read_messages(self, handler: PipesMessageHandler) -> AbstractContextManager[PipesParams]:
        """Parameters that say where messages go, around the reading of them."""

    def no_messages_debug_text(self) -> str:
        """What to look at when the program says nothing."""
        return f"messages were read by {type(self).__name__}"


class PipesFileMessageReader(PipesMessageReader):
    """Follows a file of this path, one message a line."""

    def __init__(self, path: str, *, remove: bool = True) -> None:
        self._path = Path(path)
        self._remove = remove

    @contextmanager
    def read_messages(self, handler: PipesMessageHandler) -> Generator[PipesParams]:
        self._path.touch()
        over = threading.Event()
        follower = threading.Thread(
            target=_follow, args=(self._path, handler, over), name="servo-pipes", daemon=True
        )
        follower.start()
        try:
            yield {"path": str(self._path)}
        finally:
            over.set()
            follower.join()
            if self._remove:
                self._path.unlink(missing_ok=True)


class PipesTempFileMessageReader(PipesMessageReader):
    """Follows a file that only this user can read."""

    @contextmanager
    def read_messages(self, handler: PipesMessageHandler) -> Generator[PipesParams]:
        with tempfile.TemporaryDirectory(prefix="servo-pipes-") as folder:
            inner = PipesFileMessageReader(str(Path(folder) / "messages"))
            with inner.read_messages(handler) as params:
                yield params


def _follow(path: Path, handler: PipesMessageHandler, over: threading.Event) -> None:
    """Hand over every line as it is completed, and at the end what is left."""
    held = b""
    with path.open("rb") as file:
        while True:
            # Asked before the file is read: what was written before the end is then read too.
            last = over.is_set()
            *lines, held = (held + file.read()).split(b"\n")
            for line in lines:
                _hand_over(line, handler)
            if last:
                break
            over.wait(LOOK_EVERY)
    _hand_over(held, handler)


def _hand_over(line: bytes, handler: PipesMessageHandler) -> None:
    if not line.strip():
        return
    message: Any = None
    with suppress(ValueError, RecursionError):
        message = json.loads(line)
    if isinstance(message, dict):
        handler.handle_message(cast("PipesParams", message))
    else:
        shown = line[:200].decode(errors="replace")
        handler.report_pipes_framework_message(f"this is not a message: {shown}")
