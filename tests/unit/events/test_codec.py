"""Entries and batches as bytes."""

import re
from datetime import UTC, datetime
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servo.core.events.codec import (
    MAX_EVENT_BYTES,
    decode_batch,
    decode_entry,
    decode_events,
    encode_batch,
    encode_entry,
    read_back,
)
from servo.core.events.envelope import Batch, Entry, Event, Status, UnknownEvent
from servo.core.events.quotas import PoolLimitSet, QuotaSet
from servo.core.events.runs import RunRequested
from servo.core.events.schedules import ScheduleUpserted
from servo.core.events.tasks import TaskStarted
from servo.core.events.upcast import Payload, upcast
from servo.core.events.validate import check_batch
from servo.errors import Corrupt, Invalid
from servo.testing.builders import Story

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def entry(*batches: Batch) -> Entry:
    return Entry(
        seq=7,
        epoch=2,
        owner="me",
        nonce="n",
        ts=NOW,
        prev_hash="abc",
        fold_version=1,
        batches=batches,
    )


def run(**fields: Any) -> RunRequested:
    values: dict[str, Any] = {"run_id": "run_1", "run_key": "k", "request_fingerprint": "f"}
    values.update(fields)
    return RunRequested(**values)


def test_an_entry_survives_the_round_trip() -> None:
    batch = Batch(
        id="b", events=(run(), PoolLimitSet(pool="p", limit=1)), request_id="k", sent_at=NOW
    )
    data, digest = encode_entry(entry(batch), [encode_batch(batch)])
    assert decode_entry(data, what="it") == (entry(batch), digest)


@given(st.integers(min_value=0), st.integers(0, 7))
def test_a_flipped_bit_anywhere_is_found(place: int, bit: int) -> None:
    batch = Batch(id="b", events=(run(),))
    data, _ = encode_entry(entry(batch), [encode_batch(batch)])
    place %= len(data)
    damaged = data[:place] + bytes([data[place] ^ (1 << bit)]) + data[place + 1 :]
    with pytest.raises(Corrupt):
        decode_entry(damaged, what="it")


@given(st.integers(min_value=0))
def test_a_truncated_entry_is_found(length: int) -> None:
    data, _ = encode_entry(entry(), [])
    with pytest.raises(Corrupt):
        decode_entry(data[: length % len(data)], what="it")


def test_an_unknown_event_is_kept_and_its_batch_refused() -> None:
    raw = b'[{"type":"FromTheFuture","v":3,"x":[1]},{"type":"PoolLimitSet","pool":"p"}]'
    unknown, known = decode_events(raw)
    assert unknown == UnknownEvent(
        type="FromTheFuture", v=3, raw=b'{"type":"FromTheFuture","v":3,"x":[1]}'
    )
    assert known == PoolLimitSet(pool="p")
    story = Story()
    (answer,) = story.commit(Batch(id="b", events=(unknown, known)))
    assert answer.status is Status.REJECTED
    assert not story.state.quotas.rows


def test_a_newer_version_of_a_known_event_is_not_guessed_at() -> None:
    (event,) = decode_events(b'[{"type":"PoolLimitSet","v":2,"pool":"p"}]')
    assert isinstance(event, UnknownEvent)


@pytest.mark.parametrize(
    "raw", [b"[1]", b'[{"v":1}]', b'[{"type":5}]', b'[{"type":"PoolLimitSet","pool":3}]', b"[null]"]
)
def test_a_malformed_event_is_kept_as_unknown(raw: bytes) -> None:
    (event,) = decode_events(raw)
    assert isinstance(event, UnknownEvent)
    with pytest.raises(Invalid, match="unknown event"):
        check_batch(Batch(id="b", events=(event,)))


def test_payloads_are_raised_one_version_at_a_time() -> None:
    def second(payload: Payload) -> Payload:
        return {**payload, "b": payload["a"] + 1}

    def third(payload: Payload) -> Payload:
        return {**payload, "c": payload["b"] + 1}

    steps = {("Old", 1): second, ("Old", 2): third}
    raised = upcast({"type": "Old", "a": 1}, to=3, steps=steps)
    assert raised == {"type": "Old", "v": 3, "a": 1, "b": 2, "c": 3}
    stuck = upcast({"type": "Other", "v": 1}, to=3, steps=steps)
    assert stuck["v"] == 1


def test_an_event_that_is_too_large_is_refused_with_its_place() -> None:
    large = run(request_fingerprint="x" * MAX_EVENT_BYTES)
    with pytest.raises(Invalid, match="event 1"):
        encode_batch(Batch(id="b", events=(run(), large)))


def test_a_batch_that_is_too_large_is_refused() -> None:
    events = tuple(run(run_id=f"run_{n}", request_fingerprint="x" * 1000) for n in range(5000))
    with pytest.raises(Invalid, match="split it"):
        encode_batch(Batch(id="b", events=events))


def test_a_batch_of_small_events_may_be_larger_than_one_event_may() -> None:
    events = tuple(run(run_id=f"run_{n}", request_fingerprint="x" * 1000) for n in range(300))
    batch = Batch(id="b", events=events)
    raw = encode_batch(batch)
    assert len(raw) > MAX_EVENT_BYTES
    assert decode_batch(raw) == batch


@pytest.mark.parametrize("raw", [b"", b"[]", b"{}", b"\xff", b"[" * 100_000, b'{"id":1}'])
def test_what_is_no_batch_is_refused(raw: bytes) -> None:
    with pytest.raises(Invalid, match="invalid batch"):
        decode_batch(raw)


def test_a_sealed_object_that_is_no_entry_is_damaged() -> None:
    body = b'{"seq":"x"}'
    sealed = msgspec.json.encode(
        {"sha256": __import__("hashlib").sha256(body).hexdigest(), "body": msgspec.Raw(body)}
    )
    with pytest.raises(Corrupt, match="form of an entry"):
        decode_entry(sealed, what="it")


def test_an_empty_or_endless_batch_is_refused() -> None:
    with pytest.raises(Invalid, match="empty"):
        check_batch(Batch(id="b"))
    with pytest.raises(Invalid, match="at most"):
        check_batch(Batch(id="b", events=(run(),) * 20_001))


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (QuotaSet(max_concurrent_tasks=cast("int", 5.0)), "Expected `int | null`, got `float`"),
        (QuotaSet(max_concurrent_tasks=2**63), "<= 9223372036854775807"),
        (run(priority=-(2**63) - 1), ">= -9223372036854775808"),
        (run(labels=cast("dict[str, str]", {"a": 1})), "Expected `str`, got `int`"),
        (run(run_id=cast("str", None)), "Expected `str`, got `null`"),
    ],
)
def test_what_no_replay_could_read_is_refused(event: Event, why: str) -> None:
    with pytest.raises(Invalid, match=re.escape(why)):
        read_back(encode_batch(Batch(id="b", events=(event,))))


@pytest.mark.parametrize("value", [object(), "\ud800", {1, 2}, float("nan")])
def test_what_has_no_json_form_or_another_one_is_refused(value: object) -> None:
    with pytest.raises(Invalid, match=r"cannot be encoded as JSON|invalid event"):
        read_back(encode_batch(Batch(id="b", events=(run(lane=cast("str", value)),))))


def test_a_batch_reads_back_as_it_was() -> None:
    batch = Batch(id="b", events=(run(), QuotaSet(max_daily_runs=3)), request_id="k", parkable=True)
    assert read_back(encode_batch(batch)) == batch


@pytest.mark.parametrize(
    "changes",
    [{"cron_expressions": ("61 * * * *",)}, {"cron_expressions": ()}, {"timezone": "Mars/Olympus"}],
)
def test_a_schedule_that_is_never_due_is_refused_before_it_is_written(
    changes: dict[str, Any],
) -> None:
    fields: dict[str, Any] = {"schedule_id": "s", "cron_expressions": ("* * * * *",), **changes}
    with pytest.raises(Invalid):
        check_batch(Batch(id="b", events=(ScheduleUpserted(**fields),)))


IDS = st.text(max_size=6) | st.text('./%2eA|\\"é\x7f\n', max_size=6)


@given(IDS, IDS, st.sampled_from(["", "ok", "../x"]))
def test_many_events_are_checked_as_one_by_one(run_id: str, task: str, worker: str) -> None:
    started = TaskStarted(
        run_id=run_id, task_key=task, attempt_id="a", exec_id="e", worker_id=worker
    )
    try:
        raw = encode_batch(Batch(id="b", events=(started,)))
        stored = read_back(raw)
    except Invalid:
        return

    def refused(raw: bytes) -> bool:
        try:
            check_batch(stored, raw)
        except Invalid:
            return True
        return False

    assert refused(raw) is refused(b"")
