"""Which ticks are due, which are passed over, and when to look again."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from servo.controllers.schedules import (
    MAX_COUNTED,
    Due,
    Timetable,
    cron_of,
    due,
    missed_while_paused,
)
from servo.core.events.schedules import (
    SchedulePaused,
    ScheduleRemoved,
    ScheduleResumed,
    ScheduleTicked,
    ScheduleUpserted,
    TickStatus,
)
from servo.core.state.rows.automation import ScheduleDefinitionRow, ScheduleStateRow
from servo.core.state.states import ScheduleStatus
from servo.testing.builders import Story

START = datetime(2025, 3, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def defined(cron: str = "0 * * * *", **fields: Any) -> ScheduleDefinitionRow:
    given: dict[str, Any] = {
        "schedule_id": "s",
        "cron_expressions": (cron,),
        "timezone": "UTC",
        "catchup_window_minutes": 1440,
        "max_catchup_ticks": 3,
        "asset_selection": (),
        "created_at": START,
        "row_version": 1,
    }
    return ScheduleDefinitionRow(**(given | fields))


def standing(
    low_water: datetime = START, status: ScheduleStatus = ScheduleStatus.ACTIVE
) -> ScheduleStateRow:
    return ScheduleStateRow(schedule_id="s", status=status, low_water=low_water, row_version=1)


def test_what_lies_between_the_low_water_and_now_is_due() -> None:
    found = due(defined(), standing(), START + 2 * HOUR)
    assert found == Due(schedule_id="s", ticks=(START + HOUR, START + 2 * HOUR))


def test_nothing_is_due_before_its_time() -> None:
    assert due(defined(), standing(), START + HOUR - timedelta(seconds=1)) == Due(schedule_id="s")


def test_of_many_the_newest_are_ticked_and_the_rest_is_one_skip() -> None:
    found = due(defined(), standing(), START + 10 * HOUR)
    assert found.ticks == (START + 8 * HOUR, START + 9 * HOUR, START + 10 * HOUR)
    assert found.skipped is not None
    assert (found.skipped.first, found.skipped.last) == (START + HOUR, START + 7 * HOUR)
    assert found.skipped.count == 7


def test_what_is_older_than_the_window_is_skipped_however_few() -> None:
    found = due(defined(catchup_window_minutes=30), standing(), START + timedelta(hours=2.75))
    assert found.ticks == ()
    assert found.skipped is not None
    assert (found.skipped.count, found.skipped.last) == (2, START + 2 * HOUR)


def test_a_year_of_minutes_is_counted_as_far_as_anybody_cares() -> None:
    now = START + timedelta(days=365)
    found = due(defined("* * * * *", max_catchup_ticks=1), standing(), now)
    assert found.ticks == (now,)
    assert found.skipped is not None
    assert found.skipped.count == MAX_COUNTED
    assert found.skipped.last == now - timedelta(minutes=1)
    assert "there may be more" in found.skipped.reason


@pytest.mark.parametrize("status", [ScheduleStatus.PAUSED, ScheduleStatus.REMOVED])
def test_what_does_not_tick_is_never_due(status: ScheduleStatus) -> None:
    assert due(defined(), standing(status=status), START + 5 * HOUR) == Due(schedule_id="s")


def test_a_pause_costs_the_ticks_that_it_lasted() -> None:
    paused = standing(status=ScheduleStatus.PAUSED)
    missed = missed_while_paused(defined(), paused, START + 4 * HOUR)
    assert missed is not None
    assert (missed.count, missed.reason) == (4, "paused")
    assert missed_while_paused(defined(), paused, START + timedelta(minutes=5)) is None
    assert missed_while_paused(defined(), standing(), START + 4 * HOUR) is None


@given(
    hours=st.integers(min_value=0, max_value=400),
    most=st.integers(min_value=1, max_value=9),
    window=st.integers(min_value=1, max_value=40_000),
)
def test_every_tick_is_either_ticked_or_skipped_and_the_order_holds(
    hours: int, most: int, window: int
) -> None:
    now = START + hours * HOUR + timedelta(minutes=7)
    row = defined(max_catchup_ticks=most, catchup_window_minutes=window)
    found = due(row, standing(), now)
    skipped = 0 if found.skipped is None else found.skipped.count
    assert skipped + len(found.ticks) == hours
    assert len(found.ticks) <= most
    assert list(found.ticks) == sorted(found.ticks)
    if found.skipped is not None and found.ticks:
        assert found.skipped.last < found.ticks[0]


# --- the timetable --------------------------------------------------------------------------------


class Workspace(Story):
    """A ledger with schedules in it, and a timetable that looks at it."""

    def __init__(self) -> None:
        super().__init__()
        self.timetable = Timetable()

    def define(self, name: str, cron: str) -> None:
        assert self.tell(ScheduleUpserted(schedule_id=name, cron_expressions=(cron,))).applied
        self.timetable.look(self.state)

    def tick(self, name: str) -> None:
        row = self.state.schedules.rows[name]
        at = cron_of(row).next_after(self.state.schedule_state.rows[name].low_water)
        assert at is not None
        self.tell(
            ScheduleTicked(
                schedule_id=name,
                tick_id=f"{name}:{at.isoformat()}",
                scheduled_for=at,
                definition_version=row.definition_version,
                status=TickStatus.SKIPPED,
            )
        )
        self.timetable.look(self.state)


def test_a_timetable_knows_what_is_due_and_what_comes_next() -> None:
    ledger = Workspace()
    assert ledger.timetable.next_due() is None
    ledger.define("hourly", "0 * * * *")
    ledger.define("minutely", "* * * * *")
    begun = ledger.state.ts
    first = ledger.timetable.next_due()
    assert first is not None
    assert timedelta(0) < first - begun <= timedelta(minutes=1)
    assert ledger.timetable.due(begun) == []
    assert ledger.timetable.due(first) == ["minutely"]
    assert ledger.timetable.next_due() == first, "it stays due until it was ticked"
    assert ledger.timetable.due(begun + HOUR) == ["hourly", "minutely"]


def test_what_was_due_is_not_by_a_clock_that_was_set_back() -> None:
    ledger = Workspace()
    ledger.define("minutely", "* * * * *")
    first = ledger.timetable.next_due()
    assert first is not None
    assert ledger.timetable.due(first) == ["minutely"]
    assert ledger.timetable.due(first - timedelta(seconds=1)) == []
    assert ledger.timetable.next_due() == first
    assert ledger.timetable.due(first) == ["minutely"]


def test_a_schedule_that_ticked_is_due_at_its_next_tick() -> None:
    ledger = Workspace()
    ledger.define("minutely", "* * * * *")
    first = ledger.timetable.next_due()
    assert first is not None
    assert ledger.timetable.due(first) == ["minutely"]
    ledger.wait(minutes=1)
    ledger.tick("minutely")
    assert ledger.timetable.due(first) == []
    assert ledger.timetable.next_due() == first + timedelta(minutes=1)


def test_a_schedule_that_was_paused_or_changed_leaves_no_entry_behind() -> None:
    ledger = Workspace()
    ledger.define("s", "* * * * *")
    later = ledger.state.ts + timedelta(days=400)
    ledger.tell(SchedulePaused(schedule_id="s"))
    ledger.timetable.look(ledger.state)
    assert ledger.timetable.next_due() is None
    assert ledger.timetable.due(later) == []
    ledger.tell(ScheduleResumed(schedule_id="s"))
    ledger.define("s", "0 0 1 1 *")
    assert ledger.timetable.due(ledger.state.ts + timedelta(minutes=2)) == []
    assert ledger.timetable.due(later) == ["s"]
    ledger.tell(ScheduleRemoved(schedule_id="s"))
    ledger.timetable.look(ledger.state)
    assert ledger.timetable.due(later) == []


def test_a_schedule_that_was_moved_is_due_by_its_new_times_alone() -> None:
    ledger = Workspace()
    ledger.define("s", "* * * * *")
    ledger.define("s", "0 0 1 1 *")
    assert ledger.timetable.due(ledger.state.ts + timedelta(minutes=2)) == []


def test_a_schedule_of_a_zone_that_is_not_known_here_is_never_due_and_told_once() -> None:
    story = Story()
    for name in ("here", "mars"):
        story.tell(ScheduleUpserted(schedule_id=name, cron_expressions=("0 * * * *",)))
    rows = story.state.schedules.rows
    rows["mars"] = replace(rows["mars"], timezone="Mars/Olympus")
    timetable = Timetable()
    [(name, error)] = timetable.look(story.state)
    assert (name, "Mars/Olympus" in str(error)) == ("mars", True)
    assert timetable.look(story.state) == []
    assert timetable.due(story.state.ts + HOUR) == ["here"]
