"""Questions about user code over the socket of a leader."""

import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from servo.code.evaluator.messages import EvaluatorAnswer, EvaluatorQuestion, PlanRun, RunPlanned
from servo.code.sources import loaded_code
from servo.core.plan import Plan
from servo.errors import Conflict, Internal, Invalid, NotFound, Unavailable
from servo.host.questions import (
    AnsweredCode,
    CodeQuestions,
    EvaluatorOfLeader,
    answers_questions,
)
from servo.leader.leases.lease import LeaderAdvert
from servo.leader.loaded_code import LoadedCode
from servo.workspace.address import Address
from servo.workspace.code_location import CodeLocation
from servo.workspace.leader_connection import LeaderNotReady
from servo.workspace.leader_socket.server import LeaderServer
from servo.workspace.registry import machine_id

QUESTION = PlanRun(select=("orders",), config={"ops": {"a": [1, None, {"b": "ü"}]}})
SHOP = CodeLocation(name="shop.py", code="shop.py", folder="/here")
PLANNED = RunPlanned(plan=Plan(), location="shop.py", labels={"k": "v"})


def code_in(folder: Path) -> CodeLocation:
    folder.mkdir()
    _ = (folder / "shop.py").write_text("code")
    return CodeLocation(name="shop.py", code="shop.py", folder=str(folder))


class Remembering:
    """An evaluator that gives one answer and remembers what it was asked."""

    def __init__(self, answer: EvaluatorAnswer = PLANNED) -> None:
        self.asked: list[tuple[EvaluatorQuestion, float]] = []
        self._answer = answer

    def ask(self, question: EvaluatorQuestion, seconds: float) -> EvaluatorAnswer:
        self.asked.append((question, seconds))
        return self._answer


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[LeaderServer]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))

    def refuse(*_: object) -> Any:
        raise Invalid("no batches here", remedy="ask a question")

    made = LeaderServer(Address.of(str(tmp_path / ".servo")), refuse)
    yield made
    made.close()


def leader_at(server: LeaderServer, **other: Any) -> LeaderAdvert:
    fields: dict[str, Any] = {
        "stays": True,
        "machine": machine_id(),
        "socket": server.path,
        **other,
    }
    return LeaderAdvert(pid=1, locations=("shop.py",), **fields)


def answering(server: LeaderServer, evaluator: Remembering) -> CodeQuestions:
    code = AnsweredCode(place=SHOP.place, evaluates=evaluator)
    questions = CodeQuestions({"shop.py": code}, {"shop.py": LoadedCode(code="shop.py")})
    server.answer_question = questions.answer
    return questions


def test_a_question_is_answered_by_the_evaluator_of_its_location(server: LeaderServer) -> None:
    evaluator = Remembering()
    _ = answering(server, evaluator)
    leader = leader_at(server)
    assert EvaluatorOfLeader(leader, SHOP).ask(QUESTION, 600) == PLANNED
    assert evaluator.asked == [(QUESTION, 60.0)]


def test_another_version_of_the_code_is_refused_and_the_same_elsewhere_is_not(
    server: LeaderServer, tmp_path: Path
) -> None:
    evaluator = Remembering()
    here, there = code_in(tmp_path / "here"), code_in(tmp_path / "there")
    loaded = loaded_code(here, [str(tmp_path / "here" / "shop.py")])
    questions = CodeQuestions(
        {"shop.py": AnsweredCode(place=here.place, evaluates=evaluator)}, {"shop.py": loaded}
    )
    server.answer_question = questions.answer
    leader = leader_at(server)
    for same in (here, there):
        assert EvaluatorOfLeader(leader, same, here=True).ask(QUESTION, 1) == PLANNED
    _ = (tmp_path / "there" / "shop.py").write_text("edited")
    with pytest.raises(Conflict, match=r"another version of shop.py, /.*: shop.py differs"):
        EvaluatorOfLeader(leader, there, here=True).ask(QUESTION, 1)
    assert EvaluatorOfLeader(leader, there).ask(QUESTION, 1) == PLANNED, "it does not use its own"
    with pytest.raises(NotFound, match=r"runs without other.py"):
        EvaluatorOfLeader(leader, replace(SHOP, name="other.py")).ask(QUESTION, 1)
    assert len(evaluator.asked) == 3


def test_a_question_waits_until_an_edit_is_loaded(server: LeaderServer) -> None:
    evaluator = Remembering()
    questions = answering(server, evaluator)
    reached, loaded = threading.Event(), threading.Event()

    def load(location: str) -> None:
        assert location == "shop.py"
        reached.set()
        assert loaded.wait(30)

    questions.load_edits = load
    leader = leader_at(server)
    found: list[EvaluatorAnswer] = []
    asking = threading.Thread(
        target=lambda: found.append(EvaluatorOfLeader(leader, SHOP).ask(QUESTION, 60))
    )
    asking.start()
    assert reached.wait(30)
    assert evaluator.asked == []
    loaded.set()
    asking.join(30)
    assert found == [PLANNED]


def test_code_that_cannot_be_loaded_answers_nothing(server: LeaderServer) -> None:
    evaluator = Remembering()
    questions = answering(server, evaluator)

    def broken(location: str) -> None:
        raise Invalid(f"{location} is not loaded: SyntaxError", remedy="fix the code")

    questions.load_edits = broken
    asked = EvaluatorOfLeader(leader_at(server), SHOP)
    with pytest.raises(Invalid, match="SyntaxError"):
        asked.ask(QUESTION, 1)
    with pytest.raises(Invalid, match="SyntaxError"):
        asked.check()
    questions.load_edits = lambda _: None
    asked.check()
    assert evaluator.asked == []


def test_a_bug_of_the_leader_is_told_and_the_next_question_is_answered(
    server: LeaderServer,
) -> None:
    questions = answering(server, Remembering())

    def fails(location: str) -> None:
        raise ZeroDivisionError(location)

    questions.load_edits = fails
    asked = EvaluatorOfLeader(leader_at(server), SHOP)
    with pytest.raises(Internal, match="ZeroDivisionError"):
        asked.ask(QUESTION, 1)
    questions.load_edits = lambda _: None
    assert asked.ask(QUESTION, 1) == PLANNED


def test_a_leader_that_is_starting_or_has_ended_is_not_said_to_lack_the_code(
    server: LeaderServer,
) -> None:
    leader = leader_at(server)
    with pytest.raises(LeaderNotReady):
        EvaluatorOfLeader(leader, SHOP).ask(QUESTION, 1)
    server.close()
    with pytest.raises(Unavailable) as gone:
        EvaluatorOfLeader(leader, SHOP).ask(QUESTION, 1)
    assert not gone.value.may_have_applied


def test_only_a_leader_of_this_machine_that_stays_is_asked(server: LeaderServer) -> None:
    assert answers_questions(leader_at(server))
    assert not answers_questions(None)
    assert not answers_questions(leader_at(server, stays=False))
    assert not answers_questions(leader_at(server, machine="another"))
    assert not answers_questions(leader_at(server, socket=""))
