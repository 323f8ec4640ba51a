"""A workspace in a store, written by hand: ledger entries, projections and the time of the store.

`StoredStory` tells a story like `Story` does and stores it as a leader would, entry by entry, with
a manifest whenever it is told to publish. Its clock is the store's clock, so that a test makes
things old by letting time pass.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from servo.core.events.envelope import Answer, Batch
from servo.core.events.runs import PlanCreated, PlanSegment, RunRequested
from servo.core.manifest import Manifest, encode, first_claim
from servo.core.plan import Chunk, TaskSpec, chunk_bytes, chunk_digest
from servo.ledger.paths import Paths
from servo.ledger.writer import LedgerWriter
from servo.ports.object_store import ObjectStore
from servo.projection.files.manifest_store import ManifestStore
from servo.projection.publish.merge import MergeResult
from servo.projection.publish.publisher import Publisher
from servo.projection.publish.tiering import MergePolicy
from servo.storage.memory import MemoryStore
from servo.testing.builders import IDENTITY, START, Story
from servo.testing.clock import ManualClock, SeededEntropy

NEVER = timedelta(days=3650)


class StoredStory(Story):
    """A story whose ledger and projections are in a store."""

    def __init__(self, store: ObjectStore | None = None) -> None:
        super().__init__()
        self.clock = ManualClock(START)
        self.store: ObjectStore = MemoryStore(self.clock) if store is None else store
        self.paths = Paths(self.state.tenant, self.state.workspace)
        self.manifests = ManifestStore(self.store, self.paths)
        self._entropy = SeededEntropy()
        self._writer = LedgerWriter(self.store, self.paths)
        self.publisher = Publisher(
            self.store, self.paths, self._entropy, policy=MergePolicy(fan_in=2)
        )
        self._stored = 0
        self.manifest: Manifest = self._claim()

    def wait(self, **duration: float) -> None:
        super().wait(**duration)
        self.clock.advance(timedelta(**duration))

    def commit(
        self, *batches: Batch, epoch: int | None = None, stall: bool = False
    ) -> list[Answer]:
        answers = super().commit(*batches, epoch=epoch, stall=stall)
        for entry, data, _ in self.entries[self._stored :]:
            _ = self._writer.offer(entry, data)
        self._stored = len(self.entries)
        return answers

    def publish(
        self, *, close_after: timedelta = NEVER, merges: Sequence[MergeResult] = ()
    ) -> Manifest:
        """Publish what changed; runs that ended `close_after` ago move to the closed tier."""
        capture = self.publisher.capture(
            self.state, now=self.now, close_after=close_after, max_rows=10_000
        )
        self.manifest = self.publisher.write(
            capture, self.manifest, **self._signature(), merges=merges
        )
        if capture is not None:
            self.publisher.release(self.state, capture)
        return self.manifest

    def merge(self) -> Manifest:
        """Do every merge that is due and publish the results."""
        while (plan := self.publisher.plan_merge(self.manifest)) is not None:
            merged = self.publisher.merge(plan)
            self.manifest = self.publisher.write(
                None, self.manifest, **self._signature(), merges=[merged]
            )
        return self.manifest

    def plan_by_digest(self, tasks: Sequence[TaskSpec], run_id: str = "run_1") -> str:
        """Request a run whose plan is one stored segment; the digest of the segment."""
        data = chunk_bytes(Chunk(tasks=tuple(tasks)))
        digest = chunk_digest(data)
        _ = self.store.put(self.paths.plan(digest), data)
        request = RunRequested(run_id=run_id, run_key=f"key-{run_id}", request_fingerprint="fp")
        segment = PlanSegment(digest=digest, count=len(tasks))
        _ = self.tell(request, PlanCreated(run_id=run_id, fingerprint="p", segments=(segment,)))
        self.state.plan_segments[digest] = tuple(tasks)
        return digest

    def objects(self, prefix: str = "") -> list[str]:
        """The keys that are stored."""
        return [meta.key for meta in self.store.list_after(prefix or self.paths.root)]

    def _claim(self) -> Manifest:
        latest = self.manifests.latest()
        if latest is not None:
            return latest
        claim = first_claim(identity=IDENTITY, owner="owner-1", nonce="first", ts=self.now)
        _, sealed = encode(claim)
        _ = self.manifests.create(sealed)
        return sealed

    def _signature(self) -> dict[str, Any]:
        return {
            "epoch": self.manifest.epoch,
            "owner": self.manifest.owner,
            "nonce": self._entropy.token_bytes(16).hex(),
            "ts": self.now,
        }
