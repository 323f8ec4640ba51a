"""What is wrong with a batch, before anything is written.

Ids go into paths, queue names and other people's screens, so everything that is an id is checked
here, whatever route it came by. The fold does not check again: it sees only what passed.
"""

from collections.abc import Callable, Mapping

from servo.core.events.envelope import Batch, Event, UnknownEvent
from servo.core.events.runs import PlanCreated, RunRequested
from servo.core.ids import check_name, check_text
from servo.core.plan import TaskSpec
from servo.errors import Invalid

MAX_EVENTS_PER_BATCH = 20_000
MAX_ID_BYTES = 1024

Check = Callable[[str, str], str]


def _text(value: str, what: str) -> str:
    plain = value.isascii() and value.isprintable() and 0 < len(value) <= MAX_ID_BYTES
    if plain and "\\" not in value and "." not in value and "%" not in value:
        return value
    return check_text(value, what, MAX_ID_BYTES)


def _optional(check: Check) -> Check:
    return lambda value, what: value if value == "" else check(value, what)


_FIELDS: Mapping[str, Check] = {
    "run_id": _text,
    "run_key": _text,
    "task_key": _text,
    "attempt_id": _text,
    "exec_id": _text,
    "worker_id": _optional(_text),
    "timer_id": _text,
    "batch_id": _text,
    "tick_id": _text,
    "eval_id": _text,
    "backfill_id": _text,
    "client_request_id": _text,
    "materialization_id": _optional(_text),
    "asset_key": _optional(_text),
    "partition_key": _text,
    "check_name": _text,
    "deployment_id": _text,
    "set_name": check_name,
    "schedule_id": check_name,
    "sensor_id": check_name,
    "pool": _optional(check_name),
    "lane": _optional(_text),
    "location": _text,
}


def check_batch(batch: Batch) -> None:
    """`Invalid` with the first thing that is wrong with a batch."""
    _text(batch.id, "batch id")
    if batch.key:
        _text(batch.key, "idempotency key")
    if not batch.events:
        raise Invalid("the batch is empty", remedy="send at least one event")
    if len(batch.events) > MAX_EVENTS_PER_BATCH:
        raise Invalid(
            f"the batch has {len(batch.events)} events",
            remedy=f"send at most {MAX_EVENTS_PER_BATCH} at once",
        )
    for event in batch.events:
        check_event(event)


def check_event(event: Event | UnknownEvent) -> None:
    """`Invalid` if an event is unknown or an id in it could do harm."""
    if isinstance(event, UnknownEvent):
        raise Invalid(
            f"unknown event {event.type!r} version {event.v}",
            remedy="upgrade Servo, or send an event that is documented",
        )
    for name, check in _checks(type(event)):
        value = getattr(event, name)
        if value is not None:
            check(value, name)
    if isinstance(event, PlanCreated):
        for spec in event.tasks:
            _check_spec(spec)
    elif isinstance(event, RunRequested):
        for asset in (*event.asset_selection, *event.partition_selection):
            _text(asset, "selection")


def _check_spec(spec: TaskSpec) -> None:
    _text(spec.task_key, "task key")
    if spec.asset_key:
        _text(spec.asset_key, "asset key")
    if spec.partition is not None:
        _text(spec.partition, "partition key")
    if spec.pool:
        check_name(spec.pool, "pool")
    if spec.queue:
        check_name(spec.queue, "queue")


_known: dict[type[Event], tuple[tuple[str, Check], ...]] = {}


def _checks(kind: type[Event]) -> tuple[tuple[str, Check], ...]:
    found = _known.get(kind)
    if found is None:
        fields = kind.__struct_fields__
        found = tuple((name, _FIELDS[name]) for name in fields if name in _FIELDS)
        _known[kind] = found
    return found
