"""Evaluator processes, as whoever asks them sees it.

Each is warm: started when it is first needed, and kept. A question is answered within its time, or
the process is killed with everything that user code has started there, and the answer says so. A
process that ends by itself, or cannot import the code, is an answer too: nothing that user code
does is an exception here, and nothing it does keeps another question waiting for longer than
there are processes to ask.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from servo.code.evaluator.messages import (
    Evaluated,
    EvaluatorAnswer,
    EvaluatorQuestion,
    Started,
    answers,
)
from servo.code.evaluator.process import EvaluatorSetting
from servo.code.setting import RECEIVE_BYTES, Setting
from servo.ports.clock import Clock
from servo.ports.entropy import Entropy
from servo.processes.descendants import MARK, kill_marked
from servo.processes.frames import Frames, framed
from servo.processes.lifetime import without_ctrl_c

IMPORT_SECONDS = 120.0
SIZE = 2
ANSWER = "answer"
ENDED = "the evaluator process ended with"


class Silent(Exception):
    """An evaluator did not answer, and why."""


class EvaluatorPool:
    """Asks evaluators, of which there are a few. Any thread may ask."""

    def __init__(
        self,
        setting: Setting,
        salt: Callable[[], bytes],
        *,
        clock: Clock,
        entropy: Entropy,
        size: int = SIZE,
    ) -> None:
        self._setting = setting
        self._salt = salt
        self._clock = clock
        self._entropy = entropy
        self._free = threading.Semaphore(size)
        self._lock = threading.Lock()
        self._idle: list[_EvaluatorProcess] = []
        self._all: set[_EvaluatorProcess] = set()
        self._generation = 0
        self._closed = False

    def ask(self, question: EvaluatorQuestion, seconds: float) -> Any:
        """The answer to a question; an `Evaluated` with an error if there is none in time."""
        with self._free:
            try:
                evaluator = self._take()
            except Silent as silence:
                return Evaluated(error=str(silence), unasked=True)
            try:
                answer = evaluator.ask(question, seconds)
            except Silent as silence:
                self._drop(evaluator)
                return Evaluated(error=str(silence))
            except BaseException:
                self._drop(evaluator)
                raise
            self._give_back(evaluator)
            return answer

    @property
    def generation(self) -> int:
        """How often the code has changed."""
        return self._generation

    def renew(self) -> None:
        """Let every process be replaced after what it is doing: the code has changed."""
        with self._lock:
            self._generation += 1
            idle, self._idle = self._idle, []
        for evaluator in idle:
            self._drop(evaluator)

    def close(self) -> None:
        """End every process, whatever it is doing."""
        with self._lock:
            self._closed = True
            found = list(self._all)
        for evaluator in found:
            self._drop(evaluator)

    def _take(self) -> "_EvaluatorProcess":
        with self._lock:
            if self._closed:
                raise Silent("the evaluators have been stopped")
            if self._idle:
                return self._idle.pop()
            evaluator = _EvaluatorProcess(
                EvaluatorSetting(setting=self._setting, salt=self._salt()),
                self._generation,
                self._clock,
                mark=self._entropy.token_bytes(16).hex(),
            )
            self._all.add(evaluator)
        try:
            evaluator.begin()
        except Silent:
            self._drop(evaluator)
            raise
        return evaluator

    def _give_back(self, evaluator: "_EvaluatorProcess") -> None:
        with self._lock:
            if evaluator.generation == self._generation and not self._closed:
                self._idle.append(evaluator)
                return
        self._drop(evaluator)

    def _drop(self, evaluator: "_EvaluatorProcess") -> None:
        with self._lock:
            self._all.discard(evaluator)
        evaluator.end()


class _EvaluatorProcess:
    """One process and the socket to it."""

    def __init__(
        self, place: EvaluatorSetting, generation: int, clock: Clock, *, mark: str
    ) -> None:
        self.generation = generation
        self._clock = clock
        self._ending = threading.Lock()
        self._socket, theirs = socket.socketpair()
        self._frames = Frames(answers)
        self._mark = mark
        command = [sys.executable, "-m", "servo.code.evaluator.process"]
        with theirs, without_ctrl_c():
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                [*command, str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                cwd=place.setting.location.folder,
                env={**os.environ, MARK: self._mark},
                start_new_session=True,
            )
        with suppress(OSError):  # gone already, which is noticed when it is asked
            self._socket.sendall(framed(msgspec.msgpack.encode(place)))

    def begin(self) -> None:
        """Wait until it has imported the code."""
        started = self._next(IMPORT_SECONDS, "import the code")
        if isinstance(started, Started) and started.error:
            raise Silent(started.error)

    def ask(self, question: EvaluatorQuestion, seconds: float) -> EvaluatorAnswer:
        """Its answer; `Silent` if it has none in time."""
        try:
            self._socket.settimeout(seconds)
            self._socket.sendall(framed(msgspec.msgpack.encode(question)))
        except OSError:
            raise Silent("the evaluator process ended before the request") from None
        return self._next(seconds, ANSWER)

    def end(self) -> None:
        """Kill it, and all that user code has started there."""
        _ = self._wait()
        self._socket.close()

    def _wait(self) -> int:
        """Its exit code. What is left of its group goes first, while the number is its own, and
        what has left the group is found by its mark.

        One that is ending already keeps the code it ends with.
        """
        with self._ending:
            if self._process.returncode is None:
                with suppress(OSError):
                    os.killpg(self._process.pid, signal.SIGKILL)
                _ = self._process.wait()
                kill_marked(self._mark)
            return self._process.wait()

    def _next(self, seconds: float, what: str) -> EvaluatorAnswer:
        """The next message, which has so long to arrive whole."""
        until = self._clock.monotonic() + seconds
        try:
            while True:
                self._socket.settimeout(max(until - self._clock.monotonic(), 0.001))
                data = self._socket.recv(RECEIVE_BYTES)
                if not data:
                    break
                found = list(self._frames.feed(data))
                if found:
                    return found[0]  # one question is asked at a time
        except TimeoutError:
            raise Silent(f"it took longer than {seconds:g} s to {what} and was stopped") from None
        except OSError:
            pass
        except msgspec.MsgspecError as error:
            raise Silent(f"its answer cannot be read: {error}") from None
        code = self._wait()  # its socket is closed by its end alone
        early = "" if what == ANSWER else f" before it could {what}"
        raise Silent(f"{ENDED} {code}{early}")


def was_lost(error: str) -> bool:
    """Whether there was no answer because the process hung, or ended, over the question."""
    ended = error.startswith(ENDED) and "before" not in error
    return ended or error.endswith(f"s to {ANSWER} and was stopped")
