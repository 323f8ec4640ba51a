"""The background work of a leader: publish, merge, collect garbage, archive, expire.

One job at a time runs beside the loop, on immutable values and the store. The loop captures what
changed, starts the job, continues, and takes the result when it is ready. The leader is the only
writer of manifests of its term, and this is the only place that starts one, so a published
manifest is always the successor of the last one published here.

A publish that certainly did not happen is tried again with everything that changed since. One
whose outcome is unknown ends the term: the next leader reads what is there.

Expired outputs are left in `proposals`, and the loop puts them into the ledger. A later round
deletes their data, once no published row refers to it.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from servo.config import Settings
from servo.core.events.envelope import Event
from servo.core.manifest import Manifest, l0_files
from servo.core.state.state import State
from servo.errors import NotFound, Unavailable
from servo.leader.ports import Ports
from servo.leader.takeover import Leadership
from servo.ledger.paths import Paths
from servo.ports.background import Job
from servo.projection.files.manifest_store import ManifestStore
from servo.projection.publish.capture import PendingPublish
from servo.projection.publish.merge import MergeResult
from servo.projection.publish.publisher import Publisher
from servo.projection.publish.tiering import MergePlan
from servo.projection.read.cold import ColdRows
from servo.projection.read.hydration import Hydrator
from servo.projection.upkeep.gc import Collector, GcReport
from servo.projection.upkeep.outputs import OutputCollector, claims_of, expiry_events

RETRY_AFTER = timedelta(seconds=1)
HINT_EVERY = timedelta(seconds=1)


class Maintenance:
    """The background work of one leader."""

    def __init__(
        self, ports: Ports, paths: Paths, settings: Settings, leadership: Leadership
    ) -> None:
        cold = ColdRows(ports.store)
        self.hydrator = Hydrator(ports.store, paths, leadership.manifest, cold=cold)
        self.manifest: Manifest = leadership.manifest
        self.behind = False
        self.proposals: list[Event] = []
        self._ports = ports
        self._settings = settings
        self._epoch = leadership.epoch
        self._owner = leadership.owner
        self._publisher = Publisher(ports.store, paths, ports.entropy, cold=cold)
        self._manifests = ManifestStore(ports.store, paths)
        self._collector = Collector(ports.store, paths, settings)
        self._outputs = OutputCollector(ports.store, paths, settings)
        self._merged: list[MergeResult] = []
        self._merge: MergePlan | None = None
        self._looked_at = 0
        self._job: Job | None = None
        self._on_done: Callable[[State, Job, datetime], None] | None = None
        now = ports.clock.now()
        self._publish_error: Unavailable | None = None
        self._next_publish = now
        self._next_hint = now
        self._next_collection = now + settings.gc_every
        self._collected_at = 0
        self._problems: dict[str, tuple[str, ...]] = {}
        self._next_outputs = now + settings.outputs_every
        self._outputs_at = 0

    @property
    def problems(self) -> tuple[str, ...]:
        """Why the last rounds of garbage collection were incomplete."""
        return tuple(problem for found in self._problems.values() for problem in found)

    def step(self, state: State, now: datetime) -> None:
        """Take the results of jobs that have ended, and start jobs that are due."""
        if self._job is not None and self._job.done():
            job, done = self._job, self._on_done
            self._job = self._on_done = None
            if done is not None:
                done(state, job, now)
        if self._job is None:
            self._start_next(state, now)

    def flush(self, state: State) -> Unavailable | None:
        """Publish everything now and wait for it; the error if the store did not take it."""
        self._await(state)
        self._publish_error = None
        if self._start_publish(state, self._ports.clock.now()):
            self._await(state)
            self._await(state)
        return self._publish_error

    def _await(self, state: State) -> None:
        job, done = self._job, self._on_done
        if job is None or done is None:
            return
        self._job = self._on_done = None
        done(state, _Awaited(job), self._ports.clock.now())

    def next_due(self, state: State) -> datetime | None:
        """When there will be something to start; None while a job runs or nothing changed."""
        if self._job is not None:
            return None
        if self._merged or any(table.dirty for table in state.tables.values()):
            return self._next_publish
        return self._publisher.next_closing(self._settings.close_after)

    def _start_next(self, state: State, now: datetime) -> None:
        """Publish when it is time, merge in between; while behind, merge first."""
        if self._looked_at != self.manifest.v:
            self._looked_at = self.manifest.v
            self._merge = self._publisher.plan_merge(self.manifest)
            self.behind = l0_files(self.manifest) >= self._settings.slow_at_l0_files
        if self.behind and self._start_merge():
            return
        if now >= self._next_publish and self._start_publish(state, now):
            return
        if self._start_merge():
            return
        if now >= self._next_collection and self._collected_at != self.manifest.v:
            self._next_collection = now + self._settings.gc_every
            self._start_collection(now)
        elif now >= self._next_outputs:
            self._next_outputs = now + self._settings.outputs_every
            self._start_outputs(state, now)

    def _begin(self, work: Callable[[], Any], done: Callable[[State, Job, datetime], None]) -> None:
        self._on_done = done
        self._job = self._ports.background.start(work)

    # --- publishing -------------------------------------------------------------------------

    def _start_publish(self, state: State, now: datetime) -> bool:
        capture = self._publisher.capture(
            state,
            now=now,
            close_after=self._settings.close_after,
            max_rows=self._settings.close_rows_per_publish,
        )
        if capture is None and not self._merged:
            self._next_publish = now + self._settings.publish_every
            return False
        merges, self._merged = self._merged, []
        current, nonce = self.manifest, self._ports.nonce()

        def work() -> Manifest:
            return self._publisher.write(
                capture,
                current,
                epoch=self._epoch,
                owner=self._owner,
                nonce=nonce,
                ts=now,
                merges=merges,
            )

        def done(state: State, job: Job, now: datetime) -> None:
            self._published(state, job, capture, merges, now)

        self._begin(work, done)
        return True

    def _published(
        self,
        state: State,
        job: Job,
        capture: PendingPublish | None,
        merges: list[MergeResult],
        now: datetime,
    ) -> None:
        self._next_publish = now + self._settings.publish_every
        try:
            self.manifest = job.result()
        except Unavailable as error:
            if error.may_have_applied:
                raise
            if capture is not None:
                self._publisher.restore(state, capture)
            self._merged = merges
            self._next_publish = now + RETRY_AFTER
            self._publish_error = error
            return
        if capture is not None:
            self._publisher.release(state, capture)
        self.hydrator.manifest = self.manifest
        if now >= self._next_hint:
            self._next_hint = now + HINT_EVERY
            version = self.manifest.v
            self._begin(lambda: self._manifests.write_hint(version), _ignore)

    # --- merging and collecting -------------------------------------------------------------

    def _start_merge(self) -> bool:
        plan = self._merge
        if self._merged or plan is None:
            return False
        self._merge = None
        self._begin(lambda: self._publisher.merge(plan), self._merge_done)
        return True

    def _merge_done(self, state: State, job: Job, now: datetime) -> None:
        del state
        try:
            self._merged.append(job.result())
        except (Unavailable, NotFound):
            self._looked_at = 0
            self._next_publish = now + RETRY_AFTER

    def _start_collection(self, now: datetime) -> None:
        current = self.manifest

        def work() -> GcReport:
            return self._collector.step(current=current, in_flight=(), now=now)

        self._begin(work, self._collected)

    def _collected(self, state: State, job: Job, now: datetime) -> None:
        del state
        with suppress(Unavailable, NotFound):
            report: GcReport = job.result()
            self._problems["files"] = report.problems
            if report.more:
                self._next_collection = now
            else:
                self._collected_at = self.manifest.v

    def _start_outputs(self, state: State, now: datetime) -> None:
        """Examine the outputs, unless nothing can have changed since the last time.

        Data that is too young to delete may be deleted later, so an idle workspace is examined for
        a while, and then no more.
        """
        claims, current = claims_of(state), self.manifest
        ageing = any(rule.age is not None for rule in claims.rules.values())
        if self._outputs_at == current.v and not ageing:
            return

        def work() -> GcReport:
            return self._outputs.step(current=current, claims=claims, now=now)

        self._begin(work, self._outputs_done)

    def _outputs_done(self, state: State, job: Job, now: datetime) -> None:
        del state
        with suppress(Unavailable, NotFound):
            report: GcReport = job.result()
            self._problems["outputs"] = report.problems
            self.proposals += expiry_events(report.expired)
            if report.expired:
                self._next_outputs = now + RETRY_AFTER
            elif report.more:
                self._next_outputs = now
            elif now - self.manifest.ts > self._settings.gc_min_age:
                self._outputs_at = self.manifest.v


class _Awaited:
    """A job whose caller waits for the result."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def done(self) -> bool:
        return True

    def result(self) -> Any:
        return self._job.result()


def _ignore(state: State, job: Job, now: datetime) -> None:
    """Ignore `Unavailable` and `NotFound` from a job that can be repeated."""
    del state, now
    with suppress(Unavailable, NotFound):
        job.result()
