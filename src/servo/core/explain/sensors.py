"""The sensors of an asset: whether they are evaluated, and their last result."""

from datetime import timedelta
from shlex import quote
from typing import assert_never

from msgspec.structs import replace

from servo.core.declared import AUTOMATION_LABEL
from servo.core.events.runs import SensorSource
from servo.core.events.sensors import SensorEvalStatus, SensorMode
from servo.core.explain.asked import evaluation
from servo.core.explain.finding import Finding, FindingStatus, What
from servo.core.explain.records import Records, Subject
from servo.core.explain.sources import sources_of
from servo.core.explain.words import due, instant, listed, plural
from servo.core.state.rows.automation import SensorDefinitionRow, SensorEvalRow, SensorStateRow
from servo.core.state.states import SensorStatus


def sensors(records: Records, subject: Subject) -> list[Finding]:
    """The sensors that select an asset, and those that materialized it before.

    Sensors of conditions are left out: they are explained with the condition.
    """
    found = {row.sensor_id: row for row in records.sensors_of(subject.asset_key)}
    for source in sources_of(records, subject):
        row = records.sensor(source.sensor_id) if isinstance(source, SensorSource) else None
        if row is not None:
            found.setdefault(row.sensor_id, row)
    plain = (row for row in found.values() if AUTOMATION_LABEL not in row.labels)
    return [_sensor(records, row) for row in plain]


def _sensor(records: Records, row: SensorDefinitionRow) -> Finding:
    name = row.sensor_id
    state = records.sensor_state(name)
    found = _note(name, f"the sensor {name}")
    if row.removed_at is not None or state is None:
        return replace(found, text=f"{found.text} was removed", next="deploy it again")
    found = replace(found, at=state.last_evaluation_at, seq=state.row_version)
    found = replace(found, because=_looked(records, row, state))
    match state.status:
        case SensorStatus.PAUSED:
            return replace(
                found,
                status=FindingStatus.WAITS,
                text=f"{found.text} is paused",
                next="resume it",
                command=f"servo sensor resume {quote(name)}",
            )
        case SensorStatus.ERROR:
            times = plural(state.consecutive_failures, "time")
            text = f"{found.text} fails, {times} in a row: {state.last_error}"
            return replace(
                found,
                status=FindingStatus.FAILED,
                text=text,
                next=f"fix it; {_looks(records, row, state)}",
            )
        case SensorStatus.ACTIVE:
            return replace(found, text=f"{found.text} is active", next=_looks(records, row, state))
        case _:
            assert_never(state.status)


def _looks(records: Records, row: SensorDefinitionRow, state: SensorStateRow) -> str:
    """When a sensor is evaluated again."""
    if row.mode is SensorMode.PUSH:
        return "it is evaluated when the next message arrives"
    if state.last_evaluation_at is None:
        return "it will be evaluated in a moment"
    again = state.last_evaluation_at + timedelta(milliseconds=row.min_interval_ms)
    return f"it is evaluated again at {due(again, records.now)} at the earliest"


def _looked(
    records: Records, row: SensorDefinitionRow, state: SensorStateRow
) -> tuple[Finding, ...]:
    """The last recorded evaluation, and quiet ones since, which leave no record."""
    looked = state.last_evaluation_at
    if looked is None:
        return (_note(row.sensor_id, "it has not been evaluated yet"),)
    newest = records.last_evaluation(row.sensor_id)
    last = () if newest is None else (_evaluated(records, newest),)
    if newest is not None and newest.evaluated_at >= looked:
        return last
    quiet = _note(row.sensor_id, f"it was evaluated at {instant(looked)}: no new data")
    return (replace(quiet, at=looked), *last)


def _evaluated(records: Records, row: SensorEvalRow) -> Finding:
    when = f"at {instant(row.evaluated_at)}"
    found = Finding(
        what=What.SENSOR,
        status=FindingStatus.FAILED
        if row.status is SensorEvalStatus.FAILED
        else FindingStatus.NOTE,
        subject=row.eval_id,
        text=f"{when} it found no new data: {evaluation(row)}",
        at=row.evaluated_at,
        seq=row.row_version,
    )
    if row.stale:
        text = f"{when} its evaluation was discarded, because another one finished first"
        return replace(found, text=f"{text}: {evaluation(row)}")
    match row.status:
        case SensorEvalStatus.NO_NEW_DATA:
            return found
        case SensorEvalStatus.SKIPPED:
            return replace(found, text=f"{when} it skipped: {evaluation(row)}")
        case SensorEvalStatus.FAILED:
            return replace(found, text=f"{when} it failed: {evaluation(row)}")
        case SensorEvalStatus.TRIGGERED:
            runs = [records.run_of_key(key) for key in row.run_keys]
            told = [f"{run.run_id} ({run.state.value})" for run in runs if run is not None]
            what = listed(told) if told else f"{plural(len(row.run_keys), 'run')}"
            return replace(found, text=f"{when} it requested {what}: {evaluation(row)}")
        case _:
            assert_never(row.status)


def _note(name: str, text: str) -> Finding:
    return Finding(what=What.SENSOR, status=FindingStatus.NOTE, subject=name, text=text)
