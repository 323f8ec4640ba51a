"""Messages on their way to push sensors."""

from hashlib import sha256
from typing import Any

import pytest

from servo import ServoInstance
from servo.core.events.sensors import SensorMessageReceived, SensorMode, SensorUpserted
from servo.errors import Invalid, NotFound
from servo.projection.read.replay import PRESENT
from servo.projection.read.time_travel import snapshot_at
from servo.workspace.instance.changes import Changes
from servo.workspace.push_messages import (
    INLINE_BYTES,
    MESSAGES_PER_BATCH,
    as_json,
    in_batches,
    message,
)


@pytest.fixture
def instance() -> ServoInstance:
    made = ServoInstance.ephemeral()
    Changes(made.world, made.address).commit(  # as a deployment does
        SensorUpserted(sensor_id="arrived", mode=SensorMode.PUSH), SensorUpserted(sensor_id="polls")
    )
    return made


def waiting(instance: ServoInstance) -> list[tuple[int, str, str]]:
    found: list[Any] = snapshot_at(instance.world.store, instance.paths, PRESENT).rows(
        "sensor_messages"
    )
    return sorted((row.arrival, row.message_id, row.payload) for row in found)


def test_a_message_waits_as_soon_as_it_was_sent(instance: ServoInstance) -> None:
    assert instance.push_sensor_message("arrived", {"n": 1}, message_id="m1") == "m1"
    assert instance.push_sensor_message("arrived", message_id="m1") == "m1"
    other = instance.push_sensor_message("arrived", "text")
    assert waiting(instance) == [(1, "m1", '{"n":1}'), (2, other, '"text"')]


def test_many_messages_go_together_in_their_order(instance: ServoInstance) -> None:
    count = MESSAGES_PER_BATCH + 10
    instance.push_sensor_messages("arrived", {f"m{n}": n for n in range(count)})
    assert waiting(instance) == [(n + 1, f"m{n}", str(n)) for n in range(count)]


@pytest.mark.parametrize("name", ["polls", "nobody"])
def test_who_takes_no_messages_is_sent_none(instance: ServoInstance, name: str) -> None:
    with pytest.raises(NotFound, match=f"no push sensor {name}.*available: arrived"):
        instance.push_sensor_message(name, 1)


@pytest.mark.parametrize("payload", [object(), {1.5: "x", object(): 2}])
def test_what_is_no_json_is_not_sent(instance: ServoInstance, payload: Any) -> None:
    with pytest.raises(Invalid, match="the payload cannot be sent"):
        instance.push_sensor_message("arrived", payload)
    assert waiting(instance) == []


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 2000, "../up"])
def test_an_id_that_could_do_harm_is_refused(instance: ServoInstance, name: str) -> None:
    if name:
        with pytest.raises(Invalid, match="message id"):
            instance.push_sensor_message("arrived", 1, message_id=name)
    else:
        with pytest.raises(Invalid, match="message id"):
            message(instance.world.store, instance.paths, "arrived", name, "1")


def test_a_large_payload_is_stored_before_it_is_named(instance: ServoInstance) -> None:
    store, paths = instance.world.store, instance.paths
    text = as_json("é" * INLINE_BYTES)
    event = message(store, paths, "arrived", "m1", text)
    digest = sha256(text.encode()).hexdigest()
    assert event == SensorMessageReceived(
        sensor_id="arrived", message_id="m1", payload_digest=digest
    )
    assert store.get(paths.plan(digest)).data == text.encode()


def test_one_that_nobody_could_hold_is_refused(
    instance: ServoInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("servo.workspace.push_messages.MOST_BYTES", INLINE_BYTES)
    with pytest.raises(Invalid, match="bytes; send at most"):
        instance.push_sensor_message("arrived", "x" * INLINE_BYTES)


def test_batches_hold_what_fits_into_an_entry() -> None:
    events = [
        SensorMessageReceived(sensor_id="s", message_id=f"m{n}", payload="x" * 60_000)
        for n in range(20)
    ]
    batches = list(in_batches(events))
    assert [len(batch) for batch in batches] == [8, 8, 4]
    assert [event for batch in batches for event in batch] == events
    assert list(in_batches([])) == []
