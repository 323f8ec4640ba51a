"""The host of schedules: what is asked when, and what is committed."""

from collections.abc import Callable, Generator
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from servo.code.evaluator.messages import (
    Evaluated,
    EvaluatedMany,
    EvaluateTick,
    EvaluateTicks,
    EvaluatorQuestion,
    RequestedRun,
)
from servo.core.declared import EVALUATED_LABEL
from servo.core.events.quotas import QuotaSet
from servo.core.events.runs import PlanCreated, RunRequested, ScheduleSource
from servo.core.events.schedules import SchedulePaused, ScheduleUpserted, TickStatus
from servo.core.state.rows.automation import ScheduleTickRow
from servo.core.state.rows.execution import RunRow
from servo.core.state.state import State
from servo.testing.trigger_host import TriggerHost
from servo.triggers.host import AGAIN_AFTER, Triggers
from servo.triggers.schedules import Schedules

TOO_LARGE = "x" * 300_000


class Office:
    """Evaluators that answer every tick as a test wants; one that raises has not answered."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.say: Callable[[EvaluateTick], Evaluated] = lambda tick: Evaluated(
            runs=(asked_run(tick),)
        )

    def ask(self, question: EvaluatorQuestion, seconds: float) -> Any:
        del seconds
        self.asked.append(question)
        try:
            if isinstance(question, EvaluateTicks):
                return EvaluatedMany(answers=tuple(map(self.say, question.ticks)))
            assert isinstance(question, EvaluateTick)
            return self.say(question)
        except TimeoutError as error:
            return Evaluated(error=str(error))

    def renew(self) -> None: ...

    def close(self) -> None: ...


class Host(TriggerHost):
    """A leader in memory, and a host of schedules whose clock stands still."""

    def __init__(self) -> None:
        self.evaluators = Office()
        super().__init__(self.evaluators, Schedules)

    def define(self, *names: str, decides: bool = False, **fields: Any) -> None:
        for name in names:
            given: dict[str, Any] = {"cron_expressions": ("* * * * *",), **fields}
            if decides:
                given["labels"] = {EVALUATED_LABEL: "function"}
            self.tell(ScheduleUpserted(schedule_id=name, **given))

    def look(self, **later: float) -> int:
        """Let time pass, and everything be done that is due then; how much was asked."""
        before = len(self.evaluators.asked)
        self.settle(**later)
        return len(self.evaluators.asked) - before

    def ticks(self, name: str) -> list[tuple[TickStatus, str]]:
        rows = self.recorded("schedule_ticks", ScheduleTickRow)
        mine = sorted((r for r in rows if r.schedule_id == name), key=lambda r: r.scheduled_for)
        return [(row.status, row.message) for row in mine]


@pytest.fixture
def host() -> Generator[Host]:
    with Host() as host:
        yield host


def asked_run(tick: EvaluateTick, **labels: str) -> RequestedRun:
    name = f"run_{tick.tick_id}".replace(":", "_")
    requested = RunRequested(
        run_id=name,
        run_key=tick.tick_id,
        request_fingerprint="fp",
        source=ScheduleSource(schedule_id=tick.schedule_id, tick_id=tick.tick_id),
        labels=labels,
    )
    return RequestedRun(requested=requested, planned=PlanCreated(run_id=name, fingerprint="p"))


def large_for(name: str) -> Callable[[EvaluateTick], Evaluated]:
    def answer(tick: EvaluateTick) -> Evaluated:
        labels = {"note": TOO_LARGE} if tick.schedule_id == name else {}
        return Evaluated(runs=(asked_run(tick, **labels),))

    return answer


TRIGGERED = (TickStatus.TRIGGERED, "")


def test_plain_schedules_are_asked_about_together_and_tick_once(host: Host) -> None:
    host.define("a", "b")
    assert host.look(minutes=1) == 1
    assert host.look(seconds=10) == 0
    assert host.ticks("a") == host.ticks("b") == [TRIGGERED]


@pytest.mark.parametrize("decides", [False, True])
def test_a_tick_that_is_too_large_is_recorded_as_failed_and_keeps_no_other_waiting(
    host: Host, decides: bool
) -> None:
    host.define("a", "b", "c", decides=decides)
    host.evaluators.say = large_for("b")
    host.look(minutes=1)
    [(status, message)] = host.ticks("b")
    assert status is TickStatus.FAILED
    assert message.startswith("refused: ")
    assert host.ticks("a") == host.ticks("c") == [TRIGGERED]
    assert host.look(seconds=AGAIN_AFTER + 1) == 0, "it is over"


def test_an_error_of_any_length_is_recorded(host: Host) -> None:
    host.define("a", decides=True)
    host.evaluators.say = lambda _: Evaluated(error=TOO_LARGE)
    host.look(minutes=1)
    [(status, message)] = host.ticks("a")
    assert (status, message) == (TickStatus.FAILED, TOO_LARGE[: len(message)])
    assert len(message) >= 1_000


def test_a_quota_that_refuses_the_run_of_a_tick_is_its_reason(host: Host) -> None:
    host.tell(QuotaSet(max_daily_runs=1))
    host.define("a", "b")
    host.look(minutes=1)
    found = sorted([*host.ticks("a"), *host.ticks("b")])
    assert found == [
        (TickStatus.FAILED, "refused: quota: no more runs today; the limit is 1"),
        TRIGGERED,
    ]
    assert host.look(seconds=10) == 0


def test_a_pause_while_a_tick_is_evaluated_is_no_failure(host: Host) -> None:
    def paused_meanwhile(tick: EvaluateTick) -> Evaluated:
        host.tell(SchedulePaused(schedule_id="a"))
        return Evaluated(runs=(asked_run(tick),))

    host.define("a", decides=True)
    host.evaluators.say = paused_meanwhile
    host.look(minutes=1)
    assert host.ticks("a") == []


def test_one_tick_that_is_not_answered_keeps_no_other_waiting(host: Host) -> None:
    def hangs_on_b(tick: EvaluateTick) -> Evaluated:
        if tick.schedule_id == "b":
            raise TimeoutError("it took longer than 60 s to answer and was stopped")
        return Evaluated(runs=(asked_run(tick),))

    host.define("a", "b", "c")
    host.evaluators.say = hangs_on_b
    host.look(minutes=1)
    assert host.ticks("a") == host.ticks("c") == [TRIGGERED]
    [(status, message)] = host.ticks("b")
    assert status is TickStatus.FAILED
    assert message == "it took longer than 60 s to answer and was stopped"


def test_a_store_that_cannot_be_reached_fails_no_tick(host: Host) -> None:
    reached = False

    def not_for_b(tick: EvaluateTick) -> Evaluated:
        if tick.schedule_id == "b" and not reached:
            return Evaluated(error="the store cannot be reached", unasked=True)
        return Evaluated(skipped="nothing to do")

    host.define("a", "b", "c")
    host.evaluators.say = not_for_b
    host.look(minutes=1)
    assert [len(host.ticks(name)) for name in "abc"] == [1, 0, 1]
    reached = True
    host.look(seconds=AGAIN_AFTER + 1)
    assert [len(host.ticks(name)) for name in "abc"] == [1, 1, 1]


def test_a_schedule_of_a_zone_that_is_not_known_here_keeps_no_other_waiting(host: Host) -> None:
    host.define("a", "lost")
    state = host.service.engine.state  # written where the zone was known
    row = replace(state.schedules.rows["lost"], timezone="Mars/Olympus")
    state.schedules.rows["lost"] = row
    host.look(minutes=1)
    host.look(minutes=1)
    assert host.ticks("a") == [TRIGGERED, TRIGGERED]
    assert host.ticks("lost") == []
    [told] = host.said
    assert told.startswith("schedule lost: there is no time zone 'Mars/Olympus'")


class Broken:
    """A kind of trigger with a bug."""

    looks = 0

    def look(self, state: State, now: Any) -> bool:
        del state, now
        self.looks += 1
        raise KeyError("bug")

    def next_due(self) -> None:
        return None

    def again(self) -> None:
        raise AssertionError


def test_a_kind_of_trigger_with_a_bug_keeps_no_other_waiting(host: Host) -> None:
    broken = Broken()
    kinds = (broken, Schedules(host.context))
    host.triggers = Triggers(host.service, host.clock)
    host.triggers.add("", host.context, kinds)
    host.define("a")
    host.look(minutes=1)
    assert host.ticks("a") == [TRIGGERED]
    assert host.said == ["triggers: KeyError('bug')"]
    assert broken.looks == 1, "it is left alone for a while"
    host.look(seconds=AGAIN_AFTER)
    assert broken.looks == 2


def test_a_run_of_a_tick_is_asked_for_by_its_schedule_because_of_the_tick(host: Host) -> None:
    host.define("a")
    host.evaluators.say = lambda tick: Evaluated(runs=(asked_run(tick),))
    host.look(minutes=1)
    (run,) = list(host.service.engine.state.runs.rows.values())
    (tick,) = host.recorded("schedule_ticks", ScheduleTickRow)
    assert (run.requested_by, run.cause) == ("schedule:a", tick.request_position)
    assert run.correlation == tick.correlation == tick.request_position


# --- a clock that was ahead -----------------------------------------------------------------------

YEAR = timedelta(days=365)


@pytest.mark.parametrize("decides", [False, True])
def test_a_schedule_goes_on_when_a_clock_that_was_a_year_ahead_is_put_right(
    host: Host, decides: bool
) -> None:
    host.define("a", decides=decides, max_catchup_ticks=1)
    host.clock.jump(YEAR)
    host.look(minutes=1)
    host.clock.jump(-YEAR)
    assert host.look() == 0
    before = len(host.ticks("a"))
    for _ in range(3):
        assert host.look(minutes=1) == 1
    assert [tick[0] for tick in host.ticks("a")].count(TickStatus.TRIGGERED) == 4
    assert len(host.ticks("a")) == before + 3
    assert any("rewound from 2027" in said for said in host.said)


def test_a_tick_that_was_made_when_the_clock_was_ahead_is_not_made_again(host: Host) -> None:
    host.define("a", cron_expressions=("0 * * * *",))
    host.clock.jump(timedelta(hours=3))
    host.look()
    host.clock.jump(-timedelta(hours=3))
    host.look()
    made = {row.tick_id for row in host.recorded("schedule_ticks", ScheduleTickRow)}
    assert len(made) == 3
    for _ in range(4):
        host.look(hours=1)
    rows = host.recorded("schedule_ticks", ScheduleTickRow)
    passed_by = [row for row in rows if row.message.startswith("recorded before")]
    assert len(passed_by) == 3
    triggered = {row.tick_id for row in rows if row.status is TickStatus.TRIGGERED}
    assert len(triggered) == 4
    assert made < triggered
    assert len(host.recorded("runs", RunRow)) == 4


def test_a_clock_that_was_a_little_ahead_rewinds_nothing(host: Host) -> None:
    host.define("a")
    host.clock.jump(timedelta(minutes=30))
    host.look(minutes=1)
    host.clock.jump(-timedelta(minutes=30))
    assert host.look(minutes=1) == 0
    assert host.said == []
