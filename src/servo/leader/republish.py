"""Publishing a projection that was rebuilt from the whole ledger.

Only a leader publishes, so this takes over first, as any leader does, and fences the previous one.
The caller makes sure that there is no healthy leader (see `servo.workspace.leading`). Then
everything is folded from the first entry and published as new files. The new manifest refers to no
old file, and the old files stay as they are.

If the newest manifest cannot be read, no process can lead, because the owner and the published
files are unknown. It is skipped: the next version continues the last readable one, with an epoch
that the damaged one cannot have had. The later entries are in the ledger.
"""

from msgspec.structs import replace

from servo.config import Settings
from servo.core.manifest import Manifest, encode, next_claim
from servo.errors import Corrupt, Fenced
from servo.leader.background import ThreadBackground
from servo.leader.ports import Ports
from servo.leader.takeover import Leadership, take_over
from servo.ledger.paths import Paths
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
    """Add a readable manifest after a damaged newest one; do nothing if it is readable."""
    manifests = ManifestStore(ports.store, paths)
    try:
        _ = manifests.latest()
    except Corrupt:
        damaged = manifests.versions()[-1]
        last = next(readable(ports.store, paths), None)
        if last is None:
            raise Corrupt(
                "no manifest of this workspace can be read, so its identity is unknown",
                remedy="restore at least one manifest from a backup",
            ) from None
        # Each version raises the epoch by one at most.
        epoch = last.epoch + (damaged - last.v) + 1
        nonce = ports.nonce()
        claim = next_claim(last, owner=nonce, nonce=nonce, ts=ports.clock.now())
        _ = manifests.create(encode(replace(claim, v=damaged + 1, epoch=epoch))[1])


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
