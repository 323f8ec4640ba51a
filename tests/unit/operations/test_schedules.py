"""Schedules as operations on a workspace in memory."""

from datetime import UTC, datetime, timedelta

import pytest

from servo.code.evaluator.messages import (
    CodeDescribed,
    DescribeCode,
    Evaluated,
    EvaluateTick,
    EvaluatorAnswer,
    EvaluatorQuestion,
)
from servo.core.declared import Declared
from servo.core.events.envelope import Batch, Event
from servo.core.events.schedules import ScheduleRemoved, ScheduleUpserted, TickStatus
from servo.core.state.states import ScheduleStatus
from servo.errors import Conflict, Invalid, NotFound, Unavailable
from servo.operations.interface.listing import Page
from servo.operations.triggers.schedules import (
    get_schedule,
    list_schedules,
    list_ticks,
    pause_schedule,
    preview_schedule,
    resume_schedule,
)
from servo.operations.triggers.ticks import parse_tick, preview_tick, trigger_schedule
from servo.ports.world import World
from servo.storage.memory import MemoryStore
from servo.testing.clock import ManualClock, SeededEntropy
from servo.workspace.address import Address
from servo.workspace.channels import AnyChannel
from servo.workspace.receipt import Receipt
from servo.workspace.workspace import Workspace

ADDRESS = Address("memory://schedules")
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
HOURLY = ScheduleUpserted(schedule_id="hourly", cron_expressions=("0 * * * *",), target="orders")
DAILY = ScheduleUpserted(
    schedule_id="daily", cron_expressions=("0 6 * * *",), timezone="Europe/Berlin", enabled=False
)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON)


@pytest.fixture
def world(clock: ManualClock) -> World:
    return World(MemoryStore(clock), clock, SeededEntropy())


@pytest.fixture
def workspace(world: World) -> Workspace:
    made = Workspace(ADDRESS, world, AnyChannel(ADDRESS, world), actor="user:ada@laptop")
    _ = made.submit(HOURLY, DAILY).checked()
    return made


def status(workspace: Workspace, name: str = "hourly") -> ScheduleStatus:
    return get_schedule(workspace, name).schedule.state.status


def test_schedules_are_listed_by_name_with_their_next_ticks(workspace: Workspace) -> None:
    found = list_schedules(workspace).items
    assert [(row.name, row.next_tick) for row in found] == [
        ("daily", None),
        ("hourly", NOON + timedelta(hours=1)),
    ]


def test_a_schedule_is_paused_at_once_and_only_once(workspace: Workspace) -> None:
    changed = pause_schedule(workspace, "hourly")
    assert (changed.schedule_id, changed.receipt.applied) == ("hourly", True)
    assert status(workspace) is ScheduleStatus.PAUSED
    with pytest.raises(Conflict, match=r"already paused; resume it with `servo schedule resume"):
        _ = pause_schedule(workspace, "hourly")


def test_what_was_missed_while_paused_is_recorded_as_skipped(
    workspace: Workspace, clock: ManualClock
) -> None:
    _ = pause_schedule(workspace, "hourly")
    clock.advance(timedelta(hours=3))
    _ = resume_schedule(workspace, "hourly")
    assert status(workspace) is ScheduleStatus.ACTIVE
    [tick] = list_ticks(workspace, "hourly", Page(limit=5)).items
    assert (tick.status, tick.skipped_count, tick.message) == (TickStatus.SKIPPED, 3, "paused")
    with pytest.raises(Conflict, match="is not paused"):
        _ = resume_schedule(workspace, "hourly")


def test_a_catch_up_leaves_what_was_missed_due(workspace: Workspace, clock: ManualClock) -> None:
    _ = pause_schedule(workspace, "hourly")
    clock.advance(timedelta(hours=3))
    _ = resume_schedule(workspace, "hourly", catchup=True)
    assert list_ticks(workspace, "hourly", Page(limit=5)).items == []
    assert get_schedule(workspace, "hourly").schedule.state.low_water < NOON + timedelta(hours=1)


def test_the_past_shows_the_schedule_as_it_was(workspace: Workspace, clock: ManualClock) -> None:
    before = workspace.read(lambda snapshot: snapshot.applied_seq)
    clock.advance(timedelta(hours=5))
    _ = pause_schedule(workspace, "hourly")
    then = get_schedule(workspace, "hourly", as_of=before).schedule
    assert (then.state.status, then.next_tick) == (
        ScheduleStatus.ACTIVE,
        NOON + timedelta(hours=1),
    )
    assert list_schedules(workspace, as_of=before).items[1] == then
    assert preview_schedule(workspace, "hourly", 1, as_of=before).ticks == [then.next_tick]


def test_the_next_ticks_of_a_paused_schedule_are_known(workspace: Workspace) -> None:
    found = preview_schedule(workspace, "daily", 2)
    assert (found.timezone, found.ticks) == (
        "Europe/Berlin",
        [datetime(2026, 2, 1, 5, tzinfo=UTC), datetime(2026, 2, 2, 5, tzinfo=UTC)],
    )


def test_an_unknown_schedule_is_answered_with_what_was_meant(workspace: Workspace) -> None:
    with pytest.raises(NotFound, match="did you mean hourly"):
        _ = pause_schedule(workspace, "hourl")
    with pytest.raises(NotFound, match="choose one of: daily, hourly"):
        _ = list_ticks(workspace, "x", Page(limit=1))


class Before:
    """A channel on which somebody else is always first."""

    def __init__(self, world: World, event: Event) -> None:
        self._channel = AnyChannel(ADDRESS, world)
        self._first = Workspace(ADDRESS, world, self._channel)
        self._event = event

    def send(self, batch: Batch) -> Receipt:
        _ = self._first.submit(self._event)
        return self._channel.send(batch)


def test_a_refusal_of_the_workspace_is_raised_with_its_reason(
    workspace: Workspace, world: World
) -> None:
    late = Workspace(ADDRESS, world, Before(world, ScheduleRemoved(schedule_id="hourly")))
    with pytest.raises(Conflict, match="unknown_schedule"):
        _ = pause_schedule(late, "hourly")
    assert [row.name for row in list_schedules(workspace).items] == ["daily"]


# --- by hand --------------------------------------------------------------------------------------


class Answering:
    """An evaluator of code that declares these schedules and has one answer to every tick."""

    def __init__(self, answer: Evaluated) -> None:
        self.asked: list[EvaluatorQuestion] = []
        self._answer = answer

    def ask(self, question: EvaluatorQuestion, seconds: float) -> EvaluatorAnswer:
        assert seconds > 0
        if isinstance(question, DescribeCode):
            return CodeDescribed(declared=Declared(schedules=(HOURLY, DAILY)))
        self.asked.append(question)
        return self._answer


def test_a_tick_by_hand_is_recorded_and_moves_nothing_on(workspace: Workspace) -> None:
    evaluator = Answering(Evaluated(skipped="nothing to do"))
    at = NOON - timedelta(days=30)
    found = trigger_schedule(workspace, evaluator, "daily", at=at)
    assert (found.run_ids, found.skipped, found.error) == ([], "nothing to do", "")
    asked = EvaluateTick(schedule_id="daily", tick_id=found.tick_id, scheduled_for=at)
    assert evaluator.asked == [asked]
    [tick] = list_ticks(workspace, "daily", Page(limit=5)).items
    assert (tick.tick_id, tick.scheduled_for, tick.message) == (found.tick_id, at, "nothing to do")
    assert get_schedule(workspace, "daily").schedule.state.last_scheduled_for is None


def test_a_preview_of_a_tick_records_nothing(workspace: Workspace) -> None:
    found = preview_tick(workspace, Answering(Evaluated(error="boom")), "daily", at=NOON)
    assert (found.runs, found.error) == ([], "boom")
    assert list_ticks(workspace, "daily", Page(limit=5)).items == []


def test_code_that_cannot_be_asked_is_no_failed_tick(workspace: Workspace) -> None:
    with pytest.raises(Unavailable, match="no module"):
        _ = trigger_schedule(
            workspace, Answering(Evaluated(error="no module", unasked=True)), "daily"
        )
    assert list_ticks(workspace, "daily", Page(limit=5)).items == []


SKIPPED = Evaluated(skipped="nothing to do")


@pytest.mark.parametrize(
    ("text", "utc"), [("2025-01-15T06:00", 5), ("2025-01-15T06:00Z", 6), ("2025-01-15T06:00+02", 4)]
)
def test_a_time_without_an_offset_is_in_the_zone_of_the_schedule(
    workspace: Workspace, text: str, utc: int
) -> None:
    at = parse_tick(text)
    when = datetime(2025, 1, 15, utc, tzinfo=UTC)
    assert preview_tick(workspace, Answering(SKIPPED), "daily", at=at).scheduled_for == when
    _ = trigger_schedule(workspace, Answering(SKIPPED), "daily", at=at)
    [tick] = list_ticks(workspace, "daily", Page(limit=5)).items
    assert tick.scheduled_for == when


def test_a_time_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(Invalid, match="'noon' is not a time"):
        _ = parse_tick("noon")


@pytest.mark.parametrize("text", ["9999-12-31T23:59-14:00", "0001-01-01T00:00"])
def test_a_time_that_is_in_no_year_of_utc_is_refused(workspace: Workspace, text: str) -> None:
    with pytest.raises(Invalid, match="is out of range in UTC; use another time"):
        _ = preview_tick(workspace, Answering(SKIPPED), "daily", at=parse_tick(text))


def test_a_schedule_that_the_code_does_not_have_is_refused(workspace: Workspace) -> None:
    with pytest.raises(NotFound, match=r"no schedule dialy .*; did you mean daily\?"):
        _ = preview_tick(workspace, Answering(SKIPPED), "dialy")
    with pytest.raises(NotFound, match=r"no schedule dialy .*; did you mean daily\?"):
        _ = trigger_schedule(workspace, Answering(SKIPPED), "dialy")


@pytest.mark.parametrize("count", [-1, 0, 1_001, 10**9])
def test_a_preview_has_a_bounded_number_of_ticks(count: int, workspace: Workspace) -> None:
    with pytest.raises(Invalid, match=f"invalid count: {count}; use a whole number from 1 to 1000"):
        _ = preview_schedule(workspace, "hourly", count)
