"""Schedules at work: their ticks are evaluated and committed with the runs they ask for.

A tick and its runs are one batch, headed by the tick: the schedule has moved on if, and only if,
the runs exist. Ticks of one schedule go one after the other, oldest first, and one is not sent
before the one before it is on record: a schedule never goes back, so whatever a later one overtook
would be passed over in silence. If somebody else has moved a schedule meanwhile, its other ticks
wait for the next look. Those that no user code decides about are evaluated many at a time, one of
each schedule.
"""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from servo.controllers.schedules import Timetable, due
from servo.core.declared import EVALUATED_LABEL
from servo.core.events.envelope import Event
from servo.core.events.schedules import ScheduleTicked, TicksSkipped, TickStatus
from servo.core.state.rows.automation import ScheduleDefinitionRow, ScheduleStateRow
from servo.core.state.state import State
from servo.errors import Unavailable
from servo.worker.evaluating.messages import Evaluated, EvaluatedMany, Tick, Ticks
from servo.worker.evaluating.schedules import tick_id
from servo.worker.triggers.host import Means

EVALUATE_SECONDS = 60.0
PLAIN_AT_ONCE = 100

Seen = tuple[ScheduleDefinitionRow, ScheduleStateRow]


class DueTick(msgspec.Struct, frozen=True, kw_only=True):
    """A tick that is due, and the definition it is made from."""

    definition: ScheduleDefinitionRow
    scheduled_for: datetime

    @property
    def schedule_id(self) -> str:
        """The schedule."""
        return self.definition.schedule_id

    @property
    def question(self) -> Tick:
        """What an evaluator is asked."""
        name = self.schedule_id
        made = tick_id(name, self.scheduled_for)
        return Tick(schedule_id=name, tick_id=made, scheduled_for=self.scheduled_for)


class Schedules:
    """The schedules of a workspace."""

    def __init__(self, means: Means) -> None:
        self._means = means
        self._timetable = Timetable()

    def look(self, state: State, now: datetime) -> bool:
        """Begin the ticks that are due."""
        plain: list[Seen] = []
        begun = False
        for seen in self._due(state, now):
            definition, _ = seen
            if EVALUATED_LABEL not in definition.labels:
                plain.append(seen)
                continue
            name = f"schedule {definition.schedule_id}"
            begun |= self._means.begin(name, lambda seen=seen: self._decide(seen, now))
        if plain:
            begun |= self._means.begin("schedules", lambda: self._tick(plain, now))
        return begun

    def next_due(self) -> datetime | None:
        """When the first schedule is due."""
        return self._timetable.next_due()

    def _due(self, state: State, now: datetime) -> list[Seen]:
        self._timetable.look(state)
        rows, states = state.schedules.rows, state.schedule_state.rows
        return [(rows[name], states[name]) for name in self._timetable.due(now)]

    # --- on a thread that may wait ------------------------------------------------------------

    def _tick(self, schedules: Sequence[Seen], now: datetime) -> None:
        """The ticks of schedules that no user code decides about."""
        left = [self._pass_over(seen, now) for seen in schedules]
        while turn := [ticks[0] for ticks in left if ticks]:
            moved: set[str] = set()
            for start in range(0, len(turn), PLAIN_AT_ONCE):
                ticks = turn[start : start + PLAIN_AT_ONCE]
                asked = Ticks(ticks=tuple(tick.question for tick in ticks))
                answer = self._means.office.ask(asked, EVALUATE_SECONDS)
                if not isinstance(answer, EvaluatedMany):
                    raise Unavailable(answer.error, remedy="the ticks stay due and are tried again")
                moved |= self._commit(list(zip(ticks, answer.answers, strict=True)))
            left = [ticks[1:] for ticks in left if ticks and ticks[0].schedule_id not in moved]

    def _decide(self, seen: Seen, now: datetime) -> None:
        """The ticks of a schedule that user code decides about, one after the other."""
        for tick in self._pass_over(seen, now):
            answer = self._means.office.ask(tick.question, EVALUATE_SECONDS)
            if self._commit([(tick, answer)]):
                return

    def _pass_over(self, seen: Seen, now: datetime) -> list[DueTick]:
        """Record what was missed; the ticks that are to be made, none if somebody was first."""
        definition, row = seen
        found = due(definition, row, now)
        if found.skipped is not None:
            skipped: TicksSkipped = found.skipped
            if not self._means.commit("ticks-skipped", (skipped,)).applied:
                return []
        return [DueTick(definition=definition, scheduled_for=at) for at in found.ticks]

    def _commit(self, evaluated: Sequence[tuple[DueTick, Evaluated]]) -> set[str]:
        """Commit ticks of different schedules; those that somebody else has moved meanwhile."""
        sent = [
            (tick, self._means.submit("tick", ticked(tick, answer))) for tick, answer in evaluated
        ]
        moved: set[str] = set()
        for tick, future in sent:
            answer = future.result(30)
            if not answer.applied:
                # Either the tick itself is over, and this is refused too; or a run of it cannot
                # be, and the tick is put on record without.
                failed = Evaluated(error=f"refused: {answer.reason}")
                if not self._means.commit("tick-refused", ticked(tick, failed)).applied:
                    moved.add(tick.schedule_id)
        return moved


def ticked(tick: DueTick, answer: Evaluated, *, manual: str = "") -> list[Event]:
    """The batch of a tick: how it went, then what it adds and the runs it asks for."""
    status = TickStatus.TRIGGERED if answer.runs else TickStatus.SKIPPED
    first = answer.runs[0].requested if answer.runs else None
    definition = tick.definition
    head = ScheduleTicked(
        schedule_id=definition.schedule_id,
        tick_id=tick_id(definition.schedule_id, tick.scheduled_for, manual),
        scheduled_for=tick.scheduled_for,
        definition_version=definition.definition_version,
        asset_selection=definition.asset_selection,
        partition_selection=() if first is None else first.partition_selection,
        status=TickStatus.FAILED if answer.error else status,
        message=answer.error or answer.skipped,
        run_key=None if first is None else first.run_key,
        request_fingerprint=None if first is None else first.request_fingerprint,
        manual=bool(manual),
    )
    runs = [event for run in answer.runs for event in (run.requested, run.planned)]
    return [head, *answer.dynamic, *runs]
