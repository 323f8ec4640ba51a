"""What a pool reports reaches the leader, or is known not to."""

from collections.abc import Callable
from concurrent.futures import Future

from servo.core.events.envelope import Answer, Batch, Status
from servo.core.events.tasks import TaskFinished, TaskOutcome
from servo.core.state.state import State
from servo.errors import Fenced, Invalid, ServoError, Unavailable
from servo.leader.heartbeats import BeatReply
from servo.leader.requests import Beat, Reply
from servo.workers.local_pool.reports import Reports

AWAY = Unavailable("nobody leads", remedy="try again", may_have_applied=False)
TOO_LARGE = Invalid("the event is too large", remedy="say less")
REPLACED = Fenced("another process leads", remedy="wait until it stops")
DONE = TaskFinished(
    run_id="run_1",
    task_key="a:materialize",
    attempt_id="t1",
    exec_id="x1",
    outcome=TaskOutcome.SUCCEEDED,
)


class StandIn:
    """A leader that takes reports, or does not, and answers when the test says so."""

    def __init__(self) -> None:
        self.refuses: Callable[[Batch], ServoError | None] = lambda _: None
        self.taken: list[tuple[Batch, Reply]] = []

    def send(self, batch: Batch, reply: Reply) -> None:
        if (error := self.refuses(batch)) is not None:
            raise error
        self.taken.append((batch, reply))

    def answer(self, value: Answer | ServoError) -> None:
        _, reply = self.taken[-1]
        reply(value)

    # --- what reports do not need -----------------------------------------------------------

    def commit(self, batch: Batch) -> Answer:
        raise NotImplementedError

    def beat(self, beat: Beat) -> "Future[BeatReply]":
        raise NotImplementedError

    def wake(self) -> None:
        raise NotImplementedError

    def watch(self, look: Callable[[State], None]) -> None:
        raise NotImplementedError


APPLIED = Answer(status=Status.APPLIED, seq=1)


def events(leader: StandIn) -> list[object]:
    return [event for batch, _ in leader.taken for event in batch.events]


def test_an_execution_counts_as_reported_until_the_leader_has_answered() -> None:
    leader = StandIn()
    reports = Reports(leader, "worker:w")
    reports.tell(DONE)
    assert reports.about("x1")
    leader.answer(APPLIED)
    assert not reports.about("x1")


def test_a_report_that_nobody_could_take_is_sent_again() -> None:
    leader = StandIn()
    reports = Reports(leader, "worker:w")
    leader.refuses = lambda _: AWAY
    reports.tell(DONE)
    reports.again()
    assert leader.taken == []
    assert reports.about("x1")
    leader.refuses = lambda _: None
    reports.again()
    assert events(leader) == [DONE]


def test_a_report_that_was_lost_with_its_leader_is_sent_again_under_the_same_id() -> None:
    leader = StandIn()
    reports = Reports(leader, "worker:w")
    reports.tell(DONE)
    leader.answer(AWAY)
    assert reports.about("x1")
    reports.again()
    first, second = leader.taken
    assert first[0] == second[0]


def test_a_report_that_the_ledger_cannot_take_becomes_a_failure_that_says_so() -> None:
    leader = StandIn()
    reports = Reports(leader, "worker:w")
    leader.refuses = lambda batch: TOO_LARGE if batch.events == (DONE,) else None
    reports.tell(DONE)
    (told,) = events(leader)
    assert isinstance(told, TaskFinished)
    assert (told.exec_id, told.outcome) == ("x1", TaskOutcome.FAILED)
    assert told.error is not None
    assert "the event is too large" in told.error.message
    assert not told.error.retriable


def test_what_another_leader_has_taken_over_is_not_reported_any_more() -> None:
    leader = StandIn()
    reports = Reports(leader, "worker:w")
    leader.refuses = lambda _: REPLACED
    reports.tell(DONE)
    assert not reports.about("x1")
