"""Laws of schedules: each tick once, with its runs, on time, and none skipped silently."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from servo.controllers.schedules import cron_of
from servo.core.events.envelope import Answer, Batch, Entry
from servo.core.events.runs import RunRequested, ScheduleSource
from servo.core.events.schedules import (
    ScheduleResumed,
    ScheduleTicked,
    TicksSkipped,
    TickStatus,
)
from servo.core.state.state import State
from servo.core.state.states import ScheduleStatus
from simulation.kernel import START, Kernel, Violation
from simulation.laws import Law, all_events, events, in_effect
from simulation.swarm import Swarm

MOST = 1_000
_SECOND = timedelta(seconds=1)
_LATE = timedelta(seconds=2)
_JUMP = timedelta(seconds=40)


class ScheduleLaw(Law):
    """Follows every schedule from entry to entry."""

    def __init__(self, kernel: Kernel, swarm: Swarm) -> None:
        self._kernel = kernel
        jumps = _JUMP if swarm.clock_jumps else timedelta(0)
        self._apart = timedelta(milliseconds=2 * swarm.skew_ms) + jumps
        self._ticks: set[str] = set()
        self._low: dict[str, datetime] = {}
        self._paused: set[str] = set()

    def committed(self, entry: Entry, answers: Sequence[Answer], state: State) -> None:
        batches = list(in_effect(entry, answers))
        resumed = {event.schedule_id for event in all_events(batches, ScheduleResumed)}
        for batch in batches:
            self._check_runs(batch)
            for tick in events(batch, ScheduleTicked):
                self._check_tick(tick, batch, entry, state)
                if tick.schedule_id in self._paused - resumed and _has_runs(batch):
                    raise Violation(f"schedule {tick.schedule_id} is paused, but created a run")
            for skipped in events(batch, TicksSkipped):
                self._check_skipped(skipped, entry, state)
        self._check_moved(batches, resumed, state)
        self._paused = {
            row.schedule_id
            for row in state.schedule_state.rows.values()
            if row.status is ScheduleStatus.PAUSED
        }

    def _check_tick(self, tick: ScheduleTicked, batch: Batch, entry: Entry, state: State) -> None:
        name, at = tick.tick_id, tick.scheduled_for
        if name in self._ticks:
            raise Violation(f"tick {name} is recorded twice")
        self._ticks.add(name)
        if at > entry.ts:
            raise Violation(f"tick {name} was recorded {at - entry.ts} before its time")
        if cron_of(state.schedules.rows[tick.schedule_id]).next_after(at - _SECOND) != at:
            raise Violation(f"tick {name} does not belong to its schedule")
        if tick.status is TickStatus.TRIGGERED and not _has_runs(batch):
            raise Violation(f"tick {name} was recorded without its runs")
        for request in events(batch, RunRequested):
            if request.run_key not in state.run_keys:
                raise Violation(f"tick {name} was recorded, but its run was not")

    def _check_runs(self, batch: Batch) -> None:
        ticks = {tick.tick_id for tick in events(batch, ScheduleTicked)}
        for request in events(batch, RunRequested):
            source = request.source
            if isinstance(source, ScheduleSource) and source.tick_id not in ticks:
                raise Violation(f"a run of tick {source.tick_id} is not in the batch of its tick")

    def _check_skipped(self, event: TicksSkipped, entry: Entry, state: State) -> None:
        """No tick is skipped as missed that the policy would have caught up."""
        if not event.reason.startswith("missed"):
            return
        row = state.schedules.rows[event.schedule_id]
        window = timedelta(minutes=row.catchup_window_minutes)
        if event.last <= entry.ts - window + self._apart:
            return
        newer = cron_of(row).ticks_between(event.last, entry.ts + self._apart + _LATE, MOST)
        if len(newer) < row.max_catchup_ticks:
            raise Violation(
                f"{event.schedule_id} skipped the tick of {event.last} with {len(newer)} after it"
            )

    def _check_moved(self, batches: Sequence[Batch], resumed: set[str], state: State) -> None:
        """A schedule moves on by ticks and by stretches on record, or because it is resumed."""
        ticked = {(e.schedule_id, e.scheduled_for) for e in all_events(batches, ScheduleTicked)}
        stretches = all_events(batches, TicksSkipped)
        for row in state.schedule_state.rows.values():
            name, low = row.schedule_id, row.low_water
            before = self._low.get(name, low)
            self._low[name] = low
            if low < before:
                raise Violation(f"schedule {name} went back to {low}")
            if low == before or name in resumed:
                continue
            for at in cron_of(state.schedules.rows[name]).ticks_between(before, low, MOST):
                known = (name, at) in ticked or any(
                    one.schedule_id == name and one.first <= at <= one.last for one in stretches
                )
                if not known:
                    raise Violation(f"the tick of {name} at {at} was skipped silently")

    def unfinished(self, state: State) -> list[str]:
        """Schedules that are paused for ever, or due for longer than it takes to tick."""
        now = START + timedelta(microseconds=self._kernel.now)
        return [
            f"schedule {row.schedule_id} {row.status} since {row.low_water}"
            for row in state.schedule_state.rows.values()
            if row.status is ScheduleStatus.PAUSED
            or cron_of(state.schedules.rows[row.schedule_id]).ticks_between(
                row.low_water, max(now, START + timedelta(minutes=1)), 1
            )
        ]


def _has_runs(batch: Batch) -> bool:
    return bool(events(batch, RunRequested))
