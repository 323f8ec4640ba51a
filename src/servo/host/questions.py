"""Requests that need user code, sent to the leader.

A permanent leader (`servo dev`) has evaluators with the code of its locations. Other processes use
them, so a command that plans a run beside it imports no user code.

The leader answers with the current files: after an edit, the request waits until the edit is
loaded, and is refused if it cannot be loaded.
"""

from collections.abc import Callable, Mapping

import msgspec

from servo.code.evaluator.messages import EvaluatorAnswer, EvaluatorQuestion, answers, questions
from servo.errors import Conflict, NotFound
from servo.leader.lease import LeaderAdvert
from servo.operations.interface.evaluating import Evaluates
from servo.workspace.answering import check_answers
from servo.workspace.connecting import can_connect, connect
from servo.workspace.leader_connection import AskCode

LONGEST = 60.0
"""Seconds that a leader takes for a question: its evaluators are wanted for schedules as well."""

BEYOND = 25.0
"""Seconds beside those: for an edit that is being loaded, and for a process that starts."""


class AnsweredCode(msgspec.Struct, frozen=True, kw_only=True):
    """A location that a leader answers for: its code and its evaluator."""

    place: str
    evaluates: Evaluates


def nothing_to_load(location: str) -> None:
    """The code of a leader that follows no edits is what it was when it started."""
    del location


class CodeQuestions:
    """Answers other processes for a leader. `load_edits` returns when the code of a location is
    loaded as its files are now, or raises why it is not.
    """

    def __init__(self, locations: Mapping[str, AnsweredCode]) -> None:
        self._locations = locations
        self.load_edits: Callable[[str], None] = nothing_to_load

    def answer(self, asked: AskCode) -> bytes:
        """The answer to a question, as an evaluator gives it."""
        found = self._locations.get(asked.location)
        if found is None:
            raise NotFound(
                f"the leader runs without {asked.location}",
                remedy=f"restart it with {asked.location} as well",
            )
        if asked.place and asked.place != found.place:
            raise Conflict(
                f"the leader runs another {asked.location}: {found.place}, not {asked.place}",
                remedy="stop it, or use another store or workspace",
            )
        self.load_edits(asked.location)
        if not asked.question:
            return b""
        question: EvaluatorQuestion = questions.decode(asked.question)
        seconds = min(asked.timeout_ms / 1000, LONGEST)
        return msgspec.msgpack.encode(found.evaluates.ask(question, seconds))


class EvaluatorOfLeader:
    """The evaluators of the leader, for one code location.

    `place` is where this process finds the code, empty if it has none.
    """

    def __init__(self, leader: LeaderAdvert, location: str, place: str = "") -> None:
        self._leader = leader
        self._location = location
        self._place = place

    def ask(self, question: EvaluatorQuestion, seconds: float) -> EvaluatorAnswer:
        """The answer to a question; `Unavailable` if the leader ends or does not answer."""
        return answers.decode(self._asked(msgspec.msgpack.encode(question), seconds))

    def check(self) -> None:
        """`Conflict` if the leader has not loaded this code as it is now."""
        _ = self._asked(b"", BEYOND)

    def _asked(self, question: bytes, seconds: float) -> bytes:
        asked = AskCode(
            location=self._location,
            place=self._place,
            question=question,
            timeout_ms=int(min(seconds, LONGEST) * 1000),
        )
        check_answers(self._leader)
        longest = min(seconds, LONGEST) + BEYOND
        with connect(self._leader, timeout=longest) as connection:
            return connection.ask(asked)


def answers_questions(leader: LeaderAdvert | None) -> bool:
    """Whether this process can ask a leader about its code."""
    return leader is not None and leader.stays and can_connect(leader)
