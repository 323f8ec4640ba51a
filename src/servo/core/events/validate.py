"""What is wrong with a batch, before anything is written.

Ids go into paths, queue names and other people's screens, so everything that is an id is checked
here, whatever route it came by. The fold does not check again: it sees only what passed. Cron
expressions, time zones and freshness policies are checked here and nowhere later: what a zone is
depends on the machine, and a replay must not.

A field is checked by its name, in whichever event it stands: a `run_id` is a `run_id` everywhere.
So a new event needs nothing here as long as its fields have known names. A new name of an id goes
into `_CHECKS_BY_FIELD`, that of a field which holds structs with ids into `_FIELDS_WITH_STRUCTS`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import msgspec

from servo.core.actors import parse_actor
from servo.core.cron import Cron
from servo.core.events.assets import DefinitionsDeployed
from servo.core.events.envelope import Batch, Event, UnknownEvent
from servo.core.events.schedules import ScheduleUpserted
from servo.core.freshness import read_policy
from servo.core.ids import check_definition_name, check_name, check_text
from servo.core.plan import TaskSpec
from servo.core.positions import check_position
from servo.core.wire import MAX_ID_BYTES
from servo.errors import Invalid

MAX_EVENTS_PER_BATCH = 20_000

_TextCheck = Callable[[str, str], str]

_DIGEST = re.compile(r"[0-9a-f]{64}")


def _text(value: str, what: str) -> str:
    plain = value.isascii() and value.isprintable() and 0 < len(value) <= MAX_ID_BYTES
    if plain and "\\" not in value and "." not in value and "%" not in value:
        return value
    return check_text(value, what, MAX_ID_BYTES)


def _digest(value: str, what: str) -> str:
    if not _DIGEST.fullmatch(value):
        raise Invalid(
            f"{what} is not a SHA-256 digest in hex", remedy="send 64 lower-case hex digits"
        )
    return value


def _optional(check: _TextCheck) -> _TextCheck:
    return lambda value, what: value if value == "" else check(value, what)


_OPTIONAL_TEXT = _optional(_text)


_CHECKS_BY_FIELD: Mapping[str, _TextCheck] = {
    "run_id": _text,
    "run_key": _text,
    "task_key": _text,
    "attempt_id": _text,
    "exec_id": _text,
    "worker_id": _OPTIONAL_TEXT,
    "timer_id": _text,
    "batch_id": _text,
    "tick_id": _text,
    "eval_id": _text,
    "backfill_id": _text,
    "client_request_id": _text,
    "materialization_id": _OPTIONAL_TEXT,
    "materialization_ids": _text,
    "upstream_materialization_id": _OPTIONAL_TEXT,
    "asset_key": _OPTIONAL_TEXT,
    "partition_key": _text,
    "check_name": _text,
    "deployment_id": _text,
    "set_name": check_name,
    "schedule_id": check_definition_name,
    "sensor_id": check_definition_name,
    "pool": _optional(check_name),
    "lane": _OPTIONAL_TEXT,
    "location": _text,
    "message_id": _text,
    "evaluation_id": _text,
    "parent_run_id": _text,
    "parent_backfill_id": _text,
    "asset_selection": _text,
    "partition_selection": _text,
    "partition_keys": _text,
    "run_keys": _text,
    "added": _text,
    "removed": _text,
    "digest": _digest,
    "partitions_digest": _optional(_digest),
    "definitions_digest": _optional(_digest),
    "payload_digest": _optional(_digest),
}
_FIELDS_WITH_STRUCTS = frozenset(
    {"source", "output", "outputs", "handover", "trigger", "assets", "segments", "tasks"}
)


def check_batch(batch: Batch, raw: bytes = b"") -> None:
    """`Invalid` with the first thing that is wrong with a batch; `raw` is what it was read from."""
    _text(batch.id, "batch id")
    if batch.request_id:
        _text(batch.request_id, "idempotency key")
    _check_origin(batch)
    if batch.verdict is not None or batch.original is not None:
        raise Invalid("the batch already has a verdict", remedy="send its events without `verdict`")
    if not batch.events:
        raise Invalid("the batch is empty", remedy="send at least one event")
    if len(batch.events) > MAX_EVENTS_PER_BATCH:
        raise Invalid(
            f"the batch has {len(batch.events)} events",
            remedy=f"send at most {MAX_EVENTS_PER_BATCH} at once",
        )
    if not raw or not _all_plain(batch.events, raw):
        for event in batch.events:
            check_event(event)


def _check_origin(batch: Batch) -> None:
    """Who sent a batch and what led to it, as far as it says; most say only who."""
    if batch.actor:
        _ = parse_actor(batch.actor)
    if batch.cause:
        _ = check_position(batch.cause, "cause")
    if batch.correlation:
        _text(batch.correlation, "correlation")


def check_event(event: Event | UnknownEvent) -> None:
    """`Invalid` if an event is unknown or an id in it could do harm."""
    if isinstance(event, UnknownEvent):
        raise Invalid(
            f"unknown event {event.type!r} version {event.v}",
            remedy="upgrade Servo, or send a documented event",
        )
    _check_fields(event)
    if isinstance(event, ScheduleUpserted):
        _ = Cron(event.cron_expressions, event.timezone)
    if isinstance(event, DefinitionsDeployed):
        for asset in event.assets:
            if asset.freshness_policy:
                _ = read_policy(asset.freshness_policy)


def _check_fields(value: msgspec.Struct) -> None:
    """Check every id of a struct, and of the structs and lists in it."""
    for name, check in field_checks(type(value)):
        found: Any = getattr(value, name)
        several = cast("tuple[Any, ...]", found if isinstance(found, tuple) else (found,))
        if check is None:
            for nested in several:
                if isinstance(nested, TaskSpec):
                    _check_spec(nested)
                elif isinstance(nested, msgspec.Struct):
                    _check_fields(nested)
        elif found is not None:
            for item in several:
                check(item, name)


def _check_spec(spec: TaskSpec) -> None:
    _text(spec.task_key, "task key")
    if spec.asset_key:
        _text(spec.asset_key, "asset key")
    for also in spec.also_makes:
        _text(also, "asset key")
    if spec.partition is not None:
        _text(spec.partition, "partition key")
    for also in spec.also_partitions:
        _text(also, "partition key")
    if spec.pool:
        check_name(spec.pool, "pool")
    if spec.queue:
        check_name(spec.queue, "queue")


_FieldChecks = tuple[tuple[str, _TextCheck | None], ...]

_known: dict[type[msgspec.Struct], _FieldChecks] = {}


def field_checks(kind: type[msgspec.Struct]) -> _FieldChecks:
    """Which fields of a struct are checked, and how; None for those that hold structs."""
    found = _known.get(kind)
    if found is None:
        fields = kind.__struct_fields__
        empty = {field.name for field in msgspec.structs.fields(kind) if field.default == ""}
        checked = tuple(
            (name, _optional(_CHECKS_BY_FIELD[name]) if name in empty else _CHECKS_BY_FIELD[name])
            for name in fields
            if name in _CHECKS_BY_FIELD
        )
        nested = tuple((name, None) for name in fields if name in _FIELDS_WITH_STRUCTS)
        found = _known[kind] = (*checked, *nested)
    return found


# --- many events at once --------------------------------------------------------------------------

_TYPED = frozenset({"output", "outputs", "handover"})
_ODD = (b"\\", b"%", b"/.", b'".', b"\x7f")

_only_texts: dict[type[msgspec.Struct], bool] = {}


def _all_plain(events: Sequence[Event | UnknownEvent], raw: bytes) -> bool:
    """Whether it takes no closer look: workers send thousands of events with nothing but plain ids.

    Decoding held every id to its length. If nothing in the encoded batch is out of the ordinary, no
    text in it is, and only ids with rules of their own are left.
    """
    if not raw.isascii() or any(odd in raw for odd in _ODD):
        return False
    return all(_has_only_texts(kind) for kind in {type(event) for event in events})


def _has_only_texts(kind: type[msgspec.Struct]) -> bool:
    known = _only_texts.get(kind)
    if known is None:
        rules = field_checks(kind)
        strings = all(check in (_text, _OPTIONAL_TEXT, None) for _, check in rules)
        typed = all(name in _TYPED for name, check in rules if check is None)
        known = issubclass(kind, Event) and kind is not ScheduleUpserted and strings and typed
        _only_texts[kind] = known
    return known
