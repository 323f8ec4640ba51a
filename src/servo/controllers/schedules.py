"""Which ticks of a schedule are due, and which were missed.

A schedule stores one time, its low water: every tick up to it has been handled. Ticks between it
and now are due. Of several, the last `max_catchup_ticks` within the catch-up window are evaluated
one after the other, and all older ones are recorded as one skipped stretch. So a leader that was
away for a year does not start with half a million runs, and no tick is skipped silently. A paused
schedule is never due; its missed ticks are recorded when it is resumed.

A clock that was wrong may have moved low waters into the future. Schedules that are further ahead
than any clock may be are rewound to the present, or they would wait until then.
"""

from datetime import datetime, timedelta
from heapq import heappop, heappush

import msgspec

from servo.core.cron import Cron
from servo.core.events.schedules import ScheduleRewound, TicksSkipped
from servo.core.locations import HasLocation, any_location, location_of
from servo.core.state.rows.automation import ScheduleDefinitionRow, ScheduleStateRow
from servo.core.state.state import State
from servo.core.state.states import ScheduleStatus
from servo.core.wrong_clocks import is_far_ahead
from servo.errors import Invalid

MAX_COUNTED = 10_000
"""Skipped ticks are counted up to this number."""

_SECOND = timedelta(seconds=1)


class Due(msgspec.Struct, frozen=True, kw_only=True):
    """What is due for a schedule: a stretch to skip, then ticks, in order."""

    schedule_id: str
    skipped: TicksSkipped | None = None
    ticks: tuple[datetime, ...] = ()


def due(definition: ScheduleDefinitionRow, row: ScheduleStateRow, now: datetime) -> Due:
    """What is due for a schedule at a time; nothing if it is paused or removed."""
    if row.status is not ScheduleStatus.ACTIVE:
        return Due(schedule_id=row.schedule_id)
    cron = cron_of(definition)
    window = now - timedelta(minutes=definition.catchup_window_minutes)
    ticks = cron.newest_between(max(row.low_water, window), now, definition.max_catchup_ticks)
    until = ticks[0] - _SECOND if ticks else now
    skipped = stretch(cron, row, until, reason="missed: outside the catch-up window")
    return Due(schedule_id=row.schedule_id, skipped=skipped, ticks=tuple(ticks))


def missed_while_paused(
    definition: ScheduleDefinitionRow, row: ScheduleStateRow, now: datetime
) -> TicksSkipped | None:
    """The ticks missed during a pause so far, to be recorded when it ends."""
    if row.status is not ScheduleStatus.PAUSED:
        return None
    return stretch(cron_of(definition), row, now, reason="paused")


def stretch(
    cron: Cron, row: ScheduleStateRow, until: datetime, *, reason: str
) -> TicksSkipped | None:
    """All ticks from the low water up to a time, as one skip; None if there are none."""
    counted = cron.ticks_between(row.low_water, until, MAX_COUNTED)
    if not counted:
        return None
    last = counted[-1]
    if len(counted) == MAX_COUNTED:
        last = cron.newest_between(row.low_water, until, 1)[0]
        reason = f"{reason}; counting stopped at {MAX_COUNTED}, there may be more"
    return TicksSkipped(
        schedule_id=row.schedule_id,
        first=counted[0],
        last=last,
        count=len(counted),
        reason=reason,
    )


def rewound(row: ScheduleStateRow, now: datetime) -> ScheduleRewound | None:
    """The rewinding of a schedule that a wrong clock moved far ahead; None if it was not."""
    if row.status is not ScheduleStatus.ACTIVE or not is_far_ahead(row.low_water, now):
        return None
    return ScheduleRewound(
        schedule_id=row.schedule_id, expected_low_water=row.low_water, low_water=now
    )


def cron_of(definition: ScheduleDefinitionRow) -> Cron:
    """The cron expressions of a schedule."""
    return Cron(definition.cron_expressions, definition.timezone)


class Timetable:
    """When each schedule is due next, recomputed only for schedules whose rows changed.

    Schedules of code locations that are not available here are never due: another leader ticks
    them.
    """

    def __init__(self, has: HasLocation = any_location) -> None:
        self._has = has
        self._seen: dict[str, tuple[int, int]] = {}
        self._next: dict[str, datetime] = {}
        self._heap: list[tuple[datetime, str]] = []
        self._due: dict[str, datetime] = {}
        self._latest: datetime | None = None

    def look(self, state: State) -> list[tuple[str, Invalid]]:
        """Apply changes; return the schedules that cannot be read, with the reason.

        Schedules in a time zone that is unknown here are never due; all others are.
        """
        unreadable: list[tuple[str, Invalid]] = []
        for row in list(state.schedule_state.rows.values()):
            name = row.schedule_id
            definition = state.schedules.rows[name]
            versions = (definition.row_version, row.row_version)
            if self._seen.get(name) != versions:
                self._seen[name] = versions
                self._latest = max(self._latest or row.low_water, row.low_water)
                try:
                    mine = self._has(location_of(definition.labels))
                    self._enter(name, _next(definition, row) if mine else None)
                except Invalid as error:
                    self._enter(name, None)
                    unreadable.append((name, error))
        return unreadable

    def far_ahead(self, state: State, now: datetime) -> list[ScheduleRewound]:
        """How to rewind the schedules that a wrong clock moved far ahead."""
        if self._latest is None or not is_far_ahead(self._latest, now):
            return []
        rows = list(state.schedule_state.rows.values())
        self._latest = max(row.low_water for row in rows)
        found = [rewound(row, now) for row in rows if row.schedule_id in self._next]
        return [event for event in found if event is not None]

    def due(self, now: datetime) -> list[str]:
        """The schedules with something due; if the clock was set back, not yet."""
        while self._heap and self._heap[0][0] <= now:
            at, name = heappop(self._heap)
            if self._next.get(name) == at:
                self._due[name] = at
        return sorted(name for name, at in self._due.items() if at <= now)

    def next_due(self) -> datetime | None:
        """When the first of them is due."""
        while self._heap and self._next.get(self._heap[0][1]) != self._heap[0][0]:
            _ = heappop(self._heap)
        first = [self._heap[0][0]] if self._heap else []
        return min([*self._due.values(), *first], default=None)

    def _enter(self, name: str, at: datetime | None) -> None:
        _ = self._due.pop(name, None)
        _ = self._next.pop(name, None)
        if at is not None:
            self._next[name] = at
            heappush(self._heap, (at, name))


def _next(definition: ScheduleDefinitionRow, row: ScheduleStateRow) -> datetime | None:
    if row.status is not ScheduleStatus.ACTIVE:
        return None
    return cron_of(definition).next_after(row.low_water)
