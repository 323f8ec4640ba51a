"""Messages for push sensors, on their way into the ledger.

A payload is JSON. One that is too large for an event is stored under its digest first, so that the
event never names what is not there.
"""

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any

import msgspec

from servo.core.events.sensors import SensorMessageReceived
from servo.core.ids import check_text
from servo.errors import Invalid
from servo.ledger.paths import Paths
from servo.ports.object_store import ObjectStore

INLINE_BYTES = 64 * 1024
MOST_BYTES = 64 * 1024 * 1024
MESSAGES_PER_BATCH = 250
BYTES_PER_BATCH = 512 * 1024


def as_json(payload: Any) -> str:
    """A payload as it is sent; `Invalid` if it cannot be."""
    try:
        return msgspec.json.encode(payload).decode()
    except (TypeError, ValueError, OverflowError) as error:
        raise Invalid(
            f"the payload cannot be sent: {error}",
            remedy="use JSON types only: objects, arrays, strings, numbers, booleans and null",
        ) from None


def message(
    store: ObjectStore, paths: Paths, sensor_id: str, message_id: str, payload: str
) -> SensorMessageReceived:
    """The event of a message; a large payload is stored."""
    _ = check_text(message_id, "message id")
    event = SensorMessageReceived(sensor_id=sensor_id, message_id=message_id)
    data = payload.encode()
    if len(data) <= INLINE_BYTES:
        return msgspec.structs.replace(event, payload=payload)
    if len(data) > MOST_BYTES:
        raise Invalid(
            f"the payload of message {message_id} has {len(data):,} bytes",
            remedy=f"send at most {MOST_BYTES:,} bytes, or a reference to the data",
        )
    digest = sha256(data).hexdigest()
    store.put(paths.plan(digest), data)
    return msgspec.structs.replace(event, payload_digest=digest)


def in_batches(
    events: Iterable[SensorMessageReceived],
) -> Iterator[tuple[SensorMessageReceived, ...]]:
    """Events in batches that fit into an entry."""
    held: list[SensorMessageReceived] = []
    size = 0
    for event in events:
        if held and (
            len(held) == MESSAGES_PER_BATCH or size + len(event.payload) > BYTES_PER_BATCH
        ):
            yield tuple(held)
            held, size = [], 0
        held.append(event)
        size += len(event.payload)
    if held:
        yield tuple(held)
