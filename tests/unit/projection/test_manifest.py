"""A manifest's bytes, and what must hold between one manifest and the next."""

from datetime import UTC, datetime, timedelta
from hashlib import sha256

import msgspec
import pytest
from msgspec.structs import replace

from servo.core.fold.limits import FOLD_VERSION
from servo.core.manifest import (
    FileEntry,
    Manifest,
    ObjectRef,
    TableFiles,
    Tier,
    check_first,
    check_later,
    check_leadable,
    check_successor,
    decode,
    encode,
    first_claim,
    l0_files,
    next_claim,
    referenced,
)
from servo.errors import Corrupt, Internal, NeedsUpgrade

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(seconds=1)


def file(name: str = "f1", **fields: object) -> FileEntry:
    entry = FileEntry(
        key=name,
        size=10,
        sha256="00",
        rows=3,
        level=0,
        tier=Tier.ACTIVE,
        min_seq=2,
        max_seq=5,
        min_key=("run", 1),
        max_key=("run", 2),
        written_at=NOW,
    )
    return replace(entry, **fields)


def first() -> Manifest:
    return encode(first_claim(identity="ab" * 16, owner="o1", nonce="n1", ts=NOW))[1]


def published(old: Manifest, **fields: object) -> Manifest:
    """The next manifest of the same leader."""
    new = replace(
        old,
        v=old.v + 1,
        nonce=f"n{old.v + 1}",
        ts=LATER,
        prev_hash=old.sha256,
        sha256="",
        applied_seq=old.applied_seq + 5,
        applied_epoch=1,
        applied_ts=LATER,
        last_hash="h5",
    )
    return replace(new, **fields)


# --- bytes ----------------------------------------------------------------------------------------


def test_a_manifest_comes_back_as_it_was() -> None:
    bloom = ObjectRef(key="k", size=1, sha256="11")
    held = {"tasks": TableFiles(files=(file(), file("f2", tier=Tier.CLOSED, bloom=bloom)))}
    data, sealed = encode(published(first(), tables=held))
    assert decode(data, what="m") == sealed


def test_the_hash_is_that_of_the_body_as_it_stands() -> None:
    data, sealed = encode(first())
    body = msgspec.json.decode(data)["body"]
    assert data == b'{"sha256":"%s","body":%s}' % (
        sealed.sha256.encode(),
        msgspec.json.encode(body),
    )
    assert "sha256" not in body


def test_any_flipped_bit_is_found() -> None:
    data, sealed = encode(first())
    for position in range(len(data)):
        broken = bytearray(data)
        broken[position] ^= 1
        try:
            found = decode(bytes(broken), what="m")
        except Corrupt:
            continue
        # What is left are bits that JSON does not look at.
        assert found == sealed


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"\xff", b'{"sha256":"0","body":{}}'])
def test_what_is_no_manifest_is_damaged(data: bytes) -> None:
    with pytest.raises(Corrupt, match="the manifest 7 is damaged"):
        _ = decode(data, what="the manifest 7")


def test_a_sealed_object_of_another_form_is_damaged() -> None:
    body = b'{"v":1}'
    digest = sha256(body).hexdigest()
    with pytest.raises(Corrupt, match="does not have the form of a manifest"):
        _ = decode(b'{"sha256":"%s","body":%s}' % (digest.encode(), body), what="m")


def test_a_manifest_of_a_later_format_asks_for_an_upgrade() -> None:
    data, _ = encode(replace(first(), format=2, min_reader=2, min_servo="7.1.0"))
    with pytest.raises(NeedsUpgrade, match=r"upgrade to Servo 7\.1\.0 or later"):
        _ = decode(data, what="m")
    data, _ = encode(replace(first(), format=2, min_leader=2))
    with pytest.raises(NeedsUpgrade, match="leading from manifest 1 needs format 2"):
        check_leadable(decode(data, what="m"))


def test_fields_that_are_not_known_yet_are_ignored() -> None:
    body = msgspec.json.decode(encode(first())[0])["body"] | {"later": 1}
    raw = msgspec.json.encode(body)
    digest = sha256(raw).hexdigest()
    found = decode(b'{"sha256":"%s","body":%s}' % (digest.encode(), raw), what="m")
    assert replace(found, sha256="") == replace(first(), sha256="")
    assert found.sha256 == digest


# --- succession -----------------------------------------------------------------------------------


def test_a_workspace_begins_with_version_one_and_an_identity() -> None:
    check_first(first())
    assert first().fold_version == FOLD_VERSION
    with pytest.raises(Internal, match="salt"):
        check_first(replace(first(), identity="ab"))
    with pytest.raises(Internal, match="salt"):
        check_first(replace(first(), identity="no hex at all, certainly not"))
    with pytest.raises(Internal, match="version 1"):
        check_first(replace(first(), v=2))
    with pytest.raises(Internal, match="from 1"):
        check_first(replace(first(), epoch=0))


def test_a_claim_keeps_the_projection_and_raises_the_epoch() -> None:
    old = encode(published(first(), tables={"tasks": TableFiles(files=(file(),))}))[1]
    claim = next_claim(old, owner="o2", nonce="n9", ts=LATER)
    check_successor(old, claim)
    assert (claim.epoch, claim.owner, claim.prev_hash) == (2, "o2", old.sha256)
    assert (claim.tables, claim.applied_seq) == (old.tables, old.applied_seq)
    assert claim.identity == old.identity


def test_a_publish_follows_its_manifest() -> None:
    held = {"tasks": TableFiles(files=(file(written_at=LATER),))}
    check_successor(first(), published(first(), tables=held))


def test_a_file_that_stays_is_described_as_before() -> None:
    old = encode(published(first(), tables={"tasks": TableFiles(files=(file(),))}))[1]
    other = {"tasks": TableFiles(files=(file(max_key=("run", 1)),))}
    with pytest.raises(Internal, match="f1 is described as before"):
        check_successor(old, published(old, tables=other, nonce="n9"))


def test_versions_in_between_may_be_gone() -> None:
    old = encode(published(first()))[1]
    later = replace(published(old), v=9, epoch=5, owner="o5", nonce="n9")
    check_later(old, later)
    for fields, rule in [
        ({"identity": "cd" * 16}, "identity of a workspace never changes"),
        ({"epoch": 0, "owner": "o0"}, "epoch never goes back"),
        ({"applied_seq": 1}, "applied_seq never goes back"),
    ]:
        with pytest.raises(Internal, match=rule):
            check_later(old, replace(later, **fields))


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"v": 3}, "version grows by one"),
        ({"prev_hash": "00"}, "names the hash"),
        ({"identity": "cd" * 16}, "identity of a workspace never changes"),
        ({"epoch": 0}, "epoch never goes back"),
        ({"owner": "o2"}, "owner of its own"),
        ({"epoch": 2}, "owner of its own"),
        ({"nonce": "n1"}, "nonce of its own"),
        ({"applied_seq": -1}, "applied_seq never goes back"),
        ({"applied_ts": datetime(1969, 1, 1, tzinfo=UTC)}, "time of the ledger"),
        ({"applied_epoch": 2}, "applied epoch"),
        ({"applied_seq": 0}, "one sequence number has one hash"),
        ({"tables": {"tasks": TableFiles(files=(file(), file()))}}, "each file once"),
        ({"tables": {"tasks": TableFiles(files=(file(max_seq=6),))}}, "f1 is applied"),
        ({"tables": {"tasks": TableFiles(files=(file(min_seq=6),))}}, "f1 is applied"),
        ({"tables": {"tasks": TableFiles(files=(file(rows=0),))}}, "f1 has rows"),
        ({"tables": {"tasks": TableFiles(files=(file(tombstones=4),))}}, "f1 has rows"),
        ({"tables": {"tasks": TableFiles(files=(file(level=-1),))}}, "level and a size"),
        ({"tables": {"tasks": TableFiles(files=(file(max_key=("a", 1)),))}}, "range of keys"),
        ({"tables": {"tasks": TableFiles(files=(file(),))}}, "the time of the manifest"),
    ],
)
def test_a_manifest_that_breaks_a_rule_is_refused(fields: dict[str, object], rule: str) -> None:
    with pytest.raises(Internal, match=rule):
        check_successor(first(), published(first(), **fields))


def test_files_that_were_checked_before_are_not_checked_again() -> None:
    bad = {"tasks": TableFiles(files=(file(rows=0),))}
    old = replace(first(), tables=bad)
    check_successor(old, published(old, tables=bad))


# --- what it holds --------------------------------------------------------------------------------


def test_everything_a_manifest_needs_is_named() -> None:
    bloom = ObjectRef(key="f2.keys", size=1, sha256="11")
    closed = file("f2", tier=Tier.CLOSED, bloom=bloom)
    held = {
        "tasks": TableFiles(files=(file("f1"), closed)),
        "runs": TableFiles(files=(file("f3"),)),
    }
    new = published(first(), tables=held)
    assert sorted(referenced(new)) == ["f1", "f2", "f2.keys", "f3"]
    assert new.files("tasks", Tier.CLOSED) == (closed,)
    assert new.files("quotas", Tier.ACTIVE) == ()


def test_only_unmerged_active_files_count_as_being_behind() -> None:
    files = [file(f"f{number}") for number in range(3)]
    others = [file("m", level=1), file("c", tier=Tier.CLOSED), file("d", tier=Tier.CLOSED)]
    held = {"tasks": TableFiles(files=(*files, *others)), "runs": TableFiles(files=(file("r"),))}
    assert l0_files(published(first(), tables=held)) == 3
    assert l0_files(first()) == 0
