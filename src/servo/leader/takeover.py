"""Becoming the leader of a workspace.

1. Read the last ledger entry that the newest manifest has applied, and compare its hash: nobody
   may build on a ledger that lost it, because nothing could ever be folded past the hole. Without
   a manifest, nobody may begin a workspace whose ledger has entries.
   Create the next manifest with a fresh owner nonce and an epoch above that of the newest manifest
   and of the last ledger entry, then read the newest manifest back: if its owner is not us, begin
   again. Another process may have won the slot, lost it again and had it collected while we slept;
   our create then succeeded on a slot that no longer means anything.
   Whoever has lost the right to lead meanwhile creates nothing: a process that was suspended just
   before would replace a healthy leader.
2. Load and verify the projection it refers to, or fold the whole ledger if one of its files is
   damaged or missing; replay the later entries. (Files of the newest manifest are never
   collected, so a missing file was lost.)
3. At the first missing entry create a fence: an empty entry of our epoch. A former leader that
   still wants this place loses it here and stops. If another leader's entry is there, fold
   it and continue.
4. Read the newest manifest once more: if its owner is not us, stop. The missing entry may have
   been a collected one and not the end of the ledger.
5. The fence folds like any entry; as the first of its epoch it gives every lease its full time.

Owners are compared by nonce, never by epoch: after a collected claim two manifests can carry the
same epoch. In the ledger every epoch has one owner, even if manifests are lost: a leader writes
only after it has folded everything before, and an entry of another owner with its own epoch or a
later one ends its try (`Overtaken`). If the newest manifest is still ours then, the manifest of
that other leader is gone, and we claim a higher epoch.

A crash after step 1 leaves a higher epoch and an old leader that still appends; what it appends
before the next fence is valid. A crash after step 3 leaves a fence, which is an entry like any
other. Nothing is ever deleted here.
"""

from collections.abc import Callable
from datetime import datetime

import msgspec
from msgspec.structs import replace

from servo.core.events.codec import decode_entry, encode_entry
from servo.core.events.envelope import Entry
from servo.core.fold.apply import apply_entry
from servo.core.fold.limits import FOLD_VERSION
from servo.core.format import FORMAT, MIN_READER, servo_of
from servo.core.manifest import Manifest, check_leadable, encode, first_claim, next_claim
from servo.core.state.state import State
from servo.errors import Corrupt, Fenced, NotFound, Unavailable
from servo.leader.ledger_time import ledger_time
from servo.leader.ports import Ports
from servo.ledger.paths import Paths
from servo.ledger.reader import LedgerReader
from servo.ledger.writer import LedgerWriter
from servo.projection.files.manifest_store import ManifestStore
from servo.projection.read.hydration import Hydrator
from servo.projection.read.load import load_state
from servo.projection.upkeep.rebuild import rebuild

MAX_TRIES = 50


class Leadership(msgspec.Struct, frozen=True, kw_only=True):
    """The state with which a leader starts its term."""

    state: State
    manifest: Manifest
    owner: str
    epoch: int
    confirmed_at: float


class Overtaken(Fenced):
    """The ledger has an entry by another leader of our epoch or a later one."""


def _always() -> bool:
    return True


def take_over(ports: Ports, paths: Paths, *, may_claim: Callable[[], bool] = _always) -> Leadership:
    """Claim the workspace, catch up, and fence; `Fenced` if another process claimed it since.

    `may_claim` says whether this process still has the right to lead; `Unavailable` if not.
    """
    manifests = ManifestStore(ports.store, paths)
    for _ in range(MAX_TRIES):
        claim = claim_epoch(ports, manifests, may_claim)
        if claim is None:
            continue
        try:
            state = load_state(ports.store, claim, paths.tenant, paths.workspace)
        except (Corrupt, NotFound):
            claim, state = _from_the_ledger(ports, paths, claim)
        try:
            return _catch_up(ports, paths, manifests, claim, state)
        except Overtaken:
            if not is_owner(manifests.latest(), claim.owner):
                raise
    raise Unavailable(
        "could not take over the workspace: other processes keep taking it over",
        remedy="stop the other processes that lead it, and try again",
    )


def _from_the_ledger(ports: Ports, paths: Paths, claim: Manifest) -> tuple[Manifest, State]:
    """Fold everything again, because a file of the projection is damaged or missing.

    The next publish then names new files only. A damaged ledger has no such remedy: its error
    is passed on and the workspace stays as it is.
    """
    state = rebuild(ports.store, paths, from_genesis=True).state
    return replace(claim, tables={}), state


def claim_epoch(
    ports: Ports, manifests: ManifestStore, may_claim: Callable[[], bool] = _always
) -> Manifest | None:
    """Create the manifest that makes us the owner; None if we are not, and should try again."""
    latest = manifests.current()
    reader = LedgerReader(manifests.store, manifests.paths)
    if latest is not None:
        check_leadable(latest)
        check_last_applied(reader, latest)
    last = reader.last(after=0 if latest is None else latest.applied_seq)
    owner = ports.nonce()
    claim = _successor(ports, latest, owner, above=0 if last is None else last.epoch)
    if not may_claim():
        raise Unavailable(
            "this process was suspended before it could take over the workspace",
            remedy="try again",
            may_have_applied=False,
        )
    if manifests.create(claim) is not None:
        return None
    newest = manifests.latest()
    return claim if is_owner(newest, owner) else None


def check_last_applied(reader: LedgerReader, manifest: Manifest) -> None:
    """`Corrupt` if the ledger lost the last entry that `manifest` has applied."""
    seq = manifest.applied_seq
    if not seq:
        return
    found = reader.read(seq)
    if found is None or found[1] != manifest.last_hash:
        what = "is missing" if found is None else "was replaced by another"
        raise Corrupt(
            f"ledger entry {seq} was published and {what}",
            remedy="restore this entry from a backup, as the runbook `corrupt-ledger-entry` says; "
            "until then the workspace can be read and not be led",
        )


def is_owner(newest: Manifest | None, owner: str) -> bool:
    """Whether the newest manifest is ours."""
    return newest is not None and newest.owner == owner


def _successor(ports: Ports, latest: Manifest | None, owner: str, *, above: int = 0) -> Manifest:
    now = ports.clock.now()
    if latest is None:
        identity = ports.entropy.token_bytes(32).hex()
        claim = first_claim(identity=identity, owner=owner, nonce=owner, ts=now)
    else:
        claim = next_claim(latest, owner=owner, nonce=owner, ts=now, above=above)
    return encode(claim)[1]


def _catch_up(
    ports: Ports, paths: Paths, manifests: ManifestStore, claim: Manifest, state: State
) -> Leadership:
    reader = LedgerReader(ports.store, paths)
    writer = LedgerWriter(ports.store, paths)
    hydrator = Hydrator(ports.store, paths, claim)
    while True:
        replay_tail(reader, hydrator, state, claim)
        if not reader.ends_after(state.seq):
            continue
        confirmed_at = ports.clock.monotonic()
        at = ledger_time(ports.store, paths, state, ports.clock.now())
        if raise_fence(ports, writer, hydrator, state, claim, at):
            break
    if not is_owner(manifests.latest(), claim.owner):
        raise Fenced(
            "another process took over at the same time",
            remedy="send the request to the new leader",
        )
    return Leadership(
        state=state,
        manifest=claim,
        owner=claim.owner,
        epoch=claim.epoch,
        confirmed_at=confirmed_at,
    )


def replay_tail(reader: LedgerReader, hydrator: Hydrator, state: State, claim: Manifest) -> None:
    """Fold every entry after the projection."""
    for entry, digest in reader.forward(state.seq):
        check_before(claim, entry)
        fold_stored(hydrator, state, entry, digest)


def check_before(claim: Manifest, entry: Entry) -> None:
    """`Overtaken` if a leader that is not before ours wrote `entry`."""
    if entry.epoch > claim.epoch or (entry.epoch == claim.epoch and entry.owner != claim.owner):
        raise Overtaken(
            f"entry {entry.seq} belongs to a later leader", remedy="send the request to that leader"
        )
    if entry.seq == 1 and entry.identity != claim.identity:
        raise Corrupt(
            "the newest manifest has another identity than the ledger",
            remedy="run `servo admin rebuild`: the identity in the ledger counts",
        )


def fold_stored(hydrator: Hydrator, state: State, entry: Entry, digest: str) -> None:
    """Fold one stored entry."""
    hydrator.prepare(state, entry.batches)
    apply_entry(state, entry, digest)
    state.forget_loaded()


def raise_fence(
    ports: Ports,
    writer: LedgerWriter,
    hydrator: Hydrator,
    state: State,
    claim: Manifest,
    at: datetime,
) -> bool:
    """Take the next place in the ledger with an empty entry; False if it was taken."""
    seq = state.seq + 1
    fence = Entry(
        seq=seq,
        epoch=claim.epoch,
        owner=claim.owner,
        nonce=ports.nonce(),
        ts=at,
        prev_hash=state.last_hash,
        fold_version=FOLD_VERSION,
        format=FORMAT,
        min_reader=max(state.min_reader, MIN_READER),
        min_servo=servo_of(max(state.min_reader, MIN_READER)),
        identity=claim.identity if seq == 1 else "",
    )
    data, digest = encode_entry(fence, ())
    other = writer.offer(fence, data)
    if other is None:
        apply_entry(state, fence, digest)
        return True
    entry, digest = decode_entry(other.data, what=f"ledger entry {fence.seq}")
    check_before(claim, entry)
    fold_stored(hydrator, state, entry, digest)
    return False
