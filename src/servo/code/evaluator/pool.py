"""Evaluator processes, as whoever asks them sees it.

Each is warm: started when it is first needed, and kept. A question is answered within its time, or
the process is killed with everything that user code has started there, and the answer says so. A
process that ends by itself, or cannot import the code, is an answer too: nothing that user code
does is an exception here, and nothing it does keeps another question waiting for longer than
there are processes to ask.
"""

import os
import re
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
from servo.code.evaluator.process import EvaluatorSetup
from servo.code.process_setup import RECEIVE_BYTES, ProcessSetup
from servo.ports.clock import Clock
from servo.ports.entropy import Entropy
from servo.processes.descendants import MARK, kill_marked
from servo.processes.frames import Frames, framed
from servo.processes.lifetime import without_ctrl_c

IMPORT_SECONDS = 120.0
SIZE = 2
ANSWER = "answer"

# A trigger's row keeps the error of its last evaluation. `was_lost` recognizes these two there.
_ENDED = "the evaluator process ended with {code}"
_HUNG = "it took longer than {seconds} s to {task} and was stopped"
_LOST = re.compile(f"{_ENDED}|{_HUNG}".format(code=r"-?\d+", seconds=r"\S+", task=ANSWER))


class NoAnswer(Exception):
    """An evaluator did not answer, and why."""


class EvaluatorPool:
    """Asks evaluators, of which there are a few. Any thread may ask."""

    def __init__(
        self,
        setup: ProcessSetup,
        salt: Callable[[], bytes],
        *,
        clock: Clock,
        entropy: Entropy,
        size: int = SIZE,
    ) -> None:
        self._setup = setup
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
            except NoAnswer as why:
                return Evaluated(error=str(why), unasked=True)
            try:
                answer = evaluator.ask(question, seconds)
            except NoAnswer as why:
                self._drop(evaluator)
                return Evaluated(error=str(why))
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
                raise NoAnswer("the evaluators have been stopped")
            if self._idle:
                return self._idle.pop()
            evaluator = _EvaluatorProcess(
                EvaluatorSetup(setup=self._setup, salt=self._salt()),
                self._generation,
                self._clock,
                mark=self._entropy.token_bytes(16).hex(),
            )
            self._all.add(evaluator)
        try:
            evaluator.begin()
        except NoAnswer:
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

    def __init__(self, place: EvaluatorSetup, generation: int, clock: Clock, *, mark: str) -> None:
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
                cwd=place.setup.location.folder,
                env={**os.environ, MARK: self._mark},
                start_new_session=True,
            )
        with suppress(OSError):  # gone already, which is noticed when it is asked
            self._socket.sendall(framed(msgspec.msgpack.encode(place)))

    def begin(self) -> None:
        """Wait until it has imported the code."""
        started = self._next(IMPORT_SECONDS, "import the code")
        if isinstance(started, Started) and started.error:
            raise NoAnswer(started.error)

    def ask(self, question: EvaluatorQuestion, seconds: float) -> EvaluatorAnswer:
        """Its answer; `NoAnswer` if it has none in time."""
        try:
            self._socket.settimeout(seconds)
            self._socket.sendall(framed(msgspec.msgpack.encode(question)))
        except OSError:
            raise NoAnswer("the evaluator process ended before the request") from None
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
            raise NoAnswer(_HUNG.format(seconds=f"{seconds:g}", task=what)) from None
        except OSError:
            pass
        except msgspec.MsgspecError as error:
            raise NoAnswer(f"its answer cannot be read: {error}") from None
        ended = _ENDED.format(code=self._wait())  # its socket is closed by its end alone
        raise NoAnswer(ended if what == ANSWER else f"{ended} before it could {what}")


def was_lost(error: str) -> bool:
    """Whether this stored error says that the process hung, or ended, while it answered."""
    return _LOST.fullmatch(error) is not None
