"""Publishing a projection that was rebuilt from the whole ledger.

Only a leader publishes, so this takes over first, as any leader does, and fences the previous one.
The caller makes sure that there is no healthy leader (see `servo.workspace.leading`). Then
everything is folded from the first entry and published as new files. The new manifest refers to no
old file, and the old files stay as they are.

If the newest manifest cannot be read, no process can lead, because the owner and the published
files are unknown. It is skipped: the next version continues the last readable one, with an epoch
that the damaged one cannot have had. The later entries are in the ledger. If no manifest is left,
or none can be read, or the newest is that of another workspace, the first ledger entry tells the
identity: everything else is folded from the ledger anyway.
"""

from msgspec.structs import replace

from servo.config import Settings
from servo.core.manifest import Manifest, encode, first_claim, next_claim
from servo.errors import Corrupt, Fenced
from servo.leader.background import ThreadBackground
from servo.leader.ports import Ports
from servo.leader.takeover import Leadership, take_over
from servo.ledger.paths import Paths
from servo.ledger.reader import LedgerReader
from servo.ports.world import World
from servo.projection.files.manifest_store import ManifestStore
from servo.projection.publish.publisher import Publisher
from servo.projection.read.replay import ReplayProgress
from servo.projection.upkeep.rebuild import readable, rebuild

EVERYTHING = 2**62


def republish(world: World, paths: Paths, *, progress: ReplayProgress) -> Manifest:
    """Take over, fold the whole ledger and publish it; the new manifest."""
    background = ThreadBackground(lambda: None)
    ports = Ports(
        store=world.store, clock=world.clock, entropy=world.entropy, background=background
    )
    try:
        step_over_damage(ports, paths)
        leadership = take_over(ports, paths)
        return _publish(ports, paths, leadership, progress)
    finally:
        background.close()


def step_over_damage(ports: Ports, paths: Paths) -> None:
    """Add a manifest from which a leader can begin, unless the newest is one."""
    manifests = ManifestStore(ports.store, paths)
    identity = _known_identity(LedgerReader(ports.store, paths))
    try:
        newest = manifests.latest()
    except Corrupt:
        newest = next(readable(ports.store, paths), None)
    else:
        if newest is not None and identity in (None, newest.identity):
            return
    last = newest if newest is not None and identity in (None, newest.identity) else None
    if last is not None or identity is not None:
        _ = manifests.create(_replacement(ports, manifests, last, identity or ""))
    elif manifests.versions():
        raise Corrupt(
            "neither the ledger nor any manifest of this workspace tells its identity",
            remedy="restore the first ledger entry or at least one manifest from a backup",
        )


def _known_identity(reader: LedgerReader) -> str | None:
    """The identity by the ledger; None if its first entry cannot tell it."""
    try:
        return reader.identity()
    except Corrupt:
        return None  # folding the ledger will raise it, if that needs the entry


def _replacement(
    ports: Ports, manifests: ManifestStore, last: Manifest | None, identity: str
) -> Manifest:
    """A claim behind all versions, with an epoch that no version and no entry can have had."""
    newest = max(manifests.versions(), default=0)
    entry = LedgerReader(ports.store, manifests.paths).last(after=0)
    known = [found.epoch for found in (last, entry) if found is not None]
    # Each version raises the epoch by one, or to the one after that of the last entry.
    above = max(known, default=0) + newest - (0 if last is None else last.v)
    nonce, now = ports.nonce(), ports.clock.now()
    if last is None:
        claim = first_claim(identity=identity, owner=nonce, nonce=nonce, ts=now, above=above)
    else:
        claim = next_claim(last, owner=nonce, nonce=nonce, ts=now, above=above)
    return encode(replace(claim, v=newest + 1))[1]


def _publish(
    ports: Ports, paths: Paths, leadership: Leadership, progress: ReplayProgress
) -> Manifest:
    state = rebuild(ports.store, paths, from_genesis=True, progress=progress).state
    if state.seq != leadership.state.seq:
        raise Fenced(
            "another process took over while the ledger was being replayed",
            remedy="nothing was published; stop the other leader, or try again",
        )
    publisher = Publisher(ports.store, paths, ports.entropy)
    now = ports.clock.now()
    capture = publisher.capture(
        state, now=now, close_after=Settings().close_after, max_rows=EVERYTHING
    )
    return publisher.write(
        capture,
        replace(leadership.manifest, tables={}),
        epoch=leadership.epoch,
        owner=leadership.owner,
        nonce=ports.nonce(),
        ts=now,
    )
