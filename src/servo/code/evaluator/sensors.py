"""Evaluating sensors: those that look by themselves, and those that are told by messages.

A run key that a sensor gives is its own: no other sensor, and nobody else, asks for the same run by
it. A run that was asked for before is not asked for again: sensors that name all they see, every
time, are common, and cost nothing.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from servo.code.evaluator.context import (
    SENSOR_LABEL,
    UP_TO_DATE,
    Desk,
    Trigger,
    as_they_will_be,
    told,
)
from servo.code.evaluator.messages import (
    Arrived,
    AskedRun,
    Evaluated,
    EvaluatedMany,
    Look,
    Message,
)
from servo.code.evaluator.watching import Found, look_at_asset, look_at_assets, look_at_runs
from servo.core.events.assets import DynamicPartitionsChanged
from servo.core.events.runs import SensorSource
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
"""After so long of evaluating messages the answer is given, about as many as were evaluated."""

MOST_RUNS = 1_000
"""Runs of one evaluation, which are committed with it as a whole."""

MOST_NAMED = 5


def evaluate_sensor(desk: Desk, asked: Look) -> Evaluated:
    """The runs that a sensor asks for, why there are none, or what went wrong."""
    try:
        sensor = _found(desk, asked.sensor_id)
        found = _looked(desk, sensor, asked)
        answer = _requested(desk, sensor, asked, found.result)
        return msgspec.structs.replace(answer, cursor=found.cursor, more=found.more)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - user code has run
        return Evaluated(error=told(error))


def evaluate_messages(desk: Desk, asked: Arrived) -> EvaluatedMany:
    """The answers to the first of these messages, at least to one."""
    answers: list[Evaluated] = []
    until = desk.clock.monotonic() + BATCH_SECONDS
    try:
        sensor = _pushed(desk, asked.sensor_id)
        with desk.resources(_needed(sensor)) as resources:
            for message in asked.messages:
                answers.append(_answer(desk, sensor, message, resources))
                if desk.clock.monotonic() > until:
                    break
    except (Exception, SystemExit) as error:  # noqa: BLE001 - user code has run
        if not answers:
            answers.append(Evaluated(error=told(error)))
    return EvaluatedMany(answers=tuple(answers))


def _found(desk: Desk, name: str) -> SensorDefinition:
    sensor = find_sensor(desk.project, name)
    if not isinstance(sensor, SensorDefinition):
        raise Invalid(f"{name} is not evaluated as a sensor", remedy="see `servo sensor list`")
    return sensor


def _pushed(desk: Desk, name: str) -> SensorDefinition:
    sensor = _found(desk, name)
    if not isinstance(sensor, PushSensorDefinition):
        raise Invalid(f"sensor {name} takes no messages", remedy="use @push_sensor")
    return sensor


def _needed(sensor: SensorDefinition) -> list[str]:
    return sorted({*sensor.signature().resources, *(sensor.required_resource_keys or ())})


# --- looking --------------------------------------------------------------------------------------


def _looked(desk: Desk, sensor: SensorDefinition, asked: Look) -> Found:
    if isinstance(sensor, PushSensorDefinition):
        return _tried(desk, sensor, asked)
    with desk.resources(_needed(sensor)) as resources:
        given: dict[str, Any] = {
            "last_run_key": lambda: _last_run_key(desk, sensor),
            "sensor_name": sensor.name,
            "instance": desk.instance,
            "resources": resources,
            "log": desk.log,
            "evaluation_time": desk.clock.now(),
        }
        if isinstance(sensor, AssetSensorDefinition):
            return look_at_asset(desk, sensor, asked, given)
        if isinstance(sensor, MultiAssetSensorDefinition):
            return look_at_assets(desk, sensor, asked, given)
        if isinstance(sensor, RunStatusSensorDefinition):
            return look_at_runs(desk, sensor, asked, given)
        context = SensorEvaluationContext(cursor=asked.cursor, **given)
        found = sensor.evaluate(context)
        return Found(result=found, cursor=found.cursor)


def _tried(desk: Desk, sensor: PushSensorDefinition, asked: Look) -> Found:
    """What a push sensor would ask for on a message that nobody has sent."""
    if not asked.payload:
        raise Invalid(f"sensor {sensor.name} is pushed to", remedy="send it a message")
    message = Message(
        message_id=asked.eval_id,
        eval_id=asked.eval_id,
        received_at=desk.clock.now(),
        payload=asked.payload,
    )
    with desk.resources(_needed(sensor)) as resources:
        return Found(result=_told(desk, sensor, message, resources))


def _answer(desk: Desk, sensor: SensorDefinition, message: Message, resources: Any) -> Evaluated:
    try:
        return _requested(desk, sensor, message, _told(desk, sensor, message, resources))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - user code has run
        return Evaluated(error=told(error))


def _told(desk: Desk, sensor: SensorDefinition, message: Message, resources: Any) -> SensorResult:
    context = PushSensorContext(
        message_id=message.message_id,
        payload=payload_of(desk, message),
        received_at=message.received_at,
        sensor_name=sensor.name,
        instance=desk.instance,
        resources=resources,
        log=desk.log,
        evaluation_time=desk.clock.now(),
    )
    return sensor.evaluate(context)


def payload_of(desk: Desk, message: Message) -> Any:
    """What a message says."""
    data: bytes | str = message.payload
    if message.payload_digest:
        data = desk.records.store.get(desk.records.paths.plan(message.payload_digest)).data
    try:
        return msgspec.json.decode(data) if data else None
    except msgspec.DecodeError as error:
        raise Invalid(
            f"the payload of message {message.message_id} is no JSON: {error}",
            remedy="send JSON; a text goes in quotes",
        ) from None


# --- what it asks for -----------------------------------------------------------------------------


def _requested(
    desk: Desk, sensor: SensorDefinition, asked: Look | Message, found: SensorResult
) -> Evaluated:
    if len(found.run_requests or ()) > MOST_RUNS:
        raise Invalid(
            f"sensor {sensor.name} asks for {len(found.run_requests or ()):,} runs at once",
            remedy=f"ask for at most {MOST_RUNS:,}, and go on from a cursor the next time",
        )
    trigger = _trigger(sensor, asked.eval_id)
    dynamic = _news(
        desk, [_changed(sensor, one) for one in found.dynamic_partitions_requests or ()]
    )
    made = [
        desk.run(trigger, request, _run_key(sensor, asked.eval_id, request, n), changing=dynamic)
        for n, request in enumerate(found.run_requests or ())
    ]
    runs = [run for run in made if run is not None]
    gone, passed_over = set[str](), ""
    if isinstance(asked, Look):  # a message is answered once, and cannot ask again
        gone, passed_over = _known(desk, sensor, runs, asked.seq)
    new = [run for run in runs if run.requested.run_key not in gone]
    return Evaluated(
        runs=tuple(new),
        dynamic=dynamic,
        reported=tuple(desk.instance().as_event(event) for event in found.asset_events or ()),
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


def _last_run_key(desk: Desk, sensor: SensorDefinition) -> str | None:
    key = desk.history.last_run_key(sensor.name)
    return None if key is None else key.removeprefix(f"sensor:{sensor.name}:key:")


def _known(
    desk: Desk, sensor: SensorDefinition, runs: Sequence[AskedRun], seq: int
) -> tuple[set[str], str]:
    """The keys of runs that were asked for before, and what is to be said of them."""
    own = f"sensor:{sensor.name}:key:"
    named = [run for run in runs if run.requested.run_key.startswith(own)]
    if not named:
        return set(), ""
    taken = desk.history.fingerprints([run.requested.run_key for run in named], seq)
    same = [run for run in named if taken.get(run.requested.run_key) == _print(run)]
    others = [run for run in named if taken.get(run.requested.run_key, _print(run)) != _print(run)]
    told_of = desk.history.conflicts([(run.requested.run_key, _print(run)) for run in others])
    known = [run for run in others if (run.requested.run_key, _print(run)) in told_of]
    return {run.requested.run_key for run in (*same, *known)}, _told_of(sensor, same, known)


def _told_of(sensor: SensorDefinition, same: Sequence[AskedRun], other: Sequence[AskedRun]) -> str:
    parts: list[str] = []
    for runs, what in ((same, "asked for before"), (other, "another request has the run key")):
        keys = [
            run.requested.run_key.removeprefix(f"sensor:{sensor.name}:key:")
            for run in runs[:MOST_NAMED]
        ]
        more = f" and {len(runs) - MOST_NAMED} more" if len(runs) > MOST_NAMED else ""
        if keys:
            parts.append(f"{what}: {', '.join(keys)}{more}")
    return "; ".join(parts)


def _print(run: AskedRun) -> str:
    return run.requested.request_fingerprint


def _news(
    desk: Desk, changes: Sequence[DynamicPartitionsChanged]
) -> tuple[DynamicPartitionsChanged, ...]:
    """Changes without what is so already: many sensors name all they see, every time."""
    left: list[DynamicPartitionsChanged] = []
    for change in changes:
        known = as_they_will_be(desk.instance(), left, change.set_name)
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
        f"sensor {sensor.name}: {request!r} is no request about partitions",
        remedy="use partitions_def.build_add_request([…]) or build_delete_request([…])",
    )
