"""The same request has the same hash, however a client writes it."""

import json
from datetime import datetime, timedelta, timezone
from enum import Enum
from hashlib import sha256
from typing import Any, cast, get_args

import msgspec
import pytest
from msgspec.structs import replace

from servo.core.canonical import canonical_bytes
from servo.core.events.assets import AssetObserved
from servo.core.events.codec import decode_batch
from servo.core.events.registry import EVENTS
from servo.core.events.request_hash import instants, request_hash
from servo.testing.builders import Story

REQUEST = {
    "type": "RunRequested",
    "run_id": "run_1",
    "run_key": "k",
    "request_fingerprint": "f",
    "labels": {"team": "shop", "owner": "ada"},
    "lane": "bulk",
}
SCHEDULE = {
    "type": "ScheduleUpserted",
    "schedule_id": "daily",
    "cron_expressions": ["@daily"],
    "labels": {"b": "1", "a": "2"},
}
TIMER = {"type": "TimerRequested", "timer_id": "t", "timer_type": "CRON"}


def hashed(*events: dict[str, Any], **style: Any) -> str:
    data = json.dumps({"id": "b", "events": events}, **style)
    return request_hash(decode_batch(data.encode()).events)


def backwards(value: Any) -> Any:
    """A value with the keys of all its objects in the opposite order."""
    if not isinstance(value, dict):
        return value
    held = cast("dict[str, Any]", value)
    return {key: backwards(held[key]) for key in reversed(list(held))}


@pytest.mark.parametrize("event", [REQUEST, SCHEDULE], ids=lambda event: event["type"])
@pytest.mark.parametrize("style", [{"indent": 3}, {"separators": (",", ":")}], ids=str)
def test_the_order_of_keys_and_white_space_make_no_difference(
    event: dict[str, Any], style: dict[str, Any]
) -> None:
    assert hashed(backwards(event), **style) == hashed(event)


@pytest.mark.parametrize(
    ("event", "defaults"),
    [
        (REQUEST, {"timeout_ms": 86_400_000, "source": {"kind": "manual"}}),
        (SCHEDULE, {"timezone": "UTC", "catchup_window_minutes": 1440, "enabled": True}),
    ],
    ids=["RunRequested", "ScheduleUpserted"],
)
def test_defaults_that_are_written_make_no_difference(
    event: dict[str, Any], defaults: dict[str, Any]
) -> None:
    for name, value in defaults.items():
        assert hashed({**event, name: value}) == hashed(event), name


def test_the_offset_of_an_instant_makes_no_difference() -> None:
    there = {**TIMER, "fire_at": "2026-01-01T02:00:00+02:00"}
    assert hashed(there) == hashed({**TIMER, "fire_at": "2026-01-01T00:00:00Z"})


def test_another_request_has_another_hash() -> None:
    assert hashed({**REQUEST, "labels": {"team": "shop"}}) != hashed(REQUEST)
    assert hashed(REQUEST, SCHEDULE) != hashed(SCHEDULE, REQUEST)


def test_it_is_the_hash_of_canonical_json() -> None:
    assert hashed(backwards(REQUEST)) == sha256(canonical_bytes([REQUEST])).hexdigest()


def test_a_key_with_the_same_request_written_otherwise_is_a_repetition() -> None:
    story = Story()
    first, second = (
        decode_batch(json.dumps({"id": name, "key": "mine", "events": [event]}).encode())
        for name, event in (("a", REQUEST), ("b", backwards({**REQUEST, "timeout_ms": 86_400_000})))
    )
    (applied,) = story.commit(first)
    (again,) = story.commit(second)
    assert applied.applied
    assert (again.status, again.seq, again.repeated) == (applied.status, applied.seq, True)


def _structs(kind: type[msgspec.Struct], seen: dict[type[msgspec.Struct], None]) -> None:
    """All structs that events hold."""
    if kind in seen:
        return
    seen[kind] = None
    for field in msgspec.structs.fields(kind):
        for nested in _named(field.type):
            _structs(nested, seen)


def _named(hint: object) -> list[type[msgspec.Struct]]:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return [hint]
    return [one for part in get_args(hint) for one in _named(part)]


def test_no_event_has_what_would_be_hashed_as_written() -> None:
    """A default that is equal but not the same object, or an instant inside of another struct."""
    seen: dict[type[msgspec.Struct], None] = {}
    for kind in EVENTS.values():
        _structs(kind, seen)
    for kind in seen:
        held = {field.name: field.default for field in msgspec.structs.fields(kind)}
        several = [name for name, value in held.items() if _has_equals(value)]
        assert not several or hasattr(kind, "__post_init__"), f"{kind.__name__}: {several}"
        assert kind in EVENTS.values() or not instants(kind), kind.__name__


def _has_equals(default: object) -> bool:
    """Whether Python may have several objects of this value."""
    if isinstance(default, Enum | bool) or default is msgspec.NODEFAULT or not default:
        return False
    return default != 1


def test_an_instant_beyond_the_years_of_utc_is_hashed_as_it_is() -> None:
    late = datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-2)))
    event = AssetObserved(asset_key="a", data_version="1", observed_at=late)
    assert request_hash([event]) != request_hash([replace(event, observed_at=None)])
