"""The hash by which a repeated request is recognised.

It is taken over the canonical JSON of the events (see `servo.core.canonical`): the order of keys,
white space, fields that are written although they have their default, and the offset of an instant
make no difference. So a client in any language that sends the same request gets the same hash.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256

import msgspec
from msgspec.structs import fields, replace

from servo.core.events.envelope import Event, UnknownEvent

# Events hold nothing that canonical JSON refuses but instants, so they are not walked to find out:
# a plan has thousands of tasks.
_encode = msgspec.json.Encoder(order="sorted").encode


def request_hash(events: Sequence[Event | UnknownEvent]) -> str:
    """The SHA-256 of the canonical JSON of the events, in hex."""
    return sha256(_encode([_in_utc(event) for event in events])).hexdigest()


def _in_utc(event: Event | UnknownEvent) -> Event | UnknownEvent:
    held = {name: getattr(event, name) for name in instants(type(event))}
    changed = {
        name: _utc(value)
        for name, value in held.items()
        if isinstance(value, datetime) and value.utcoffset()
    }
    return replace(event, **changed) if changed else event


def _utc(value: datetime) -> datetime:
    """The same instant in UTC; as it is if it lies beyond UTC's years, which the fold refuses."""
    try:
        return value.astimezone(UTC)
    except OverflowError:
        return value


@cache
def instants(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """The fields of an event that hold instants."""
    return tuple(field.name for field in fields(kind) if "datetime" in str(field.type))
