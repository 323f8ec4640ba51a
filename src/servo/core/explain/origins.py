"""What caused a run: the path from its request back to the first cause.

Every step is a recorded event: its position, the actor that sent it, and what it was. A step is
found by its position, in rows that store theirs, or else in the index of batches. The path ends at
an event without a recorded cause, and at rows from before positions were stored.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import assert_never

import msgspec

from servo.core.events.assets import AssetReported
from servo.core.events.automation import AutomationTicked
from servo.core.events.backfills import BackfillChunkPlanned
from servo.core.events.sensors import SensorMessageReceived
from servo.core.events.tasks import TaskFinished
from servo.core.explain.records import Records
from servo.core.explain.words import instant, plural
from servo.core.positions import Position, parse_position
from servo.core.state.rows.automation import BackfillRow, ScheduleTickRow, SensorEvalRow
from servo.core.state.rows.execution import RunRow
from servo.core.state.rows.system import LedgerIndexRow

MOST_STEPS = 100

_Starting = RunRow | BackfillRow | ScheduleTickRow | SensorEvalRow


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step of the path; `actor` is empty if it was not recorded."""

    position: str
    actor: str
    what: str


_WORDS: Mapping[str, str] = MappingProxyType(
    {
        kind.__name__: words
        for kind, words in (
            (SensorMessageReceived, "a message for a sensor was received"),
            (AutomationTicked, "automation conditions were evaluated"),
            (BackfillChunkPlanned, "the next chunk of a backfill was planned"),
            (AssetReported, "an output was reported"),
        )
    }
)


def what_caused(records: Records, run: RunRow) -> tuple[Step, ...]:
    """The request of a run, its cause, the cause of that, and so on to the first cause."""
    if not run.request_position:
        return ()
    steps = [Step(position=run.request_position, actor=run.requested_by, what=_run(run))]
    seen, cause = {run.request_position}, run.cause
    while cause and cause not in seen and len(steps) < MOST_STEPS:
        seen.add(cause)
        step, cause = _step(records, cause)
        steps.append(step)
    return tuple(steps)


def _step(records: Records, position: str) -> tuple[Step, str]:
    """The event at a position, and the position of its cause."""
    at = parse_position(position)
    batch = records.batch_at(at)
    actor = "" if batch is None else batch.actor
    row: _Starting | None = records.starting_at(position)
    if row is not None:
        return Step(position=position, actor=actor, what=_words(row)), row.cause
    if batch is None:
        return Step(position=position, actor=actor, what="an event that is not on record"), ""
    return _in_batch(records, batch, at)


def _in_batch(records: Records, batch: LedgerIndexRow, at: Position) -> tuple[Step, str]:
    """An event without a row of its own, described by its batch or its run."""
    types = batch.event_types
    run = None if batch.run_id is None else records.run(batch.run_id)
    if run is not None and TaskFinished.__name__ in types:
        text = f"a task of {run.run_id} finished"
        return Step(position=str(at), actor=batch.actor, what=text), run.request_position
    text = _WORDS.get(types[0], ", ".join(types))
    return Step(position=str(at), actor=batch.actor, what=text), batch.cause


def _words(row: _Starting) -> str:
    match row:
        case RunRow():
            return _run(row)
        case BackfillRow():
            parts = plural(row.total_partitions, "partition")
            return f"the backfill {row.backfill_id} of {parts} was created"
        case ScheduleTickRow():
            return f"the schedule {row.schedule_id} ticked for {instant(row.scheduled_for)}"
        case SensorEvalRow():
            heard = "was polled" if row.message_id is None else f"got message {row.message_id}"
            return f"the sensor {row.sensor_id} {heard}"
        case _:
            assert_never(row)


def _run(run: RunRow) -> str:
    asked = f": {run.request_text}" if run.request_text else ""
    return f"{run.run_id} was requested{asked}"
