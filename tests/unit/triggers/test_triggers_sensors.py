"""The host of sensors: what is asked when, and what is committed."""

import threading
from collections.abc import Callable, Generator
from datetime import timedelta
from typing import Any

import pytest

from servo.code.evaluator.messages import (
    Evaluated,
    EvaluatedMany,
    EvaluateMessages,
    EvaluateSensor,
    EvaluatorQuestion,
    RequestedRun,
)
from servo.core.declared import KIND_LABEL
from servo.core.events.assets import AssetReported, DynamicPartitionsChanged
from servo.core.events.envelope import Event
from servo.core.events.quotas import QuotaSet
from servo.core.events.runs import PlanCreated, RunRequested, SensorSource
from servo.core.events.sensors import (
    SensorEvalStatus,
    SensorMessageReceived,
    SensorMode,
    SensorPaused,
    SensorUpserted,
)
from servo.core.fold.limits import MAX_MESSAGE_ATTEMPTS
from servo.core.state.rows.automation import SensorEvalRow, SensorStateRow
from servo.core.state.states import SensorStatus
from servo.errors import Conflict
from servo.testing.eventually import eventually
from servo.testing.trigger_host import TriggerHost
from servo.triggers.sensors import Sensors

Answers = Callable[[EvaluatorQuestion], Any]
LIMIT = 2_000
EVENT = threading.Event()


class Office:
    """Evaluators that say what a test wants."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.generation = 0
        self.say: Answers = lambda _: Evaluated()

    def ask(self, question: EvaluatorQuestion, seconds: float) -> Any:
        del seconds
        self.asked.append(question)
        return self.say(question)

    def renew(self) -> None:
        self.generation += 1
        self.asked.append("renewed")

    def close(self) -> None: ...


class Host(TriggerHost):
    """A leader in memory, and a host of sensors whose clock stands still."""

    def __init__(self) -> None:
        self.evaluators = Office()
        super().__init__(self.evaluators, Sensors)

    def define(self, **fields: Any) -> None:
        given: dict[str, Any] = {"sensor_id": "s", "labels": {KIND_LABEL: "poll"}, **fields}
        self.tell(SensorUpserted(**given))

    def look(self, **later: float) -> int:
        """Let time pass, and everything be done that is due then; how much was asked."""
        before = len(self.evaluators.asked)
        self.clock.advance(timedelta(milliseconds=1))
        self.settle(**later)
        return len(self.evaluators.asked) - before

    @property
    def row(self) -> SensorStateRow:
        return self.service.engine.state.sensor_state.rows["s"]

    @property
    def seq(self) -> int:
        return self.service.engine.state.seq

    @property
    def evals(self) -> list[SensorEvalRow]:
        rows = self.recorded("sensor_evals", SensorEvalRow)
        return sorted(rows, key=lambda row: (row.row_version, row.eval_id))


@pytest.fixture
def host() -> Generator[Host]:
    with Host() as host:
        yield host


def asked_run(key: str, fingerprint: str = "fp") -> RequestedRun:
    source = SensorSource(sensor_id="s", eval_id="e")
    requested = RunRequested(
        run_id=f"run_{key}", run_key=key, request_fingerprint=fingerprint, source=source
    )
    return RequestedRun(
        requested=requested, planned=PlanCreated(run_id=f"run_{key}", fingerprint="p")
    )


# --- polls ----------------------------------------------------------------------------------------


def test_an_idle_sensor_writes_nothing_but_a_sign_of_life_every_hour(host: Host) -> None:
    host.define()
    assert host.look() == 1
    assert host.row.last_evaluation_at is not None
    seq = host.seq
    for _ in range(20):
        assert (host.look(seconds=30), host.seq) == (1, seq)
    assert host.look(seconds=5) == 0
    host.look(hours=1)
    assert host.seq == seq + 1
    assert host.evals == []


@pytest.mark.parametrize("idle", [timedelta(0), timedelta(hours=10)])
def test_a_sensor_keeps_its_interval_when_a_clock_that_was_a_year_ahead_is_put_right(
    host: Host, idle: timedelta
) -> None:
    host.define()
    host.clock.jump(timedelta(days=365))
    assert host.look(minutes=1) == 1
    host.clock.advance(idle)
    assert host.look(minutes=1) == 1
    host.clock.jump(-timedelta(days=365))
    assert host.look(seconds=10) == 0
    assert host.look(seconds=25) == 1
    seq = host.seq
    assert host.look(hours=2) == 1
    assert host.seq == seq + 1, "a sign of life"


def test_messages_are_evaluated_when_a_clock_that_was_a_year_ahead_is_put_right(
    host: Host,
) -> None:
    host.clock.jump(timedelta(days=365))
    host.define(mode=SensorMode.PUSH, labels={KIND_LABEL: "push"})
    host.clock.jump(-timedelta(days=365))
    host.tell(SensorMessageReceived(sensor_id="s", message_id="m", payload="1"))
    host.evaluators.say = lambda _: EvaluatedMany(answers=(Evaluated(),))
    assert host.look() == 1
    assert host.row.messages_waiting == 0


def test_a_reason_is_recorded_when_it_is_another_one(host: Host) -> None:
    host.define()
    words = ["closed", "closed", "open", "open", "closed"]
    for word in words:
        host.evaluators.say = lambda _, word=word: Evaluated(skipped=word)
        host.look(minutes=1)
    assert [row.message for row in host.evals] == ["closed", "open", "closed"]


def test_runs_and_cursor_are_committed_together(host: Host) -> None:
    host.define()
    host.evaluators.say = lambda _: Evaluated(runs=(asked_run("a"),), cursor="7")
    host.look()
    assert (host.row.cursor, host.row.state_version) == ("7", 1)
    assert "run_a" in host.service.engine.state.runs.rows
    assert host.evals[0].run_keys == ("a",)
    host.look(minutes=1)
    assert host.evaluators.asked[-1].cursor == "7"


def test_what_is_said_of_assets_is_recorded_with_the_evaluation_or_not_at_all(host: Host) -> None:
    host.define()
    made = AssetReported(asset_key="a", materialization_id="m1")
    host.evaluators.say = lambda _: Evaluated(reported=(made,))
    host.look()
    [row] = host.evals
    assert (row.status, row.message) == (SensorEvalStatus.SKIPPED, "asset events: 1")
    assert host.service.engine.state.assets.rows["a"].last_materialization_id == "m1"
    host.evaluators.say = lambda _: Evaluated(reported=(made,), cursor="7")
    host.look(minutes=1)
    assert host.evals[-1].status is SensorEvalStatus.FAILED
    assert "known_materialization" in host.evals[-1].message
    assert host.row.cursor is None


def test_a_failure_is_recorded_and_backed_off(host: Host) -> None:
    host.define()
    host.evaluators.say = lambda _: Evaluated(error="down", cursor="lost")
    assert [host.look(seconds=30) for _ in range(6)] == [1, 0, 1, 0, 0, 0]
    row = host.row
    assert (row.status, row.consecutive_failures, row.cursor) == (SensorStatus.ERROR, 2, None)
    host.evaluators.say = lambda _: Evaluated()
    host.look(minutes=15)
    assert (host.row.status, host.row.consecutive_failures) == (SensorStatus.ACTIVE, 0)


def test_a_run_that_cannot_be_is_recorded_as_a_failure(host: Host) -> None:
    host.define()
    twice = under_another_id(asked_run("b"), run_id="run_a")
    host.evaluators.say = lambda _: Evaluated(runs=(asked_run("a"), twice), cursor="7")
    host.look()
    assert host.evals[0].status is SensorEvalStatus.FAILED
    assert host.evals[0].message.startswith("refused: the run id run_a belongs to another run key")
    assert (host.row.cursor, len(host.service.engine.state.runs)) == (None, 0)


def test_a_quota_that_refuses_a_run_is_the_reason_of_a_failure_and_keeps_the_cursor(
    host: Host,
) -> None:
    host.tell(QuotaSet(max_daily_runs=1))
    host.define()
    host.evaluators.say = lambda _: Evaluated(runs=(asked_run("a"), asked_run("b")), cursor="7")
    host.look()
    [row] = host.evals
    assert (row.status, row.message) == (
        SensorEvalStatus.FAILED,
        "refused: quota: no more runs today; the limit is 1",
    )
    assert (host.row.cursor, len(host.service.engine.state.runs)) == (None, 0)
    host.tell(QuotaSet(max_daily_runs=2))
    host.look(minutes=15)
    assert (host.row.cursor, len(host.service.engine.state.runs)) == ("7", 2)


def test_a_quota_that_refuses_the_run_of_a_message_is_recorded_and_the_message_waits(
    host: Host,
) -> None:
    host.tell(QuotaSet(max_daily_runs=0))
    host.define(mode=SensorMode.PUSH, labels={KIND_LABEL: "push"})
    host.tell(SensorMessageReceived(sensor_id="s", message_id="m", payload="1"))
    host.evaluators.say = lambda _: EvaluatedMany(answers=(Evaluated(runs=(asked_run("a"),)),))
    host.look()
    [row] = host.evals
    assert (row.status, row.message) == (
        SensorEvalStatus.FAILED,
        "refused: quota: no more runs today; the limit is 0",
    )
    assert host.row.messages_waiting == 1
    host.tell(QuotaSet(max_daily_runs=1))
    host.look(minutes=1)
    assert (host.row.messages_waiting, len(host.service.engine.state.runs)) == (0, 1)


def test_a_quota_never_makes_a_message_be_given_up(host: Host) -> None:
    host.tell(QuotaSet(max_daily_runs=0))
    host.define(mode=SensorMode.PUSH, labels={KIND_LABEL: "push"})
    host.tell(SensorMessageReceived(sensor_id="s", message_id="m", payload="1"))
    host.evaluators.say = lambda _: EvaluatedMany(answers=(Evaluated(runs=(asked_run("a"),)),))
    for _ in range(2 * MAX_MESSAGE_ATTEMPTS):
        host.look(minutes=15)
    assert len(host.evals) == MAX_MESSAGE_ATTEMPTS - 1
    assert host.row.messages_waiting == 1
    host.tell(QuotaSet(max_daily_runs=1))
    host.look(minutes=1)
    assert (host.row.messages_waiting, len(host.service.engine.state.runs)) == (0, 1)


def under_another_id(run: RequestedRun, *, run_id: str) -> RequestedRun:
    source = SensorSource(sensor_id="s", eval_id="e")
    requested = RunRequested(
        run_id=run_id, run_key=run.requested.run_key, request_fingerprint="fp", source=source
    )
    return RequestedRun(requested=requested, planned=run.planned)


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        (Evaluated(cursor="x" * 300_000), "the limit is 262144"),
        (Evaluated(runs=(asked_run("a\nb"),)), "run_key"),
        (Evaluated(dynamic=(DynamicPartitionsChanged(set_name="A B", added=("x",)),)), "set_name"),
        (Evaluated(runs=tuple(asked_run(f"r{n}") for n in range(11_000))), "22001 events"),
    ],
)
def test_what_cannot_go_into_the_ledger_is_recorded_as_a_failure(
    host: Host, answer: Evaluated, wrong: str
) -> None:
    host.define()
    host.evaluators.say = lambda _: answer
    assert host.look() == 1
    assert wrong in host.evals[0].message
    assert (host.row.status, host.row.cursor) == (SensorStatus.ERROR, None)


def test_what_a_sensor_says_is_cut_short(host: Host) -> None:
    host.define()
    host.evaluators.say = lambda _: Evaluated(error="x" * 1_000_000)
    host.look()
    assert host.evals[0].message == "x" * 4_000


class Poisoned:
    """A sensor of runs whose process is lost over one of them."""

    runs = ("one", "two", "poison", "four")

    def __init__(self) -> None:
        self.told: list[str] = []
        self._begin: int | None = None

    def __call__(self, question: EvaluatorQuestion) -> Evaluated:
        assert isinstance(question, EvaluateSensor)
        at = int(question.cursor or 0)
        self._begin = at if self._begin is None else self._begin
        left = self.runs[at - self._begin :]
        here = left[:1] if question.alone else left
        for name in here if not question.pass_over else ():
            if name == "poison":
                return Evaluated(error="the evaluator process ended with 9")
            self.told.append(name)
        return Evaluated(cursor=str(at + len(here)) if here else None, more=len(left) > len(here))


def test_what_a_process_is_lost_over_is_found_and_passed_over(host: Host) -> None:
    host.define(labels={KIND_LABEL: "runs"})
    host.evaluators.say = poisoned = Poisoned()
    for _ in range(7):
        host.look(hours=1)
        host.tell(QuotaSet(max_daily_runs=7))  # something happens
    assert poisoned.told == ["one", "two", "one", "two", "four"]
    assert (host.row.consecutive_failures, host.said) == (0, [])


def test_once_more_means_what_looks_at_the_workspace_and_only_if_something_happened(
    host: Host,
) -> None:
    host.define(labels={KIND_LABEL: "assets"})
    host.define(sensor_id="files")
    assert host.look() == 2
    host.triggers.again()
    assert host.look() == 1, "its own entry is something that happened"
    host.triggers.again()
    assert host.look() == 0
    host.tell(QuotaSet(max_daily_runs=7))
    assert host.look() == 0, "its interval has not passed"
    host.triggers.again()
    assert host.look() == 1
    assert host.evaluators.asked[-1].sensor_id == "s"


def test_once_more_is_no_way_around_a_back_off(host: Host) -> None:
    host.define(labels={KIND_LABEL: "assets"})
    host.evaluators.say = lambda _: Evaluated(error="down")
    assert host.look() == 1
    host.tell(QuotaSet(max_daily_runs=7))
    host.triggers.again()
    assert host.look() == 0


def test_new_code_is_not_made_to_wait_for_what_the_old_failed_with(host: Host) -> None:
    host.define()
    host.evaluators.say = lambda _: Evaluated(error="down")
    assert [host.look(seconds=70 * 2**n) for n in range(5)] == [1, 1, 1, 1, 1]
    assert host.look(seconds=30) == 0
    with host.triggers.renewing():
        host.evaluators.say = lambda _: Evaluated(skipped="up")
    assert host.look(seconds=1) == 1
    assert host.row.consecutive_failures == 0
    assert host.look(seconds=1) == 0


def test_what_new_code_declares_is_asked_of_that_code_alone(host: Host) -> None:
    host.triggers.start()
    try:
        with host.triggers.renewing():
            host.define()
            host.clock.advance(timedelta(seconds=1))
            _ = EVENT.wait(0.2)
            assert host.evaluators.asked == []
        _ = eventually(lambda: len(host.evaluators.asked) > 1)
        assert host.evaluators.asked[0] == "renewed"
        assert isinstance(host.evaluators.asked[1], EvaluateSensor)
    finally:
        host.triggers.stop()


def test_code_that_cannot_be_deployed_replaces_nothing(host: Host) -> None:
    with pytest.raises(Conflict), host.triggers.renewing():
        raise Conflict("sensor s is defined elsewhere", remedy="rename it")
    assert host.evaluators.asked == []


def test_an_evaluation_that_was_overtaken_changes_nothing(host: Host) -> None:
    host.define()

    def paused_meanwhile(_: EvaluatorQuestion) -> Evaluated:
        host.tell(SensorPaused(sensor_id="s"))
        return Evaluated(runs=(asked_run("a"),), cursor="7")

    host.evaluators.say = paused_meanwhile
    host.look()
    assert (host.row.cursor, host.evals, len(host.service.engine.state.runs)) == (None, [], 0)
    assert host.look(hours=1) == 0


def test_a_sensor_of_runs_begins_before_any_of_its_code_runs(host: Host) -> None:
    host.define(labels={KIND_LABEL: "runs"})
    begun = host.row.row_version
    host.evaluators.say = lambda _: Evaluated(error="down")
    host.look()
    assert (host.row.cursor, host.row.consecutive_failures) == (str(begun), 1)
    assert [question.cursor for question in host.evaluators.asked] == [str(begun)]


def test_a_sensor_of_assets_is_asked_when_something_has_happened(host: Host) -> None:
    host.define(labels={KIND_LABEL: "assets"})
    assert host.look() == 1
    host.look(minutes=1)
    assert [host.look(minutes=1) for _ in range(3)] == [0, 0, 0]
    host.tell(SensorUpserted(sensor_id="t", enabled=False))
    assert host.look(minutes=1) == 1


def test_a_sensor_with_more_to_say_is_asked_at_once(host: Host) -> None:
    host.define()
    parts = iter([Evaluated(cursor="1", more=True), Evaluated(cursor="2", more=True)])
    host.evaluators.say = lambda _: next(parts, Evaluated(cursor="3"))
    assert host.look() == 3
    assert host.row.cursor == "3"


def test_changes_of_partitions_are_committed_with_the_evaluation(host: Host) -> None:
    host.define()
    change = DynamicPartitionsChanged(set_name="regions", added=("eu",))
    host.evaluators.say = lambda _: Evaluated(dynamic=(change,))
    host.look()
    assert host.evals[0].message == "partitions of regions: 1 added"
    assert ("regions", "eu") in host.service.engine.state.dynamic_partitions


def test_what_is_cut_off_by_the_end_is_no_failure(host: Host) -> None:
    host.define()

    def ended(_: EvaluatorQuestion) -> Evaluated:
        host.context.close()
        return Evaluated(error="the evaluators have been stopped")

    host.evaluators.say = ended
    host.look()
    assert (host.row.status, host.row.last_evaluation_at) == (SensorStatus.ACTIVE, None)
    assert "being stopped" in host.said[0]


# --- messages -------------------------------------------------------------------------------------


def messages(*names: str) -> list[Event]:
    return [SensorMessageReceived(sensor_id="s", message_id=name) for name in names]


def seen(question: EvaluatorQuestion) -> list[str]:
    assert isinstance(question, EvaluateMessages)
    return [message.message_id for message in question.messages]


@pytest.fixture
def pushed(host: Host) -> Host:
    host.define(mode=SensorMode.PUSH, labels={KIND_LABEL: "push"})
    return host


def test_messages_are_evaluated_in_their_order_many_at_a_time(pushed: Host) -> None:
    pushed.evaluators.say = lambda asked: EvaluatedMany(
        answers=tuple(Evaluated(skipped=name) for name in seen(asked)[:2])
    )
    pushed.tell(*messages("c", "a", "b", "a"))
    assert pushed.look() == 2
    assert [seen(question) for question in pushed.evaluators.asked] == [["c", "a", "b"], ["b"]]
    assert [row.message_id for row in pushed.evals] == ["c", "a", "b"]
    assert pushed.row.messages_waiting == 0
    assert pushed.look(hours=1) == 0


def test_the_message_that_kills_its_evaluator_fails_alone(pushed: Host) -> None:
    def deadly(asked: Any) -> Any:
        if "b" in seen(asked):
            return Evaluated(error="the evaluator process ended with -9")
        return EvaluatedMany(answers=tuple(Evaluated() for _ in asked.messages))

    pushed.evaluators.say = deadly
    pushed.tell(*messages("a", "b", "c"))
    pushed.look()
    status = {row.message_id: row.status for row in pushed.evals}
    quiet = SensorEvalStatus.NO_NEW_DATA
    assert status == {"a": quiet, "b": SensorEvalStatus.FAILED, "c": quiet}
    assert pushed.row.messages_waiting == 1


def test_a_message_that_fails_is_tried_five_times_and_given_up(pushed: Host) -> None:
    pushed.evaluators.say = lambda _: EvaluatedMany(answers=(Evaluated(error="down"),))
    pushed.tell(*messages("a"))
    assert [pushed.look(seconds=10) for _ in range(20)].count(1) == 5
    assert len(pushed.evals) == 5
    assert pushed.evals[-1].message == "down; given up after 5 attempts"
    assert pushed.row.messages_waiting == 0
    pushed.evaluators.say = lambda _: EvaluatedMany(answers=(Evaluated(),))
    pushed.tell(*messages("a"))
    pushed.look()
    assert pushed.evals[-1].dedup_key == "msg:a"


def test_an_answer_that_cannot_go_into_the_ledger_is_a_failure(pushed: Host) -> None:
    bad, good = Evaluated(runs=(asked_run("a\nb"),)), Evaluated(skipped="fine")
    pushed.evaluators.say = lambda _: EvaluatedMany(answers=(bad, good))
    pushed.tell(*messages("a", "b"))
    pushed.look()
    told = {row.message_id: row.message for row in pushed.evals}
    assert (told["a"][:8], told["b"]) == ("refused:", "fine")


def test_a_sensor_that_is_paused_meanwhile_is_told_no_more(pushed: Host) -> None:
    def paused_meanwhile(_: EvaluatorQuestion) -> EvaluatedMany:
        pushed.tell(SensorPaused(sensor_id="s"))
        return EvaluatedMany(answers=(Evaluated(),))

    pushed.evaluators.say = paused_meanwhile
    pushed.tell(*messages("a", "b", "c"))
    assert pushed.look() == 1
    assert pushed.row.messages_waiting == 3


def test_messages_wait_for_a_paused_sensor(pushed: Host) -> None:
    pushed.tell(SensorPaused(sensor_id="s"))
    pushed.tell(*messages("a"))
    assert pushed.look() == 0
    assert isinstance(pushed.row, SensorStateRow)


def test_a_look_is_asked_with_where_the_sensor_stands(host: Host) -> None:
    host.define()
    seq = host.seq
    host.look()
    (question,) = host.evaluators.asked
    assert isinstance(question, EvaluateSensor)
    assert (question.sensor_id, question.seq, question.failures) == ("s", seq, 0)


# --- who, and because of what ---------------------------------------------------------------------


def test_a_run_of_a_message_goes_back_to_whoever_sent_it(pushed: Host) -> None:
    pushed.evaluators.say = lambda _: EvaluatedMany(answers=(Evaluated(runs=(asked_run("a"),)),))
    pushed.tell(*messages("m"))
    state = pushed.service.engine.state
    (message,) = list(state.sensor_messages.rows.values())
    pushed.look()
    run, (looked,) = state.runs.rows["run_a"], pushed.evals
    assert run.requested_by == "sensor:s"
    assert (run.cause, looked.cause) == (looked.request_position, message.request_position)
    assert {run.correlation, looked.correlation} == {message.request_position}


def test_a_run_of_a_poll_goes_back_to_what_the_sensor_saw(host: Host) -> None:
    host.define()
    host.evaluators.say = lambda _: Evaluated(
        runs=(asked_run("a"),), cause="1.0", correlation="order-7"
    )
    host.look()
    run, (looked,) = host.service.engine.state.runs.rows["run_a"], host.evals
    assert (run.requested_by, run.cause) == ("sensor:s", looked.request_position)
    assert (looked.cause, looked.correlation, run.correlation) == ("1.0", "order-7", "order-7")
