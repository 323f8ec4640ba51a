"""Schedules: list them, show their ticks, pause and resume them."""

from datetime import datetime

import msgspec

from servo.controllers.schedules import cron_of, missed_while_paused
from servo.core.events.schedules import SchedulePaused, ScheduleResumed
from servo.core.state.rows.automation import (
    ScheduleDefinitionRow,
    ScheduleStateRow,
    ScheduleTickRow,
)
from servo.core.state.states import ScheduleStatus
from servo.errors import Conflict
from servo.operations.interface.listing import Listing, Page, listing_of
from servo.operations.interface.moments import PRESENT, AsOf
from servo.operations.interface.naming import unknown
from servo.operations.interface.numbers import check_number
from servo.operations.interface.roles import operation
from servo.projection.read.lookup import Lookup
from servo.projection.read.reader import Snapshot
from servo.workspace.receipt import Receipt
from servo.workspace.workspace import Workspace

NEWEST_TICKS = 10
MOST_PREVIEWED = 1_000


class ListedSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule, its state, and its next tick; None while it is paused."""

    definition: ScheduleDefinitionRow
    state: ScheduleStateRow
    next_tick: datetime | None

    @property
    def name(self) -> str:
        return self.definition.schedule_id


class ScheduleDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule and its newest ticks."""

    schedule: ListedSchedule
    ticks: list[ScheduleTickRow]


class UpcomingTicks(msgspec.Struct, frozen=True, kw_only=True):
    """The instants at which a schedule ticks next, paused or not."""

    schedule_id: str
    timezone: str
    ticks: list[datetime]


class ScheduleChanged(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule that was paused or resumed, and the receipt."""

    schedule_id: str
    receipt: Receipt


# --- reading --------------------------------------------------------------------------------------


@operation
def list_schedules(workspace: Workspace, *, as_of: AsOf | None = None) -> Listing[ListedSchedule]:
    """Every deployed schedule, by name."""

    def listing(snapshot: Snapshot) -> Listing[ListedSchedule]:
        return Listing(items=all_schedules(snapshot, _moment(workspace, snapshot, as_of)))

    return workspace.read(listing, as_of=as_of)


@operation
def get_schedule(workspace: Workspace, name: str, *, as_of: AsOf | None = None) -> ScheduleDetail:
    """One schedule and its newest ticks."""

    def detail(snapshot: Snapshot) -> ScheduleDetail:
        found = find_schedule(snapshot, name, _moment(workspace, snapshot, as_of))
        newest = newest_ticks(snapshot, name, Page(limit=NEWEST_TICKS))
        return ScheduleDetail(schedule=found, ticks=newest.items)

    return workspace.read(detail, as_of=as_of)


@operation
def list_ticks(
    workspace: Workspace, name: str, page: Page, *, as_of: AsOf | None = None
) -> Listing[ScheduleTickRow]:
    """The newest ticks of a schedule: runs, skips and failures."""

    def ticks(snapshot: Snapshot) -> Listing[ScheduleTickRow]:
        _ = find_schedule(snapshot, name, workspace.now())
        return newest_ticks(snapshot, name, page)

    return workspace.read(ticks, as_of=as_of)


@operation
def preview_schedule(
    workspace: Workspace, name: str, count: int, *, as_of: AsOf | None = None
) -> UpcomingTicks:
    """The next instants at which a schedule ticks."""
    _ = check_number(count, "count", range(1, MOST_PREVIEWED + 1))

    def upcoming(snapshot: Snapshot) -> UpcomingTicks:
        at = _moment(workspace, snapshot, as_of)
        definition = find_schedule(snapshot, name, at).definition
        cron, ticks = cron_of(definition), list[datetime]()
        while len(ticks) < count and (found := cron.next_after(at)) is not None:
            ticks.append(found)
            at = found
        return UpcomingTicks(schedule_id=name, timezone=definition.timezone, ticks=ticks)

    return workspace.read(upcoming, as_of=as_of)


# --- pausing and resuming -------------------------------------------------------------------------


@operation
def pause_schedule(workspace: Workspace, name: str) -> ScheduleChanged:
    """Pause a schedule. The ticks it misses are recorded as skipped when it is resumed."""
    row = _present(workspace, name)
    if row.state.status is ScheduleStatus.PAUSED:
        raise Conflict(
            f"schedule {name} is already paused",
            remedy=f"resume it with `servo schedule resume {name}`",
        )
    event = SchedulePaused(schedule_id=name, changed_by=workspace.actor)
    return ScheduleChanged(schedule_id=name, receipt=workspace.submit(event).checked())


@operation
def resume_schedule(workspace: Workspace, name: str, *, catchup: bool = False) -> ScheduleChanged:
    """Resume a schedule; with `catchup` it runs the ticks it missed."""
    row = _present(workspace, name)
    if row.state.status is not ScheduleStatus.PAUSED:
        raise Conflict(
            f"schedule {name} is not paused",
            remedy=f"see when it ticks with `servo schedule preview {name}`",
        )
    missed = missed_while_paused(row.definition, row.state, workspace.now())
    if missed is not None and not catchup:
        # Apart, and whatever becomes of it: if somebody else has moved the schedule meanwhile,
        # the record of what was missed is refused, and resuming is not.
        _ = workspace.submit(missed)
    event = ScheduleResumed(schedule_id=name, catchup=catchup, changed_by=workspace.actor)
    return ScheduleChanged(schedule_id=name, receipt=workspace.submit(event).checked())


def _present(workspace: Workspace, name: str) -> ListedSchedule:
    now = workspace.now()
    return workspace.read(lambda snapshot: find_schedule(snapshot, name, now), as_of=PRESENT)


# --- what a snapshot knows ------------------------------------------------------------------------


def all_schedules(snapshot: Snapshot, now: datetime) -> list[ListedSchedule]:
    """Every schedule that is deployed, by name."""
    rows = [row for row in snapshot.rows("schedule_state") if isinstance(row, ScheduleStateRow)]
    states = {row.schedule_id: row for row in rows if row.status is not ScheduleStatus.REMOVED}
    listed = [
        ListedSchedule(
            definition=row,
            state=states[row.schedule_id],
            next_tick=_next_tick(row, states[row.schedule_id], now),
        )
        for row in snapshot.rows("schedule_definitions")
        if isinstance(row, ScheduleDefinitionRow) and row.schedule_id in states
    ]
    return sorted(listed, key=lambda row: row.name)


def find_schedule(snapshot: Snapshot, name: str, now: datetime) -> ListedSchedule:
    """The schedule of this name."""
    rows = {row.name: row for row in all_schedules(snapshot, now)}
    if name not in rows:
        raise unknown("schedule", name, rows)
    return rows[name]


def newest_ticks(snapshot: Snapshot, name: str, page: Page) -> Listing[ScheduleTickRow]:
    """A page of the ticks of a schedule, newest first."""
    newest = ("scheduled_for",)
    found = Lookup(snapshot).page(
        ScheduleTickRow, page, name="tick_id", newest=newest, schedule_id=name
    )
    return listing_of(found)


def _next_tick(
    row: ScheduleDefinitionRow, state: ScheduleStateRow, now: datetime
) -> datetime | None:
    if state.status is not ScheduleStatus.ACTIVE:
        return None
    return cron_of(row).next_after(max(now, state.low_water))


def _moment(workspace: Workspace, snapshot: Snapshot, as_of: AsOf | None) -> datetime:
    """The time of the view: now, or the given time in the past."""
    return workspace.now() if as_of is None else snapshot.as_of
