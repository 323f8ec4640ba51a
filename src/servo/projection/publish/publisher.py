"""Publishing: the changed rows become files, and a manifest makes them the projection.

    engine thread       capture ──────────────────────────────────────> release | restore
    background thread            write (files, then the manifest)

**What is atomic.** The manifest. A capture is taken between two entries, so a manifest says exactly
what the fold of the ledger up to `applied_seq` says, all of it or none; a run that moves to the
closed tier is in one tier before and in the other after, in the same manifest.

**Who may race.** A former leader that still publishes. It loses the slot of the next manifest and
gets `Fenced`. Files never collide: every name carries a nonce.

**What a crash leaves.** Before the manifest: files that nothing names, collected later. After it:
the whole publish. In between, if the outcome is unknown: `Unavailable` with `may_have_applied`, and
the leader stops. Nothing is ever deleted here, least of all while an outcome is unknown.

**Cost.** One file per changed table and tier with the changed rows, and the manifest. Nothing that
was published before is read or written again, except by merges, which run on their own.

There is one capture at a time: the next is taken after `release` or `restore`.
"""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from servo.core.fold.limits import FOLD_VERSION
from servo.core.format import FORMAT, MIN_TABLE_READER, servo_of
from servo.core.manifest import FileEntry, Manifest, TableFiles, check_successor, encode
from servo.core.state import derived
from servo.core.state.state import State
from servo.errors import Fenced, Internal
from servo.ledger.paths import Paths
from servo.ports.entropy import Entropy
from servo.ports.object_store import ObjectStore
from servo.projection.files.files import fetch
from servo.projection.files.manifest_store import ManifestStore
from servo.projection.files.segment import Segment
from servo.projection.files.segment_store import (
    FilePlacement,
    SegmentStore,
    Staged,
    Uploads,
    build,
    one_by_one,
)
from servo.projection.publish.capture import PendingPublish, changes_of
from servo.projection.publish.closing import (
    ClosingQueue,
    changed_runs,
    forget,
    forget_history,
    rows_of,
)
from servo.projection.publish.merge import MergeResult, merge_files
from servo.projection.publish.tiering import MergePlan, MergePolicy, level_for, plan_merge
from servo.projection.read.cold import ColdRows


class Publisher:
    """Turns the changes of one workspace into files and manifests.

    `cold` gets every new file in the closed tier, so that looking up a key that was just published,
    or is new, needs no request.
    """

    def __init__(
        self,
        store: ObjectStore,
        paths: Paths,
        entropy: Entropy,
        *,
        cold: ColdRows | None = None,
        policy: MergePolicy | None = None,
        uploads: Uploads = one_by_one,
    ) -> None:
        self._store = store
        self._paths = paths
        self._entropy = entropy
        self._policy = policy if policy is not None else MergePolicy()
        self._segments = SegmentStore(store, paths, cold=cold, uploads=uploads)
        self._manifests = ManifestStore(store, paths)
        self._queue: ClosingQueue | None = None
        self._captured_seq = -1
        self._in_flight = False

    # --- on the engine's thread -------------------------------------------------------------------

    def capture(
        self, state: State, *, now: datetime, close_after: timedelta, max_rows: int
    ) -> PendingPublish | None:
        """Take what changed since the last capture; None if there is nothing to publish.

        Runs that ended `close_after` ago move to the closed tier as long as fewer than `max_rows`
        rows are written; what changed is always taken whole.
        """
        busy = changed_runs(state)
        queue = self._begin(state, busy)
        changes = {name: derived.changed(state, name) for name in state.tables}
        changed = {name: rows for name, rows in changes.items() if rows}
        budget = max_rows - sum(map(len, changed.values()))
        closing = queue.take(state, busy, before=now - close_after, budget=budget)
        if not changed and not closing and state.seq == self._captured_seq:
            return None
        for name, rows in changed.items():
            state.tables[name].dirty, state.tables[name].publishing = {}, rows
        queue.note(state, busy, now=now)
        previous, self._captured_seq = self._captured_seq, state.seq
        self._in_flight = True
        return PendingPublish(
            seq=state.seq,
            epoch=state.epoch,
            ts=state.ts,
            last_hash=state.last_hash,
            min_reader=state.min_reader,
            changed=changed,
            closing=closing,
            previous_seq=previous,
        )

    def next_closing(self, close_after: timedelta) -> datetime | None:
        """When the next run is due to move to the closed tier; None if none is over."""
        first = None if self._queue is None else self._queue.first
        return None if first is None else first + close_after

    def release(self, state: State, capture: PendingPublish) -> None:
        """The capture is published: forget what only readers still need.

        Call it between entries, and look keys up in the new manifest from then on.
        """
        queue = self._end(state)
        forget_history(state)
        queue.closed(capture.closing)
        busy = changed_runs(state)
        for run in capture.closing:
            # A run that changed meanwhile stays until that is published, and is closed again.
            if run.run_id not in busy:
                forget(state, run.rows)

    def restore(self, state: State, capture: PendingPublish) -> None:
        """The capture was certainly not published: its rows are waiting again."""
        queue = self._end(state)
        self._captured_seq = capture.previous_seq
        for name, changed in capture.changed.items():
            # What changed since the capture stands, and covers it.
            state.tables[name].dirty = changed | state.tables[name].dirty
        queue.put_back(capture.closing)

    def _begin(self, state: State, busy: Collection[str]) -> ClosingQueue:
        if self._in_flight or state.journal:
            raise Internal(
                "a capture was requested while another is active or an entry is open",
                remedy="release or restore the last capture, and capture between entries",
            )
        if self._queue is None:
            self._queue = ClosingQueue(state)
        for run_id in self._queue.visitors(state, busy):
            forget(state, rows_of(state, run_id))
        forget_history(state)
        return self._queue

    def _end(self, state: State) -> ClosingQueue:
        if self._queue is None or not self._in_flight:
            raise Internal("no capture is active", remedy="capture first")
        self._in_flight = False
        for table in state.tables.values():
            table.publishing = {}
        return self._queue

    # --- on the background thread -----------------------------------------------------------------

    def write(  # noqa: PLR0913 - a manifest has these parts
        self,
        capture: PendingPublish | None,
        current: Manifest,
        *,
        epoch: int,
        owner: str,
        nonce: str,
        ts: datetime,
        merges: Sequence[MergeResult] = (),
    ) -> Manifest:
        """Publish a capture, and the merges that are ready, as the manifest after `current`.

        Without a capture only the merges are published. Raises `Fenced` if another leader was
        first; `Unavailable` says whether it may have been published all the same.
        """
        tables = dict(current.tables)
        for result in merges:
            _apply_merge(tables, result, ts)
        new = replace(
            current,
            v=current.v + 1,
            epoch=epoch,
            owner=owner,
            nonce=nonce,
            ts=ts,
            fold_version=FOLD_VERSION,
            format=FORMAT,
            min_reader=max(current.min_reader, MIN_TABLE_READER),
            prev_hash=current.sha256,
            tables=tables,
        )
        if capture is not None:
            new = self._with_capture(new, capture)
        check_successor(current, new)
        return self._create(new)

    def _with_capture(self, new: Manifest, capture: PendingPublish) -> Manifest:
        staged = self._stage(new, capture)
        self._segments.put(staged)
        tables = new.tables
        for item in staged:
            known = tables.get(item.place.table, TableFiles()).files
            tables[item.place.table] = TableFiles(files=(*known, item.file))
        return replace(
            new,
            applied_seq=capture.seq,
            applied_epoch=capture.epoch,
            applied_ts=capture.ts,
            last_hash=capture.last_hash,
            min_leader=max(new.min_leader, capture.min_reader),
            min_servo=servo_of(max(new.min_leader, capture.min_reader)),
        )

    def _stage(self, new: Manifest, capture: PendingPublish) -> list[Staged]:
        staged: list[Staged] = []
        for (table, tier), change in changes_of(capture).items():
            place = FilePlacement(
                table=table,
                tier=tier,
                level=0,
                seq=capture.seq,
                nonce=new.nonce,
                written_at=new.ts,
            )
            staged.append(self._segments.stage(place, build(place, change, self._paths)))
        return staged

    def _create(self, new: Manifest) -> Manifest:
        _, sealed = encode(new)
        if self._manifests.create(sealed) is not None:
            raise Fenced(
                f"another leader published manifest {new.v}",
                remedy="nothing is lost; send the request to that leader",
            )
        return sealed

    # --- merging ----------------------------------------------------------------------------------

    def plan_merge(self, manifest: Manifest, in_flight: Collection[str] = ()) -> MergePlan | None:
        """The most urgent merge of files that no merge under way has; None if none is due."""
        return plan_merge(manifest, in_flight, self._policy)

    def merge(self, plan: MergePlan) -> MergeResult:
        """Perform a merge; the next `write` that is given its result puts it in place."""
        inputs = [fetch(self._store, file) for file in plan.inputs]
        segment = merge_files(plan, inputs)
        output = None if segment is None else self._store_merged(plan, segment)
        taken = frozenset([file.key for file in plan.inputs])
        return MergeResult(table=plan.table, tier=plan.tier, inputs=taken, output=output)

    def _store_merged(self, plan: MergePlan, segment: Segment) -> FileEntry:
        place = FilePlacement(
            table=plan.table,
            tier=plan.tier,
            level=level_for(segment.rows),
            seq=max(file.max_seq for file in plan.inputs),
            nonce=self._entropy.token_bytes(16).hex(),
            written_at=max(file.written_at for file in plan.inputs),
        )
        staged = self._segments.stage(place, segment)
        self._segments.put([staged])
        return staged.file


def _apply_merge(tables: dict[str, TableFiles], result: MergeResult, ts: datetime) -> None:
    """Put the result of a merge in the place of its inputs, if they are all still there."""
    files = tables.get(result.table, TableFiles()).files
    if not result.inputs <= {file.key for file in files}:
        return
    merged = () if result.output is None else (replace(result.output, written_at=ts),)
    left = tuple([file for file in files if file.key not in result.inputs])
    tables[result.table] = TableFiles(files=(*merged, *left))
