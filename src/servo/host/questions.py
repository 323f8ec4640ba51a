"""Requests that need user code, sent to the leader.

A permanent leader (`servo dev`) has evaluators with the code of its locations. Other processes use
them, so a command that plans a run beside it imports no user code.

The leader answers with the current files: after an edit, the request waits until the edit is
loaded, and is refused if it cannot be loaded.
"""

from collections.abc import Callable, Mapping

import msgspec

from servo.code.evaluator.messages import EvaluatorAnswer, EvaluatorQuestion, answers, questions
from servo.code.sources import difference
from servo.errors import Conflict, NotFound
from servo.leader.leases.lease import LeaderAdvert
from servo.leader.loaded_code import LoadedCode
from servo.operations.interface.evaluating import Evaluates
from servo.workspace.answering import check_answers
from servo.workspace.code_location import CodeLocation
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
    loaded as its files are now, or raises why it is not. `loaded` is what is loaded.
    """

    def __init__(
        self, locations: Mapping[str, AnsweredCode], loaded: Mapping[str, LoadedCode]
    ) -> None:
        self._locations = locations
        self._loaded = loaded
        self.load_edits: Callable[[str], None] = nothing_to_load

    def answer(self, asked: AskCode) -> bytes:
        """The answer to a question, as an evaluator gives it."""
        found = self._locations.get(asked.location)
        if found is None:
            raise NotFound(
                f"the leader runs without {asked.location}",
                remedy=f"restart it with {asked.location} as well",
            )
        self.load_edits(asked.location)
        if asked.place and asked.place != found.place:
            self._refuse_other_version(asked)
        if not asked.question:
            return b""
        question: EvaluatorQuestion = questions.decode(asked.question)
        seconds = min(asked.timeout_ms / 1000, LONGEST)
        return msgspec.msgpack.encode(found.evaluates.ask(question, seconds))

    def _refuse_other_version(self, asked: AskCode) -> None:
        """`Conflict` if the code in the caller's folder is not what is loaded here."""
        differs = difference(self._loaded[asked.location], asked.code, asked.folder)
        if differs:
            place = self._locations[asked.location].place
            raise Conflict(
                f"the leader runs another version of {asked.location}, {place}: {differs}",
                remedy="use the same version in both folders, or stop that leader",
            )


class EvaluatorOfLeader:
    """The evaluators of the leader, for one code location.

    `here` says that this process has the code of the location as well, in its folder.
    """

    def __init__(self, leader: LeaderAdvert, location: CodeLocation, *, here: bool = False) -> None:
        self._leader = leader
        self._location = location
        self._here = here

    def ask(self, question: EvaluatorQuestion, seconds: float) -> EvaluatorAnswer:
        """The answer to a question; `Unavailable` if the leader ends or does not answer."""
        return answers.decode(self._asked(msgspec.msgpack.encode(question), seconds))

    def check(self) -> None:
        """`Conflict` if the leader has not loaded this code as it is now."""
        _ = self._asked(b"", BEYOND)

    def _asked(self, question: bytes, seconds: float) -> bytes:
        asked = AskCode(
            location=self._location.name,
            place=self._location.place if self._here else "",
            code=self._location.code,
            folder=self._location.folder,
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
