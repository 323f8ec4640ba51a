"""Schedules: their ticks are evaluated and committed with the runs they request.

A tick and its runs are one batch that begins with the tick: the schedule has advanced if and only
if the runs exist. Ticks of one schedule are committed one at a time, oldest first: a schedule never
goes back, so a tick overtaken by a later one would be skipped silently. If another host has
advanced a schedule meanwhile, its other ticks wait for the next look. Schedules without user code
are evaluated many at a time, one tick of each, by processes that user code cannot block.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from servo.code.evaluator.messages import Evaluated, EvaluatedMany, EvaluateTick, EvaluateTicks
from servo.code.evaluator.schedules import tick_id
from servo.controllers.schedules import Timetable, due
from servo.core.actors import ActorKind, Origin, actor
from servo.core.declared import EVALUATED_LABEL
from servo.core.events.envelope import Event
from servo.core.events.schedules import ScheduleRewound, ScheduleTicked, TicksSkipped, TickStatus
from servo.core.state.rows.automation import ScheduleDefinitionRow, ScheduleStateRow
from servo.core.state.state import State
from servo.errors import Unavailable
from servo.triggers.host import MOST_SAID, Sent, TriggerContext

EVALUATE_SECONDS = 60.0
PLAIN_AT_ONCE = 100
_LOST = ("schedule_paused", "tick_passed", "tick_not_due", "unknown_schedule")
"""Refusals of a tick itself, not of its run, that need no record, by their beginning."""

_Due = tuple[ScheduleDefinitionRow, ScheduleStateRow]


class DueTick(msgspec.Struct, frozen=True, kw_only=True):
    """A tick that is due, and the definition of its schedule."""

    definition: ScheduleDefinitionRow
    scheduled_for: datetime

    @property
    def schedule_id(self) -> str:
        """The schedule."""
        return self.definition.schedule_id

    @property
    def question(self) -> EvaluateTick:
        """The request to an evaluator."""
        name = self.schedule_id
        made = tick_id(name, self.scheduled_for)
        return EvaluateTick(schedule_id=name, tick_id=made, scheduled_for=self.scheduled_for)


class Schedules:
    """The schedules of a workspace."""

    def __init__(self, context: TriggerContext, deciding: TriggerContext | None = None) -> None:
        self._context = context
        self._deciding = context if deciding is None else deciding
        self._timetable = Timetable(context.has)

    def look(self, state: State, now: datetime) -> bool:
        """Start the ticks that are due."""
        plain: list[_Due] = []
        due_now = self._due(state, now)
        begun = False
        if ahead := self._timetable.far_ahead(state, now):
            begun |= self._context.begin("schedules rewound", lambda: self._rewind(ahead))
        for seen in due_now:
            definition, _ = seen
            if EVALUATED_LABEL not in definition.labels:
                plain.append(seen)
                continue
            name = f"schedule {definition.schedule_id}"
            begun |= self._deciding.begin(name, lambda seen=seen: self._decide(seen, now))
        if plain:
            begun |= self._context.begin("schedules", lambda: self._tick(plain, now))
        return begun

    def next_due(self) -> datetime | None:
        """When the first schedule is due."""
        return self._timetable.next_due()

    def again(self) -> None:
        """Do nothing: a schedule depends only on the clock."""

    def _due(self, state: State, now: datetime) -> list[_Due]:
        for name, error in self._timetable.look(state):
            self._context.say(f"schedule {name}: {error}")
        rows, states = state.schedules.rows, state.schedule_state.rows
        return [(rows[name], states[name]) for name in self._timetable.due(now)]

    # --- on a thread that may wait ------------------------------------------------------------

    def _rewind(self, schedules: Sequence[ScheduleRewound]) -> None:
        """Rewind schedules that a wrong clock moved far ahead."""
        for event in schedules:
            origin = _origin(event.schedule_id)
            if self._context.commit("schedule-rewound", (event,), origin).applied:
                self._context.say(
                    f"schedule {event.schedule_id}: rewound from {event.expected_low_water} "
                    f"to {event.low_water}, because a clock was ahead"
                )

    def _tick(self, schedules: Sequence[_Due], now: datetime) -> None:
        """Evaluate the ticks of schedules without user code."""
        left = [self._pass_over(seen, now) for seen in schedules]
        while turn := [ticks[0] for ticks in left if ticks]:
            moved: set[str] = set()
            for start in range(0, len(turn), PLAIN_AT_ONCE):
                moved |= self._take_turn(turn[start : start + PLAIN_AT_ONCE])
            left = [ticks[1:] for ticks in left if ticks and ticks[0].schedule_id not in moved]

    def _take_turn(self, ticks: Sequence[DueTick]) -> set[str]:
        """Evaluate one tick of each schedule; the schedules that another host has advanced."""
        answer = self._ask(
            self._context, EvaluateTicks(ticks=tuple(tick.question for tick in ticks))
        )
        if isinstance(answer, EvaluatedMany):
            return self._commit(list(zip(ticks, answer.answers, strict=True)))
        moved: set[str] = set()
        for tick in ticks:  # it is unknown which of them got no answer
            moved |= self._commit([(tick, self._ask(self._context, tick.question))])
        return moved

    def _decide(self, seen: _Due, now: datetime) -> None:
        """Evaluate the ticks of a schedule with user code, one after the other."""
        for tick in self._pass_over(seen, now):
            if self._commit([(tick, self._ask(self._deciding, tick.question))]):
                return

    def _ask(self, context: TriggerContext, question: EvaluateTick | EvaluateTicks) -> Any:
        """The evaluator's answer; `Unavailable` while the code cannot be imported."""
        answer = context.evaluators.ask(question, EVALUATE_SECONDS)
        if isinstance(answer, Evaluated):
            _check_asked([answer])
        return answer

    def _pass_over(self, seen: _Due, now: datetime) -> list[DueTick]:
        """Record the skipped ticks; the ticks to evaluate, none if another host was first."""
        definition, row = seen
        found = due(definition, row, now)
        if found.skipped is not None:
            skipped: TicksSkipped = found.skipped
            origin = _origin(definition.schedule_id)
            if not self._context.commit("ticks-skipped", (skipped,), origin).applied:
                return []
        return [DueTick(definition=definition, scheduled_for=at) for at in found.ticks]

    def _commit(self, evaluated: Sequence[tuple[DueTick, Evaluated]]) -> set[str]:
        """Commit ticks of different schedules; those that another host has advanced."""
        sent = [
            (tick, self._context.send("tick", ticked(tick, answer), _origin(tick.schedule_id)))
            for tick, answer in evaluated
            if not answer.unasked
        ]
        moved = {tick.schedule_id for tick, batch in sent if not self._is_recorded(tick, batch)}
        _check_asked([answer for _, answer in evaluated])
        return moved

    def _is_recorded(self, tick: DueTick, batch: Sent) -> bool:
        """Whether the tick is recorded; if its run was refused, record the tick as failed."""
        if batch.applied:
            if batch.repeated:
                self._pass_by(tick)
            return True
        if not (refused := batch.refusal(_LOST)):
            return False
        failed = ticked(tick, Evaluated(error=refused))
        return self._context.commit("tick-refused", failed, _origin(tick.schedule_id)).applied

    def _pass_by(self, tick: DueTick) -> None:
        """Advance past a tick that was recorded when a clock was ahead; else this is refused."""
        at = tick.scheduled_for
        skipped = TicksSkipped(
            schedule_id=tick.schedule_id,
            first=at,
            last=at,
            count=1,
            reason="recorded before, when a clock was ahead",
        )
        _ = self._context.commit("tick-passed-by", (skipped,), _origin(tick.schedule_id))


def _origin(schedule_id: str) -> Origin:
    return Origin(actor=actor(ActorKind.SCHEDULE, schedule_id))


def _check_asked(answers: Iterable[Evaluated]) -> None:
    """Raise `Unavailable` if an answer is missing: its tick is then not recorded."""
    for answer in answers:
        if answer.unasked:
            raise Unavailable(answer.error, remedy="the ticks stay due and are retried")


def ticked(tick: DueTick, answer: Evaluated, *, manual: str = "") -> list[Event]:
    """The batch of a tick: its result, then the partitions it adds and the runs it requests."""
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
        message=(answer.error or answer.skipped)[:MOST_SAID],
        run_key=None if first is None else first.run_key,
        request_fingerprint=None if first is None else first.request_fingerprint,
        manual=bool(manual),
    )
    runs = [event for run in answer.runs for event in (run.requested, run.planned)]
    return [head, *answer.dynamic, *runs]
