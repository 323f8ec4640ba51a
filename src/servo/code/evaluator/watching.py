"""Evaluating sensors that watch the workspace itself: asset sensors and run status sensors.

They see every event once, in the order of the ledger. The function is called for each event alone;
an event it has processed stays processed, even if the next one fails. An event that fails again and
again is skipped in the end, and the sensor's message says so. An event that hangs or ends the
process also loses the events before it in the same evaluation; so after a failure, each event gets
its own evaluation.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from servo.code.evaluator.history import HistoryCursor
from servo.code.evaluator.loaded_location import LoadedLocation, told
from servo.code.evaluator.messages import EvaluateSensor
from servo.core.keys import AssetKey
from servo.core.positions import Position
from servo.core.state.rows.assets import MaterializationRow
from servo.core.state.rows.execution import RunRow
from servo.core.tags import JOB_LABEL, SENSOR_LABEL
from servo.errors import Invalid
from servo.projection.read.reader import Snapshot
from servo.sdk.selection.selection import AssetSelection
from servo.sdk.triggers.multi_asset_sensors import MultiAssetSensorEvaluationContext, check_handled
from servo.sdk.triggers.run_requests import RunStatus, SensorResult, SkipReason, collected
from servo.sdk.triggers.sensors import (
    AssetSensorDefinition,
    MultiAssetSensorDefinition,
    RunStatusSensorContext,
    RunStatusSensorDefinition,
    SensorDefinition,
    SensorEvaluationContext,
)
from servo.workspace.instance.records import AssetEvent, Run, made_event

AT_ONCE = 100
GIVE_UP_AFTER = 5
FAR_BEHIND = 10_000
"""Ledger entries after which an idle sensor moves its cursor."""

NOTHING = SensorResult(skip_reason=SkipReason())

_Given = Mapping[str, Any]
Item = tuple[str, str, Callable[[], Any]]
"""An event: its id, its description for people, and the call of the function with it."""


class SensorFinding(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a sensor, its new cursor if that moves, and whether more events are waiting.

    `last` is the id of the last event it processed, `cause` the position of that event, and
    `correlation` its origin, as far as they are known.
    """

    result: SensorResult
    cursor: str | None = None
    more: bool = False
    last: str = ""
    cause: str = ""
    correlation: str = ""


class RunEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A run that reached a status."""

    run_id: str
    status: RunStatus
    message: str = ""
    job_name: str | None = None


class StepFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A task of a run that failed."""

    step_key: str
    asset_key: str
    message: str
    error_code: str = ""


# --- assets ---------------------------------------------------------------------------------------


def look_at_asset(
    loaded: LoadedLocation, sensor: AssetSensorDefinition, asked: EvaluateSensor, given: _Given
) -> SensorFinding:
    """What a sensor requests after materializations of its asset."""
    snapshot = loaded.history.snapshot(asked.seq)
    place = HistoryCursor(0) if asked.cursor is None else HistoryCursor.read(asked.cursor)
    made = loaded.history.made(snapshot, sensor.asset_key.canonical(), place.seq)
    new = [(seq, row) for seq, row in made if row.materialization_id not in place.also]
    if not new:
        return _nothing(place, HistoryCursor(snapshot.applied_seq))
    end = HistoryCursor(new[-1][0])
    if not sensor.each_event or asked.cursor is None:
        new = new[-1:]

    def tell(row: MaterializationRow, seq: int) -> Any:
        context = SensorEvaluationContext(cursor=asked.cursor, **given)
        return sensor(context, _event(row, seq))

    items: list[Item] = [
        (row.materialization_id, f"the output {row.materialization_id}", _bound(tell, row, seq))
        for seq, row in new
    ]
    found = _one_by_one(loaded, sensor, asked, (place, end), items)
    rows = [row for _, row in new if row.materialization_id == found.last]
    return _because_of_output(loaded, snapshot, found, rows)


def _because_of_output(
    loaded: LoadedLocation,
    snapshot: Snapshot,
    found: SensorFinding,
    seen: Sequence[MaterializationRow],
) -> SensorFinding:
    """The result of a sensor, with the newest output it saw as the cause of its requests."""
    last = max(seen, key=lambda row: row.created_seq, default=None)
    if last is None or not found.result.run_requests:
        return found
    index = last.created_index
    cause = "" if index is None else str(Position(last.created_seq, index))
    run = loaded.history.run(snapshot, last.run_id)
    correlation = "" if run is None else run.correlation
    return msgspec.structs.replace(found, cause=cause, correlation=correlation)


def _event(row: MaterializationRow, seq: int) -> AssetEvent:
    return msgspec.structs.replace(made_event(row), storage_id=seq)


def look_at_assets(
    loaded: LoadedLocation, sensor: MultiAssetSensorDefinition, asked: EvaluateSensor, given: _Given
) -> SensorFinding:
    """What a sensor requests after materializations of its assets."""
    snapshot = loaded.history.snapshot(asked.seq)
    watched = sensor.monitored_assets
    selection = AssetSelection.from_coercible(watched)
    seen: list[MaterializationRow] = []

    def made(key: AssetKey, after: int) -> list[AssetEvent]:
        rows = loaded.history.made(snapshot, key.canonical(), after)
        seen.extend(row for _, row in rows)
        return [_event(row, seq) for seq, row in rows]

    context = MultiAssetSensorEvaluationContext(
        monitored=selection.resolve(loaded.project),
        made=made,
        cursor=asked.cursor,
        **given,
    )
    found = collected(sensor(context), what=f"sensor {sensor.name}")
    moves = found.cursor is not None
    check_handled(context, asks=bool(found.run_requests), moves=moves)
    looked = SensorFinding(result=found, cursor=context.cursor if context.handled else None)
    return _because_of_output(loaded, snapshot, looked, seen)


# --- runs -----------------------------------------------------------------------------------------


def look_at_runs(
    loaded: LoadedLocation, sensor: RunStatusSensorDefinition, asked: EvaluateSensor, given: _Given
) -> SensorFinding:
    """What a sensor requests after runs that reached its status."""
    history = loaded.history
    snapshot = history.snapshot(asked.seq)
    place = HistoryCursor(asked.since) if asked.cursor is None else HistoryCursor.read(asked.cursor)
    new = [
        row for row in history.runs(snapshot, sensor.run_status, place) if _monitored(sensor, row)
    ]
    if not new:
        still_open = history.still_open(snapshot, place.also)
        return _nothing(place, HistoryCursor(snapshot.applied_seq, still_open))
    seen = (*place.also, *(row.run_id for row in new))
    end = HistoryCursor(snapshot.applied_seq, history.still_open(snapshot, seen))

    def tell(row: RunRow) -> Any:
        return sensor(_run_context(loaded, snapshot, sensor, row, given))

    items: list[Item] = [(row.run_id, f"the run {row.run_id}", _bound(tell, row)) for row in new]
    found = _one_by_one(loaded, sensor, asked, (place, end), items)
    last = next(row for row in new if row.run_id == found.last)
    return msgspec.structs.replace(found, cause=last.request_position, correlation=last.correlation)


def _monitored(sensor: RunStatusSensorDefinition, row: RunRow) -> bool:
    jobs = sensor.job_names()
    # A run sensor does not see the runs it requested: that would go on for ever.
    own = row.labels.get(SENSOR_LABEL) == sensor.name
    return not own and (jobs is None or row.labels.get(JOB_LABEL) in jobs)


def _run_context(
    loaded: LoadedLocation,
    snapshot: Snapshot,
    sensor: RunStatusSensorDefinition,
    row: RunRow,
    given: _Given,
) -> RunStatusSensorContext:
    run = Run.of(row)
    event = RunEvent(
        run_id=row.run_id, status=sensor.run_status, message=row.error, job_name=run.job_name
    )

    def failures() -> Sequence[StepFailure]:
        return [
            StepFailure(
                step_key=task.task_key,
                asset_key=task.asset_key,
                message=task.error_message,
                error_code=task.error_code,
            )
            for task in loaded.history.failures(snapshot, row.run_id)
        ]

    if not event.message and sensor.run_status is RunStatus.FAILURE:
        said = [f"{one.asset_key or one.step_key}: {one.message}" for one in failures()]
        event = msgspec.structs.replace(event, message="; ".join(said))
    return RunStatusSensorContext(run=run, event=event, failures=failures, **given)


# --- one by one -----------------------------------------------------------------------------------


def _nothing(place: HistoryCursor, end: HistoryCursor) -> SensorFinding:
    """No events. A sensor that is far behind moves its cursor, so that it reads less next time."""
    far = end.seq - place.seq > FAR_BEHIND
    return SensorFinding(result=NOTHING, cursor=end.text() if far else None)


def _bound(call: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
    return lambda: call(*arguments)


def _one_by_one(
    loaded: LoadedLocation,
    sensor: SensorDefinition,
    asked: EvaluateSensor,
    places: tuple[HistoryCursor, HistoryCursor],
    items: Sequence[Item],
) -> SensorFinding:
    """Call a function for one event after the other; its requests, and the position after."""
    place, end = places
    results: list[SensorResult] = []
    notes: list[str] = []
    done = 0
    until = loaded.clock.monotonic() + sensor.timeout_seconds / 2
    for name, what, call in items[: 1 if asked.alone else AT_ONCE]:
        try:
            if asked.pass_over:
                notes.append(f"skipped {what} after {asked.failures} failures: no answer")
            else:
                results.append(_one(sensor, call()))
        except Exception as error:
            if done:
                break
            if asked.failures + 1 < GIVE_UP_AFTER:
                raise
            notes.append(f"skipped {what} after {GIVE_UP_AFTER} failures: {told(error)}")
        done += 1
        place = place.after(name)
        if notes or loaded.clock.monotonic() > until:
            break
    more = done < len(items)
    cursor = (place if more else end).text()
    notes = notes or [
        f"notified of {items[0][1]}"
        if done == 1
        else f"notified of {done}, the last one is {items[done - 1][1]}"
    ]
    last = items[done - 1][0]
    return SensorFinding(result=_joined(results, notes), cursor=cursor, more=more, last=last)


def _one(sensor: SensorDefinition, answer: Any) -> SensorResult:
    found = collected(answer, what=f"sensor {sensor.name}")
    if found.cursor is not None:
        raise Invalid(
            f"sensor {sensor.name} sets a cursor",
            remedy="remove the cursor: Servo tracks the position itself",
        )
    return found


def _joined(results: Sequence[SensorResult], notes: Sequence[str]) -> SensorResult:
    requests = [request for one in results for request in one.run_requests or ()]
    changes = [change for one in results for change in one.dynamic_partitions_requests or ()]
    reasons = [getattr(one.skip_reason, "skip_message", None) for one in results]
    said = [*dict.fromkeys(reason for reason in reasons if reason)] or notes
    return SensorResult(
        run_requests=requests,
        skip_reason=None if requests else SkipReason("; ".join(said) or None),
        dynamic_partitions_requests=changes,
        asset_events=[event for one in results for event in one.asset_events or ()],
    )
