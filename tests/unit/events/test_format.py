"""Which version of Servo understands an entry: by what it says, and by what is in it."""

from datetime import UTC, datetime

import pytest

from servo.core.events.codec import decode_entry, encode_batch, encode_entry, nonce_of_entry
from servo.core.events.envelope import Batch, Entry, Status, Verdict
from servo.core.events.quotas import LaneWeightSet, QuotaSet
from servo.core.events.validate import check_batch
from servo.core.format import check_known, reader_of, servo_of
from servo.core.sealed import seal
from servo.errors import Corrupt, Invalid, NeedsUpgrade

UNKNOWN = b'{"id":"b","events":[{"type":"MoonPhaseChanged","v":1}]%s}'
REFUSED = b',"verdict":{"status":"rejected","code":"unknown_event","reason":"not known"}'


def entry(raw: bytes = b"") -> bytes:
    made = Entry(
        seq=1,
        epoch=1,
        owner="o",
        nonce="mine",
        ts=datetime(2026, 1, 1, tzinfo=UTC),
        prev_hash="",
        fold_version=1,
    )
    return encode_entry(made, [raw] if raw else [])[0]


def test_an_entry_needs_what_the_newest_of_its_events_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events = [QuotaSet(), LaneWeightSet(lane="bulk", weight=2), QuotaSet()]
    assert reader_of(events) == 1
    monkeypatch.setattr(LaneWeightSet, "SINCE", 3)
    assert reader_of(events) == 3
    assert servo_of(1) == ""


def test_an_event_that_is_not_known_needs_an_upgrade_unless_it_was_refused() -> None:
    with pytest.raises(NeedsUpgrade, match="MoonPhaseChanged"):
        _ = decode_entry(entry(UNKNOWN % b""), what="it")
    found, _ = decode_entry(entry(UNKNOWN % REFUSED), what="it")
    assert found.batches[0].verdict is not None


def test_a_newer_fold_needs_an_upgrade() -> None:
    with pytest.raises(NeedsUpgrade, match="it needs fold version 2, and this Servo has 1"):
        check_known("it", needs=1, fold=2)
    check_known("it", needs=1, fold=1)


def test_what_is_no_entry_of_any_version_is_damaged() -> None:
    assert nonce_of_entry(entry(), what="it") == "mine"
    for body in (b"[]", b'{"nonce":1}'):
        with pytest.raises(Corrupt, match="it does not have the form of an entry"):
            _ = nonce_of_entry(seal(body)[0], what="it")
        with pytest.raises(Corrupt, match="it does not have the form of an entry"):
            _ = decode_entry(seal(body)[0], what="it")


def test_nobody_sends_a_verdict() -> None:
    verdict = Verdict(status=Status.REJECTED, code="c", reason="r")
    batch = Batch(id="b", events=(QuotaSet(),), verdict=verdict)
    with pytest.raises(Invalid, match="already has a verdict"):
        check_batch(batch, encode_batch(Batch(id="b", events=(QuotaSet(),))))
