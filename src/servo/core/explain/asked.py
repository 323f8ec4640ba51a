"""What requested a run: its recorded trigger, and other requests for the same run."""

from typing import assert_never

from msgspec.structs import replace

from servo.core.events.runs import (
    AutomationSource,
    BackfillSource,
    ManualSource,
    RerunSource,
    ScheduleSource,
    SensorSource,
)
from servo.core.explain.conditions import evaluations
from servo.core.explain.finding import Finding, FindingStatus, What
from servo.core.explain.origins import Step, what_caused
from servo.core.explain.records import Records
from servo.core.explain.words import instant, listed, partition, plural
from servo.core.state.rows.automation import ScheduleTickRow, SensorEvalRow
from servo.core.state.rows.execution import RunRow

MOST_REPETITIONS = 20


def asked(records: Records, run: RunRow) -> tuple[Finding, ...]:
    """What requested a run, and which other requests it answered or conflicted with."""
    return (
        _source(records, run),
        *_caused(records, run),
        *_same_key(records, run),
        *_conflicts(records, run),
    )


def _caused(records: Records, run: RunRow) -> list[Finding]:
    """Who requested a run, what caused that, and so on: each step below its effect."""
    steps = what_caused(records, run)
    if len(steps) < 2 or not any(step.actor for step in steps):
        return []  # nothing beyond the source of the run
    below: tuple[Finding, ...] = ()
    for step in reversed(steps):
        below = (_cause(run, step, below),)
    return list(below)


def _cause(run: RunRow, step: Step, because: tuple[Finding, ...]) -> Finding:
    return Finding(
        what=What.CAUSE,
        status=FindingStatus.NOTE,
        subject=run.run_id,
        text=f"{step.what}, by {step.actor or 'unknown'}, event {step.position}",
        because=because,
    )


def _source(records: Records, run: RunRow) -> Finding:
    source = run.source
    match source:
        case ManualSource():
            by = f" by {source.user_id}" if source.user_id else ""
            request = f" with request {source.request_id}" if source.request_id else ""
            return _note(run, What.BY_HAND, f"started by hand{by}{request}")
        case RerunSource():
            return _again(records, run, source)
        case ScheduleSource():
            return _by_schedule(records, run, source)
        case SensorSource():
            return _by_sensor(records, run, source)
        case BackfillSource():
            return _by_backfill(records, run, source)
        case AutomationSource():
            return _by_condition(records, run, source)
        case _:
            assert_never(source)


def _note(run: RunRow, what: What, text: str, *because: Finding) -> Finding:
    """What requested a run, at the time of the request."""
    return Finding(
        what=what,
        status=FindingStatus.NOTE,
        subject=run.run_id,
        text=f"{text}; {instant(run.created_at)}",
        at=run.created_at,
        because=because,
    )


# --- by hand --------------------------------------------------------------------------------------


def _again(records: Records, run: RunRow, source: RerunSource) -> Finding:
    """A retry, perhaps of a retry, with what requested the first run."""
    before = records.run(source.run_id)
    fate = "" if before is None else f", which is {before.state.value}"
    by = f" by {source.user_id}" if source.user_id else " by hand"
    found = _note(run, What.AGAIN, f"a retry of {source.run_id}{fate}, requested{by}")
    first = _first(records, before)
    if first is None:
        return found
    origin = _source(records, first)
    told = replace(origin, text=f"originally {first.run_id}: {origin.text}")
    return replace(found, because=(told,))


def _first(records: Records, run: RunRow | None) -> RunRow | None:
    """The first run of a chain of retries, if the chain is not too long."""
    for _ in range(MOST_REPETITIONS):
        if run is None or not isinstance(run.source, RerunSource):
            return run
        run = records.run(run.source.run_id)
    return None


# --- by schedules, sensors, conditions and backfills ---------------------------------------------


def _by_schedule(records: Records, run: RunRow, source: ScheduleSource) -> Finding:
    name = source.schedule_id
    tick = records.tick(source.tick_id)
    if tick is None:
        text = f"requested by the schedule {name}: tick {source.tick_id}, which is not on record"
        return _note(run, What.BY_SCHEDULE, text)
    text = f"requested by the schedule {name}: {_tick(records, tick)}"
    return replace(_note(run, What.BY_SCHEDULE, text), seq=tick.row_version)


def _tick(records: Records, tick: ScheduleTickRow) -> str:
    """A tick, its definition version, and whether that is still the current one."""
    definition = records.schedule(tick.schedule_id)
    version = f"definition version {tick.definition_version}"
    if definition is not None and definition.definition_version != tick.definition_version:
        version += f" (now {definition.definition_version})"
    chosen = [f"selecting {listed(tick.asset_selection)}"] if tick.asset_selection else []
    keys = [partition(key) for key in tick.partition_selection]
    parts = [f"of {plural(len(keys), 'partition')} {listed(keys)}"] if keys else []
    said = [f'it said "{tick.message}"'] if tick.message else []
    words = [f"tick of {instant(tick.scheduled_for)}", version, *chosen, *parts, *said]
    return ", ".join(words)


def _by_sensor(records: Records, run: RunRow, source: SensorSource) -> Finding:
    found = records.evaluation(source.sensor_id, source.eval_id)
    head = f"requested by the sensor {source.sensor_id}"
    if found is None:
        text = f"{head}: evaluation {source.eval_id}, which is not on record"
        return _note(run, What.BY_SENSOR, text)
    note = _note(run, What.BY_SENSOR, f"{head}: {evaluation(found)}")
    return replace(note, seq=found.row_version)


def evaluation(row: SensorEvalRow) -> str:
    """What an evaluation of a sensor was for."""
    about = f"message {row.message_id}" if row.message_id is not None else "a poll"
    words = [f"evaluation {row.eval_id} of {about}"]
    if row.cursor_after is not None and row.cursor_after != row.cursor_before:
        before = "nothing" if row.cursor_before is None else repr(row.cursor_before)
        words.append(f"cursor from {before} to {row.cursor_after!r}")
    if row.message:
        words.append(f'it said "{row.message}"')
    return ", ".join(words)


def _by_condition(records: Records, run: RunRow, source: AutomationSource) -> Finding:
    """The evaluation that requested the run, with the conditions that were true."""
    after = source.upstream_materialization_id
    since = f", after the output {after}" if after else ""
    if not source.sensor_id:
        text = f"an automation condition was true: evaluation {source.evaluation_id}{since}"
        return _note(run, What.BY_AUTOMATION, text)
    rows = records.conditions_at(source.sensor_id, source.tick)
    told = f"evaluation {source.tick} of {source.sensor_id}{since}"
    text = f"an automation condition was true: {told}"
    return _note(run, What.BY_AUTOMATION, text, *evaluations(rows, whole=records.whole))


def _by_backfill(records: Records, run: RunRow, source: BackfillSource) -> Finding:
    row = records.backfill(source.backfill_id)
    number = source.chunk_index + 1
    if row is None:
        text = f"chunk {number} of the backfill {source.backfill_id}, which is not on record"
        return _note(run, What.BY_BACKFILL, text)
    chunk = f"chunk {number} of {row.total_chunks} of the backfill {row.backfill_id}"
    child = f", a retry of {row.parent_backfill_id}" if row.parent_backfill_id else ""
    text = f"{chunk} ({plural(row.total_partitions, 'partition')}, {row.state.value}){child}"
    return replace(_note(run, What.BY_BACKFILL, text), seq=row.row_version)


# --- other requests with the same run key ---------------------------------------------------------


def _same_key(records: Records, run: RunRow) -> list[Finding]:
    """Ticks and evaluations that requested the same run key and got this run."""
    source = run.source
    own_tick = source.tick_id if isinstance(source, ScheduleSource) else None
    own_eval = source.eval_id if isinstance(source, SensorSource) else None
    ticks = [row for row in records.ticks_of_run(run.run_id) if row.tick_id != own_tick]
    evals = [
        row
        for row in records.evaluations_for(run.run_key)
        if row.eval_id != own_eval and not row.stale
    ]
    told = [
        *((row, f"the schedule {row.schedule_id}, {_tick(records, row)}") for row in ticks),
        *((row, f"the sensor {row.sensor_id}, {evaluation(row)}") for row in evals),
    ]
    return [
        Finding(
            what=What.SAME_RUN_KEY,
            status=FindingStatus.NOTE,
            subject=run.run_id,
            text=f"also requested by {words}: the same run key, so no second run was created",
            seq=row.row_version,
        )
        for row, words in told
    ]


def _conflicts(records: Records, run: RunRow) -> list[Finding]:
    return [
        Finding(
            what=What.RUN_KEY_CONFLICT,
            status=FindingStatus.FAILED,
            subject=run.run_id,
            text=f"a different request with the run key {run.run_key!r} was refused at "
            f"{instant(row.detected_at)} (batch {row.conflicting_batch_id})",
            at=row.detected_at,
            seq=row.row_version,
            next="send that request again with another run key",
        )
        for row in records.conflicts(run.run_key)
    ]
