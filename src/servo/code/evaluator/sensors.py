"""Evaluating sensors: those that poll, and those that receive messages.

A run key from a sensor is scoped to that sensor: no other sensor or request uses the same key. A
run that was requested before is not requested again: sensors that return everything they see, every
time, are common and cost nothing.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from servo.code.evaluator.handed_back import check_result
from servo.code.evaluator.loaded_location import (
    UP_TO_DATE,
    LoadedLocation,
    Trigger,
    as_they_will_be,
    told,
)
from servo.code.evaluator.messages import (
    Evaluated,
    EvaluatedMany,
    EvaluateMessages,
    EvaluateSensor,
    Message,
    RequestedRun,
)
from servo.code.evaluator.watching import SensorFinding, look_at_asset, look_at_assets, look_at_runs
from servo.core.events.assets import DynamicPartitionsChanged
from servo.core.events.runs import SensorSource
from servo.core.tags import SENSOR_LABEL
from servo.errors import Invalid
from servo.sdk.partitions.definition import (
    AddDynamicPartitionsRequest,
    DeleteDynamicPartitionsRequest,
)
from servo.sdk.triggers.push_sensors import PushSensorContext, PushSensorDefinition
from servo.sdk.triggers.resolution import find_sensor
from servo.sdk.triggers.run_requests import RunRequest, SensorResult
from servo.sdk.triggers.sensors import (
    AssetSensorDefinition,
    MultiAssetSensorDefinition,
    RunStatusSensorDefinition,
    SensorDefinition,
    SensorEvaluationContext,
)

BATCH_SECONDS = 1.0
"""After this time an evaluation of messages answers for those evaluated so far."""

MOST_RUNS = 1_000
"""Runs of one evaluation, which are committed with it as a whole."""

MOST_NAMED = 5


def evaluate_sensor(loaded: LoadedLocation, asked: EvaluateSensor) -> Evaluated:
    """The runs that a sensor requests, or why there are none, or the error."""
    try:
        sensor = _found(loaded, asked.sensor_id)
        found = _looked(loaded, sensor, asked)
        answer = _requested(loaded, sensor, asked, found.result)
        asks = bool(answer.runs)
        return msgspec.structs.replace(
            answer,
            cursor=found.cursor,
            more=found.more,
            cause=found.cause if asks else "",
            correlation=found.correlation if asks else "",
        )
    except (Exception, SystemExit) as error:  # noqa: BLE001 - user code has run
        return Evaluated(error=told(error))


def evaluate_messages(loaded: LoadedLocation, asked: EvaluateMessages) -> EvaluatedMany:
    """The answers to the first of these messages, at least to one."""
    answers: list[Evaluated] = []
    until = loaded.clock.monotonic() + BATCH_SECONDS
    try:
        sensor = _pushed(loaded, asked.sensor_id)
        with loaded.resources(_needed(sensor)) as resources:
            for message in asked.messages:
                answers.append(_answer(loaded, sensor, message, resources))
                if loaded.clock.monotonic() > until:
                    break
    except (Exception, SystemExit) as error:  # noqa: BLE001 - user code has run
        if not answers:
            answers.append(Evaluated(error=told(error)))
    return EvaluatedMany(answers=tuple(answers))


def _found(loaded: LoadedLocation, name: str) -> SensorDefinition:
    sensor = find_sensor(loaded.project, name)
    if not isinstance(sensor, SensorDefinition):
        raise Invalid(f"{name} cannot be evaluated as a sensor", remedy="see `servo sensor list`")
    return sensor


def _pushed(loaded: LoadedLocation, name: str) -> SensorDefinition:
    sensor = _found(loaded, name)
    if not isinstance(sensor, PushSensorDefinition):
        raise Invalid(f"sensor {name} takes no messages", remedy="use @push_sensor")
    return sensor


def _needed(sensor: SensorDefinition) -> list[str]:
    return sorted({*sensor.signature().resources, *(sensor.required_resource_keys or ())})


# --- looking --------------------------------------------------------------------------------------


def _looked(
    loaded: LoadedLocation, sensor: SensorDefinition, asked: EvaluateSensor
) -> SensorFinding:
    if isinstance(sensor, PushSensorDefinition):
        return _tried(loaded, sensor, asked)
    with loaded.resources(_needed(sensor)) as resources:
        given: dict[str, Any] = {
            "last_run_key": lambda: _last_run_key(loaded, sensor),
            "sensor_name": sensor.name,
            "instance": loaded.instance,
            "resources": resources,
            "log": loaded.log,
            "evaluation_time": loaded.clock.now(),
        }
        if isinstance(sensor, AssetSensorDefinition):
            return look_at_asset(loaded, sensor, asked, given)
        if isinstance(sensor, MultiAssetSensorDefinition):
            return look_at_assets(loaded, sensor, asked, given)
        if isinstance(sensor, RunStatusSensorDefinition):
            return look_at_runs(loaded, sensor, asked, given)
        context = SensorEvaluationContext(cursor=asked.cursor, **given)
        found = sensor.evaluate(context)
        return SensorFinding(result=found, cursor=found.cursor)


def _tried(
    loaded: LoadedLocation, sensor: PushSensorDefinition, asked: EvaluateSensor
) -> SensorFinding:
    """What a push sensor would request for a test message."""
    if not asked.payload:
        raise Invalid(
            f"{sensor.name} is a push sensor",
            remedy=f"send it a message with `servo sensor push {sensor.name}`",
        )
    message = Message(
        message_id=asked.eval_id,
        eval_id=asked.eval_id,
        received_at=loaded.clock.now(),
        payload=asked.payload,
    )
    with loaded.resources(_needed(sensor)) as resources:
        return SensorFinding(result=_told(loaded, sensor, message, resources))


def _answer(
    loaded: LoadedLocation, sensor: SensorDefinition, message: Message, resources: Any
) -> Evaluated:
    try:
        return _requested(loaded, sensor, message, _told(loaded, sensor, message, resources))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - user code has run
        return Evaluated(error=told(error))


def _told(
    loaded: LoadedLocation, sensor: SensorDefinition, message: Message, resources: Any
) -> SensorResult:
    context = PushSensorContext(
        message_id=message.message_id,
        payload=payload_of(loaded, message),
        received_at=message.received_at,
        sensor_name=sensor.name,
        instance=loaded.instance,
        resources=resources,
        log=loaded.log,
        evaluation_time=loaded.clock.now(),
    )
    return sensor.evaluate(context)


def payload_of(loaded: LoadedLocation, message: Message) -> Any:
    """The payload of a message."""
    data: bytes | str = message.payload
    if message.payload_digest:
        data = loaded.records.store.get(loaded.records.paths.plan(message.payload_digest)).data
    try:
        return msgspec.json.decode(data) if data else None
    except msgspec.DecodeError as error:
        raise Invalid(
            f"the payload of message {message.message_id} is not JSON: {error}",
            remedy="send JSON; a string needs double quotes",
        ) from None


# --- what it asks for -----------------------------------------------------------------------------


def _requested(
    loaded: LoadedLocation,
    sensor: SensorDefinition,
    asked: EvaluateSensor | Message,
    found: SensorResult,
) -> Evaluated:
    if len(found.run_requests or ()) > MOST_RUNS:
        raise Invalid(
            f"sensor {sensor.name} requests {len(found.run_requests or ()):,} runs at once",
            remedy=f"request at most {MOST_RUNS:,}, and continue from a cursor next time",
        )
    trigger = _trigger(sensor, asked.eval_id)
    check_result(found, trigger.what)
    dynamic = _news(
        loaded, [_changed(sensor, one) for one in found.dynamic_partitions_requests or ()]
    )
    made = [
        loaded.run(trigger, request, _run_key(sensor, asked.eval_id, request, n), changing=dynamic)
        for n, request in enumerate(found.run_requests or ())
    ]
    runs = [run for run in made if run is not None]
    gone, passed_over = set[str](), ""
    if isinstance(asked, EvaluateSensor):  # a message is answered once, and cannot request again
        gone, passed_over = _known(loaded, sensor, runs, asked.seq)
    new = [run for run in runs if run.requested.run_key not in gone]
    return Evaluated(
        runs=tuple(new),
        dynamic=dynamic,
        reported=tuple(loaded.instance().as_event(event) for event in found.asset_events or ()),
        skipped=passed_over
        or getattr(found.skip_reason, "skip_message", None)
        or ("" if len(runs) == len(made) else UP_TO_DATE),
    )


def _trigger(sensor: SensorDefinition, eval_id: str) -> Trigger:
    targets = sensor.targets()
    return Trigger(
        what=f"sensor {sensor.name}",
        source=SensorSource(sensor_id=sensor.name, eval_id=eval_id),
        target=targets[0] if len(targets) == 1 else None,
        labels={SENSOR_LABEL: sensor.name},
    )


def _run_key(sensor: SensorDefinition, eval_id: str, request: RunRequest, number: int) -> str:
    if request.run_key is not None:
        return f"sensor:{sensor.name}:key:{request.run_key}"
    return f"sensor:{sensor.name}:eval:{eval_id}:{number}"


def _last_run_key(loaded: LoadedLocation, sensor: SensorDefinition) -> str | None:
    key = loaded.history.last_run_key(sensor.name)
    return None if key is None else key.removeprefix(f"sensor:{sensor.name}:key:")


def _known(
    loaded: LoadedLocation, sensor: SensorDefinition, runs: Sequence[RequestedRun], seq: int
) -> tuple[set[str], str]:
    """The run keys that were requested before, and the note about them."""
    own = f"sensor:{sensor.name}:key:"
    named = [run for run in runs if run.requested.run_key.startswith(own)]
    if not named:
        return set(), ""
    taken = loaded.history.fingerprints([run.requested.run_key for run in named], seq)
    same = [run for run in named if taken.get(run.requested.run_key) == _print(run)]
    others = [run for run in named if taken.get(run.requested.run_key, _print(run)) != _print(run)]
    told_of = loaded.history.conflicts([(run.requested.run_key, _print(run)) for run in others])
    known = [run for run in others if (run.requested.run_key, _print(run)) in told_of]
    return {run.requested.run_key for run in (*same, *known)}, _told_of(sensor, same, known)


def _told_of(
    sensor: SensorDefinition, same: Sequence[RequestedRun], other: Sequence[RequestedRun]
) -> str:
    parts: list[str] = []
    for runs, what in ((same, "already requested"), (other, "run key used by another request")):
        keys = [
            run.requested.run_key.removeprefix(f"sensor:{sensor.name}:key:")
            for run in runs[:MOST_NAMED]
        ]
        more = f" and {len(runs) - MOST_NAMED} more" if len(runs) > MOST_NAMED else ""
        if keys:
            parts.append(f"{what}: {', '.join(keys)}{more}")
    return "; ".join(parts)


def _print(run: RequestedRun) -> str:
    return run.requested.request_fingerprint


def _news(
    loaded: LoadedLocation, changes: Sequence[DynamicPartitionsChanged]
) -> tuple[DynamicPartitionsChanged, ...]:
    """Only the actual changes: many sensors return everything they see, every time."""
    left: list[DynamicPartitionsChanged] = []
    for change in changes:
        known = as_they_will_be(loaded.instance(), left, change.set_name)
        new = msgspec.structs.replace(
            change,
            added=tuple(key for key in change.added if key not in known),
            removed=tuple(key for key in change.removed if key in known),
        )
        if new.added or new.removed:
            left.append(new)
    return tuple(left)


def _changed(sensor: SensorDefinition, request: Any) -> DynamicPartitionsChanged:
    if isinstance(request, AddDynamicPartitionsRequest):
        added = tuple(request.partition_keys)
        return DynamicPartitionsChanged(set_name=request.partitions_def_name, added=added)
    if isinstance(request, DeleteDynamicPartitionsRequest):
        removed = tuple(request.partition_keys)
        return DynamicPartitionsChanged(set_name=request.partitions_def_name, removed=removed)
    raise Invalid(
        f"sensor {sensor.name}: {request!r} does not add or delete partitions",
        remedy="use partitions_def.build_add_request([…]) or build_delete_request([…])",
    )
