"""Manual ticks of schedules, as a dry run or with their runs."""

from collections.abc import Sequence
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import msgspec

from servo.code.evaluator.messages import CodeDescribed, DescribeCode, Evaluated, EvaluateTick
from servo.code.evaluator.schedules import tick_id
from servo.core.events.envelope import Event
from servo.core.state.rows.automation import ScheduleDefinitionRow
from servo.core.state.rows.execution import RunRow
from servo.errors import Invalid, Unavailable
from servo.operations.interface.evaluating import (
    Evaluates,
    RequestPreview,
    answer_from,
    previews_of,
)
from servo.operations.interface.moments import PRESENT
from servo.operations.interface.naming import unknown
from servo.operations.interface.roles import operation
from servo.operations.triggers.schedules import find_schedule
from servo.triggers.schedules import EVALUATE_SECONDS, DueTick, ticked
from servo.workspace.receipt import Receipt
from servo.workspace.workspace import Workspace


class ManualTick(msgspec.Struct, frozen=True, kw_only=True):
    """A manual tick that is evaluated and not committed yet."""

    schedule_id: str
    scheduled_for: datetime
    request_id: str
    answer: Evaluated

    @property
    def tick_id(self) -> str:
        return tick_id(self.schedule_id, self.scheduled_for, self.request_id)

    def events(self, definition: ScheduleDefinitionRow) -> list[Event]:
        """The batch that records the tick and starts its runs."""
        due = DueTick(definition=definition, scheduled_for=self.scheduled_for)
        return ticked(due, self.answer, manual=self.request_id)


class TickPreview(msgspec.Struct, frozen=True, kw_only=True):
    """The runs that a tick would start, why there are none, or what went wrong."""

    schedule_id: str
    scheduled_for: datetime
    runs: list[RequestPreview]
    skipped: str = ""
    error: str = ""


class ScheduleTriggered(msgspec.Struct, frozen=True, kw_only=True):
    """A tick that was recorded, and the runs that it started."""

    schedule_id: str
    tick_id: str
    run_ids: list[str]
    receipt: Receipt
    skipped: str = ""
    error: str = ""


class TickFinished(msgspec.Struct, frozen=True, kw_only=True):
    """A finished tick, with the final state of its runs."""

    schedule_id: str
    tick_id: str
    runs: list[RunRow]
    skipped: str = ""
    error: str = ""


@operation
def preview_tick(
    workspace: Workspace, evaluates: Evaluates, name: str, *, at: datetime | None = None
) -> TickPreview:
    """Preview what a tick of a schedule would start now; nothing is recorded.

    An `at` without an offset is in the schedule's time zone.
    """
    when = tick_instant(evaluates, name, at or workspace.now())
    answer = evaluate_by_hand(evaluates, name, when, request_id="preview").answer
    return TickPreview(
        schedule_id=name,
        scheduled_for=when,
        runs=previews_of(answer.runs),
        skipped=answer.skipped,
        error=answer.error,
    )


@operation
def trigger_schedule(
    workspace: Workspace, evaluates: Evaluates, name: str, *, at: datetime | None = None
) -> ScheduleTriggered:
    """Run a tick of a schedule now, even if it is paused. Its scheduled ticks are not affected.

    An `at` without an offset is in the schedule's time zone.
    """
    now = workspace.now()
    row = workspace.read(lambda snapshot: find_schedule(snapshot, name, now), as_of=PRESENT)
    when = _in_zone(at or now, row.definition.timezone)
    tick = evaluate_by_hand(evaluates, name, when, request_id=workspace.token(8))
    receipt = workspace.submit(*tick.events(row.definition)).checked()
    return ScheduleTriggered(
        schedule_id=name,
        tick_id=tick.tick_id,
        run_ids=[run.requested.run_id for run in tick.answer.runs],
        receipt=receipt,
        skipped=tick.answer.skipped,
        error=tick.answer.error,
    )


def tick_instant(evaluates: Evaluates, name: str, at: datetime) -> datetime:
    """The instant of a tick, without an offset in the time zone that the code gives its schedule.

    `NotFound` if the code has no such schedule.
    """
    declared = answer_from(evaluates, DescribeCode(), CodeDescribed).declared
    zones = {one.schedule_id: one.timezone for one in declared.schedules}
    if name not in zones:
        raise unknown("schedule", name, zones)
    return _in_zone(at, zones[name])


def finished_tick(ticked: ScheduleTriggered, runs: Sequence[RunRow]) -> TickFinished:
    """A tick whose runs have ended."""
    return TickFinished(
        schedule_id=ticked.schedule_id,
        tick_id=ticked.tick_id,
        runs=list(runs),
        skipped=ticked.skipped,
        error=ticked.error,
    )


def evaluate_by_hand(
    evaluates: Evaluates, name: str, at: datetime, *, request_id: str
) -> ManualTick:
    """Evaluate a schedule for one manual tick."""
    question = EvaluateTick(
        schedule_id=name, tick_id=tick_id(name, at, request_id), scheduled_for=at
    )
    answer = evaluates.ask(question, EVALUATE_SECONDS)
    if answer.unasked:
        raise Unavailable(
            answer.error, remedy="nothing was recorded; try again", may_have_applied=False
        )
    return ManualTick(schedule_id=name, scheduled_for=at, request_id=request_id, answer=answer)


def parse_tick(text: str) -> datetime:
    """Parse the time of a tick, with or without an offset."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise Invalid(
            f"{text!r} is not a time", remedy="use a time such as 2025-01-15T06:00"
        ) from None


def _in_zone(at: datetime, timezone: str) -> datetime:
    zoned = at if at.tzinfo is not None else at.replace(tzinfo=ZoneInfo(timezone))
    try:
        return zoned.astimezone(UTC)
    except OverflowError:
        raise Invalid(f"{at} is out of range in UTC", remedy="use another time") from None
