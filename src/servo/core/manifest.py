"""The manifest: which files together are the projection at one point of the ledger.

Manifests are numbered and created once; nothing in one ever changes. The newest says who leads
(`epoch`, `owner`), how far the ledger is applied (`applied_*` describe the entry `applied_seq`)
and which files hold the rows of each table. What must hold between one manifest and the next is
written down in `check_first`, `check_successor` and `check_files`, and checked before a manifest
is created: a rule that is only intended is a rule that is broken by the first repair at night.

A manifest is stored as `{"sha256": H, "body": {...}}` like a ledger entry, with H the hash of the
bytes of the body as they stand, checked before anything inside is parsed.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from servo.core.fold.limits import FOLD_VERSION
from servo.core.format import FORMAT, MIN_TABLE_READER, check_known
from servo.core.ids import MIN_SALT_BYTES
from servo.core.sealed import UNREADABLE, damaged, seal, unseal
from servo.core.state.state import EPOCH_START
from servo.errors import Internal

KeyPart = str | int

_REMEDY = "restore this object from a backup, or rebuild the projection from the ledger"


class Tier(StrEnum):
    """`ACTIVE` is what a leader loads; `CLOSED` is what has left its memory."""

    ACTIVE = "active"
    CLOSED = "closed"


class ObjectRef(msgspec.Struct, frozen=True, kw_only=True):
    """An object and what its bytes must be."""

    key: str
    size: int
    sha256: str


class FileEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One immutable Parquet file of one table, sorted by primary key.

    `rows` counts tombstones too. `min_seq` and `max_seq` bound the `row_version` of its rows, not
    of its tombstones: no row older than `min_seq` is in it. `bloom` is the side object that tells
    which keys are not in the file, and where in it the others are.
    """

    key: str
    size: int
    sha256: str
    rows: int
    level: int
    tier: Tier
    min_seq: int
    max_seq: int
    min_key: tuple[KeyPart, ...]
    max_key: tuple[KeyPart, ...]
    written_at: datetime
    tombstones: int = 0
    bloom: ObjectRef | None = None


class TableFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The files of one table, older ones first."""

    files: tuple[FileEntry, ...] = ()

    def tier(self, tier: Tier) -> tuple[FileEntry, ...]:
        return tuple([file for file in self.files if file.tier is tier])


class Manifest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One version of the projection. `sha256` is the hash of its own body, known once sealed.

    `min_reader` is the lowest format version that can read its tables, `min_leader` the lowest that
    may lead from it: see `servo.core.format`.
    """

    v: int
    epoch: int
    owner: str
    nonce: str
    ts: datetime
    identity: str
    fold_version: int
    applied_seq: int = 0
    applied_epoch: int = 0
    applied_ts: datetime = EPOCH_START
    last_hash: str = ""
    prev_hash: str = ""
    tables: dict[str, TableFiles] = {}
    format: int = 1
    min_reader: int = 1
    min_leader: int = 1
    min_servo: str = ""
    sha256: str = ""

    def files(self, table: str, tier: Tier) -> tuple[FileEntry, ...]:
        held = self.tables.get(table)
        return () if held is None else held.tier(tier)


_NO_FILES = TableFiles()


class _ManifestNeeds(msgspec.Struct):
    min_reader: int = 1
    min_servo: str = ""


_encoder = msgspec.json.Encoder()
_needs = msgspec.json.Decoder(_ManifestNeeds)
_manifest = msgspec.json.Decoder(Manifest)


# --- bytes ----------------------------------------------------------------------------------------


def encode(manifest: Manifest) -> tuple[bytes, Manifest]:
    """The bytes to store, and the manifest with its own hash filled in."""
    data, digest = seal(_encoder.encode(replace(manifest, sha256="")))
    return data, replace(manifest, sha256=digest)


def decode(data: bytes, *, what: str) -> Manifest:
    """Decode a stored manifest after checking its hash; `Corrupt` if anything is off."""
    body, digest = unseal(data, what=what, remedy=_REMEDY)
    return replace(_decode_body(body, what), sha256=digest)


def _decode_body(body: bytes, what: str) -> Manifest:
    try:
        needs = _needs.decode(body)
        check_known(what, needs=needs.min_reader, servo=needs.min_servo)
        return _manifest.decode(body)
    except UNREADABLE as error:
        why = f"it does not have the form of a manifest: {error}"
        raise damaged(what, why, remedy=_REMEDY) from None


# --- how one follows another ----------------------------------------------------------------------


def first_claim(*, identity: str, owner: str, nonce: str, ts: datetime, above: int = 0) -> Manifest:
    """The manifest that begins a workspace. `identity` is its salt in hex and stays for ever.

    The epoch is higher than `above`, the highest that the ledger has.
    """
    return Manifest(
        v=1,
        epoch=above + 1,
        owner=owner,
        nonce=nonce,
        ts=ts,
        identity=identity,
        fold_version=FOLD_VERSION,
        format=FORMAT,
        min_reader=MIN_TABLE_READER,
    )


def check_leadable(manifest: Manifest) -> None:
    """`NeedsUpgrade` if only a newer version of Servo may lead from `manifest`."""
    what = f"leading from manifest {manifest.v}"
    check_known(
        what, needs=manifest.min_leader, servo=manifest.min_servo, fold=manifest.fold_version
    )


def next_claim(old: Manifest, *, owner: str, nonce: str, ts: datetime, above: int = 0) -> Manifest:
    """The manifest by which `owner` takes over: the same projection under the next epoch.

    The epoch is higher than `above` too, the highest that the ledger has: a manifest of that epoch
    may have been lost.
    """
    return replace(
        old,
        v=old.v + 1,
        epoch=max(old.epoch, above) + 1,
        format=FORMAT,
        owner=owner,
        nonce=nonce,
        ts=ts,
        prev_hash=old.sha256,
        sha256="",
    )


def check_first(new: Manifest) -> None:
    """`Internal` unless `new` can begin a workspace."""
    _require(new.v == 1 and not new.prev_hash, "the first manifest is version 1 and follows none")
    _require(new.epoch >= 1, "epochs count from 1")
    _require(_is_salt(new.identity), "the identity is a salt of at least 16 bytes in hex")
    check_files(new, {})


def check_successor(old: Manifest, new: Manifest) -> None:
    """`Internal` unless `new` can follow `old`."""
    _require(new.v == old.v + 1, "the version grows by one")
    _require(new.prev_hash == old.sha256, "a manifest names the hash of the one before")
    check_later(old, new)
    _check_new_files(old, new)


def check_later(old: Manifest, new: Manifest) -> None:
    """`Internal` unless `new` can come after `old`, with any number of versions between them."""
    _require(new.identity == old.identity, "the identity of a workspace never changes")
    _require(new.epoch >= old.epoch, "the epoch never goes back")
    _require(
        (new.owner == old.owner) == (new.epoch == old.epoch), "every epoch has an owner of its own"
    )
    _require(new.nonce != old.nonce, "every manifest has a nonce of its own")
    _check_applied(old, new)
    check_files(new, old.tables)


def _check_applied(old: Manifest, new: Manifest) -> None:
    _require(new.applied_seq >= old.applied_seq, "applied_seq never goes back")
    _require(new.applied_ts >= old.applied_ts, "the time of the ledger never goes back")
    _require(
        old.applied_epoch <= new.applied_epoch <= new.epoch,
        "an applied epoch never goes back and was claimed before",
    )
    _require(
        new.applied_seq > old.applied_seq or new.last_hash == old.last_hash,
        "one sequence number has one hash",
    )


def check_files(new: Manifest, known: Mapping[str, TableFiles]) -> None:
    """`Internal` unless the files of every table that differs from `known` are well described."""
    for table, held in new.tables.items():
        before = known.get(table, _NO_FILES)
        if held is not before:
            keys = {file.key for file in held.files}
            _require(len(keys) == len(held.files), f"{table} names each file once")
            described = {file.key: file for file in before.files}
            for file in held.files:
                _check_file(new, file)
                # Readers and lookups believe a description, so one that is narrowed by mistake
                # would make rows disappear without any file being touched.
                same = described.get(file.key, file) == file
                _require(same, f"{file.key} is described as before")


def _check_new_files(old: Manifest, new: Manifest) -> None:
    for table, held in new.tables.items():
        before = old.tables.get(table, _NO_FILES)
        if held is not before:
            known = {file.key for file in before.files}
            fresh = [file for file in held.files if file.key not in known]
            dated = all(file.written_at == new.ts for file in fresh)
            _require(dated, f"new files of {table} have the time of the manifest")


def _check_file(new: Manifest, file: FileEntry) -> None:
    _require(file.level >= 0 and file.size > 0, f"{file.key} has a level and a size")
    _require(0 <= file.tombstones <= file.rows > 0, f"{file.key} has rows")
    _require(file.min_seq <= file.max_seq <= new.applied_seq, f"{file.key} is applied")
    _require(file.min_key <= file.max_key, f"{file.key} has a range of keys")


def _require(holds: bool, rule: str) -> None:
    if not holds:
        raise Internal(
            f"a manifest breaks the rule that {rule}",
            remedy="report this as a bug, with the manifests of the workspace; nothing was written",
        )


def _is_salt(text: str) -> bool:
    try:
        return len(bytes.fromhex(text)) >= MIN_SALT_BYTES
    except ValueError:
        return False


# --- what it holds --------------------------------------------------------------------------------


def referenced(manifest: Manifest) -> Iterator[str]:
    """Every object the manifest needs; what no retained manifest needs may be collected."""
    for held in manifest.tables.values():
        for file in held.files:
            yield file.key
            if file.bloom is not None:
                yield file.bloom.key


def l0_files(manifest: Manifest) -> int:
    """How far merging is behind: the most unmerged files any table has in the active tier."""
    counts = (
        sum(1 for file in held.files if file.level == 0 and file.tier is Tier.ACTIVE)
        for held in manifest.tables.values()
    )
    return max(counts, default=0)
