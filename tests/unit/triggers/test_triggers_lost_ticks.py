"""The host of schedules: whatever is refused or lost, no tick is passed over in silence."""

from collections.abc import Callable, Generator
from concurrent.futures import Future
from datetime import timedelta
from typing import Any

import pytest

from servo.code.evaluator.messages import (
    Evaluated,
    EvaluatedMany,
    EvaluateTick,
    EvaluateTicks,
    RequestedRun,
)
from servo.core.declared import EVALUATED_LABEL
from servo.core.events.envelope import Answer, Batch, Event
from servo.core.events.runs import PlanCreated, RunRequested
from servo.core.events.schedules import ScheduleTicked, ScheduleUpserted, TicksSkipped, TickStatus
from servo.core.state.rows.automation import ScheduleTickRow
from servo.errors import Unavailable
from servo.leader.service import Service
from servo.testing.builders import START
from servo.testing.trigger_host import TriggerHost
from servo.triggers.host import AGAIN_AFTER
from servo.triggers.schedules import Schedules

MINUTE = timedelta(minutes=1)


class Office:
    """Evaluators that ask for what a test wants."""

    def __init__(self) -> None:
        self.say: Callable[[EvaluateTick], Evaluated] = lambda _: Evaluated(skipped="nothing to do")

    def ask(self, question: EvaluateTick | EvaluateTicks, seconds: float) -> Any:
        del seconds
        if isinstance(question, EvaluateTick):
            return self.say(question)
        return EvaluatedMany(answers=tuple(self.say(tick) for tick in question.ticks))

    def close(self) -> None: ...


class Road:
    """The way to a leader, on which something may happen to a batch."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.meet: Callable[[Batch], None] = lambda _: None

    def submit(self, batch: Batch) -> "Future[Answer]":
        try:
            self.meet(batch)
        except Unavailable as error:
            lost: Future[Answer] = Future()
            lost.set_exception(error)
            return lost
        return self.service.submit(batch)


class Host(TriggerHost):
    """A leader in memory, and a host of schedules whose clock stands still."""

    def __init__(self) -> None:
        self.evaluators = Office()
        super().__init__(self.evaluators, Schedules, road=self._road)

    def _road(self, service: Service) -> Road:
        self.road = Road(service)
        return self.road

    @property
    def ticks(self) -> list[tuple[int, TickStatus]]:
        """The minutes of the ticks and stretches on record, and what became of them."""
        rows = self.recorded("schedule_ticks", ScheduleTickRow)
        return sorted(((row.scheduled_for - START) // MINUTE, row.status) for row in rows)


@pytest.fixture
def host() -> Generator[Host]:
    with Host() as host:
        yield host


@pytest.fixture(params=[{}, {EVALUATED_LABEL: "function"}], ids=["plain", "decided"])
def schedule(request: pytest.FixtureRequest, host: Host) -> Host:
    upsert = ScheduleUpserted(
        schedule_id="s", cron_expressions=("* * * * *",), labels=request.param, max_catchup_ticks=3
    )
    host.tell(upsert)
    return host


def lose(kind: type[Event], times: int = 1) -> Callable[[Batch], None]:
    """Lose the first batches that begin so."""
    left = [times]

    def meet(batch: Batch) -> None:
        if isinstance(batch.events[0], kind) and left[0]:
            left[0] -= 1
            raise Unavailable("busy", remedy="try again")

    return meet


def test_a_tick_that_is_lost_keeps_those_after_it_waiting(schedule: Host) -> None:
    schedule.road.meet = lose(ScheduleTicked)
    schedule.settle(minutes=3)
    assert schedule.ticks == []
    schedule.settle(seconds=AGAIN_AFTER)
    assert schedule.ticks == [(n, TickStatus.SKIPPED) for n in (1, 2, 3)]


def test_a_tick_whose_run_is_refused_is_on_record_before_the_next(schedule: Host) -> None:
    schedule.tell(RunRequested(run_id="run_taken", run_key="other", request_fingerprint="fp"))

    def say(tick: EvaluateTick) -> Evaluated:
        if tick.scheduled_for != START + MINUTE:
            return Evaluated(skipped="nothing to do")
        requested = RunRequested(run_id="run_taken", run_key="mine", request_fingerprint="fp")
        planned = PlanCreated(run_id="run_taken", fingerprint="p")
        return Evaluated(runs=(RequestedRun(requested=requested, planned=planned),))

    schedule.evaluators.say = say
    schedule.settle(minutes=3)
    assert schedule.ticks == [
        (1, TickStatus.FAILED),
        (2, TickStatus.SKIPPED),
        (3, TickStatus.SKIPPED),
    ]


def test_a_stretch_that_another_host_ended_earlier_leaves_the_rest_due(schedule: Host) -> None:
    def meet(batch: Batch) -> None:
        event = batch.events[0]
        if isinstance(event, TicksSkipped) and event.first == START + MINUTE:
            other = TicksSkipped(
                schedule_id="s", first=event.first, last=START + MINUTE, count=1, reason="missed"
            )
            schedule.tell(other)

    schedule.road.meet = meet
    schedule.settle(minutes=10)
    recorded = [(n, TickStatus.SKIPPED) for n in (1, 2, 8, 9, 10)]
    assert schedule.ticks == recorded  # 1, 2 to 7, and the three that are made up for
    row = schedule.service.engine.state.schedule_state.rows["s"]
    assert row.ticks_skipped == 7
