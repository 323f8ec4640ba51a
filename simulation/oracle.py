"""The rules that must hold, checked while the world runs and once it is quiet.

The oracle reads the bucket itself, not the answers that processes got. It keeps the first content
ever written to each ledger slot, folds it in order, and compares everything with that: answers,
published projections, started executions.
"""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

from servo.core.events.codec import decode_batch, decode_entry
from servo.core.events.dispatch import LeaseExpired
from servo.core.events.envelope import Answer, Batch, Entry, Status
from servo.core.events.runs import PlanSegmentExpanded
from servo.core.events.tasks import TaskFinished
from servo.core.fold.apply import apply_batch, apply_entry, open_entry
from servo.core.ids import Digest
from servo.core.manifest import Manifest, Tier, decode
from servo.core.plan import parse_chunk
from servo.core.state import derived
from servo.core.state.rows.execution import RunRow
from servo.core.state.state import State, folded_tables
from servo.core.state.states import (
    TERMINAL_RUN_STATES,
    TERMINAL_TASK_STATES,
    OutboxStatus,
    TaskState,
)
from servo.errors import Corrupt, ServoError
from servo.leader.requests import Reply
from servo.ledger.paths import Paths, seq_of
from servo.projection.read.reader import Snapshot
from simulation import backfill_laws
from simulation.faults import Bucket, PlainStore
from simulation.kernel import Kernel, Violation
from simulation.laws import Law, RunKeyLaw
from simulation.slot_laws import SlotLaw
from simulation.told_law import ToldLaw

LEASE = timedelta(seconds=5)
LEASE_MS = LEASE // timedelta(milliseconds=1)
CHECK_EVERY = 4


class LedgerFold:
    """The fold of the ledger up to some entry, without evictions or snapshots."""

    def __init__(self, bucket: Bucket, paths: Paths) -> None:
        self.state = State(paths.tenant, paths.workspace)
        self._bucket = bucket
        self._paths = paths

    def apply(self, entry: Entry, digest: str) -> list[Answer]:
        for batch in entry.batches:
            self.load_segments(batch)
        return apply_entry(self.state, entry, digest)

    def load_segments(self, batch: Batch) -> None:
        for event in batch.events:
            if isinstance(event, PlanSegmentExpanded):
                data = self._bucket.kept[self._paths.plan(event.digest)]
                self.state.plan_segments[event.digest] = parse_chunk(
                    data, Digest(event.digest)
                ).tasks


class Oracle:
    """Watches the bucket and judges."""

    def __init__(self, kernel: Kernel, bucket: Bucket, paths: Paths) -> None:
        self.kernel = kernel
        self.bucket = bucket
        self.paths = paths
        self.slots: dict[int, tuple[Entry, str, bytes]] = {}
        self.live = LedgerFold(bucket, paths)
        self.published = LedgerFold(bucket, paths)
        self.acked: list[tuple[Batch, Answer]] = []
        self.granted: dict[str, str] = {}
        self.heard: dict[tuple[str, str], float] = {}
        self.woken: dict[str, datetime] = {}
        self.newest: Manifest | None = None
        self.named: frozenset[str] = frozenset()
        self.owners: set[str] = set()
        self.publishes = 0
        self.checked_files: dict[str, tuple[str, ...]] = {}
        self.told = ToldLaw()
        self.laws: list[Law] = [RunKeyLaw(), self.told, SlotLaw()]
        bucket.watchers.append(self._on_write)

    # --- while it runs ----------------------------------------------------------------------

    def _on_write(self, operation: str, key: str, data: bytes) -> None:
        if operation != "write":
            if key in self.named:
                raise Violation(f"{key} was deleted, but the newest manifest refers to it")
            return
        if key.startswith(self.paths.ledger_prefix):
            self._on_entry(seq_of(key), data)
        elif key.startswith(self.paths.manifest_prefix):
            self._on_manifest(decode(data, what=key))
        elif key.startswith(self.paths.inbox_prefix):
            self.told.delivered(decode_batch(data))  # a copy that no caller is told about

    def _on_entry(self, seq: int, data: bytes) -> None:
        entry, digest = decode_entry(data, what=f"entry {seq}")
        if entry.owner not in self.owners:
            raise Violation(f"entry {seq} is by a leader whose claim was never the newest manifest")
        if seq in self.slots:
            return  # collected, and filled again by a leader that slept: it must not count
        self.slots[seq] = (entry, digest, data)
        while (found := self.slots.get(self.live.state.seq + 1)) is not None:
            before = self.live.state.ts
            planned = backfill_laws.seen(self.live.state)
            try:
                answers = self.live.apply(found[0], found[1])
            except Corrupt as error:
                raise Violation(f"the ledger is broken: {error}") from error
            if found[0].ts <= before:
                raise Violation(f"time runs backwards at entry {found[0].seq}")
            self._check_expiry(found[0])
            backfill_laws.check_planned(self.live.state, planned)
            for law in self.laws:
                law.committed(found[0], answers, self.live.state)

    def judging(self, batch: Batch, tell: Callable[[Any], None]) -> Reply:
        """A copy of a batch reaches a leader: the callback that judges what is told about it."""
        self.told.delivered(batch)

        def reply(value: Answer | ServoError) -> None:
            if isinstance(value, Answer):
                self.acknowledged(batch, value)
            else:
                self.failed(batch, value)
            tell(value)

        return reply

    def failed(self, batch: Batch, error: ServoError) -> None:
        """A leader has just told an error instead of an answer."""
        self.kernel.note("error", batch.id, type(error).__name__)
        self.told.failed(batch, error)

    def acknowledged(self, batch: Batch, answer: Answer) -> None:
        """A leader has just answered a batch."""
        self.kernel.note("ack", batch.id, answer.status.value, answer.seq)
        self.acked.append((batch, answer))
        self.told.answered(batch, answer)
        if answer.status is Status.REJECTED:
            self._check_refusal(batch, answer)
        if answer.repeated or answer.status is Status.REJECTED:
            return
        if answer.status is Status.CONFLICT and not self._recorded(batch, answer.seq):
            return
        if not self._recorded(batch, answer.seq):
            raise Violation(f"acknowledged batch {batch.id} is not in ledger entry {answer.seq}")

    def _check_refusal(self, batch: Batch, answer: Answer) -> None:
        """The report of the execution that holds a task is never refused."""
        for event in batch.events:
            if isinstance(event, TaskFinished):
                row = self.live.state.tasks.rows.get((event.run_id, event.task_key))
                if row is None or row.state is not TaskState.RUNNING:
                    continue
                if (row.attempt_id, row.exec_id) == (event.attempt_id, event.exec_id):
                    raise Violation(f"a valid report was refused: {answer.reason}")

    def reported(self, row: RunRow) -> None:
        """A command has just told how a run ended: that must be durable."""
        self.kernel.note("reported", row.run_id, row.state)
        found = self.live.state.runs.rows.get(row.run_id)
        if found is None or found.state is not row.state:
            there = "nothing" if found is None else found.state
            raise Violation(
                f"{row.run_id} was reported as {row.state}, but the ledger says {there}"
            )

    def believed(self, owner: str, seq: int) -> None:
        """A leader continues, believing that entry `seq` is its own."""
        found = self.slots.get(seq)
        if found is None or found[0].owner != owner:
            raise Violation(f"a leader believes that it wrote entry {seq}, but it did not")

    def beat_acknowledged(self, attempt_id: str, exec_id: str) -> None:
        """A leader has just told an execution to continue."""
        self.heard[attempt_id, exec_id] = self.kernel.ms

    def woke_up(self, owner: str, term_time: datetime) -> None:
        """A leader that was stopped for longer than it takes to notice goes on.

        `term_time` is the time of its term, which entries carry; its wall clock may differ.
        """
        self.woken[owner] = term_time

    def _check_expiry(self, entry: Entry) -> None:
        """No execution is given up right after it was told to continue, or without a leader."""
        woken = self.woken.get(entry.owner)
        for batch in entry.batches:
            for event in batch.events:
                if isinstance(event, LeaseExpired):
                    last = self.heard.get((event.attempt_id, event.exec_id))
                    if last is not None and self.kernel.ms - last < LEASE_MS / 3:
                        raise Violation(
                            f"{event.attempt_id} was given up {self.kernel.ms - last:.0f} ms "
                            f"after it was told to continue"
                        )
                    if woken is not None and timedelta(0) <= entry.ts - woken < LEASE:
                        raise Violation(
                            f"{event.attempt_id} was given up {entry.ts - woken} after its leader "
                            f"woke up"
                        )

    def _recorded(self, batch: Batch, seq: int) -> bool:
        found = self.slots.get(seq)
        return found is not None and any(kept.id == batch.id for kept in found[0].batches)

    def given_back(self, attempt_id: str, exec_id: str) -> None:
        """An execution was granted but does not begin."""
        self.kernel.note("given back", attempt_id, exec_id)
        self._granted(attempt_id, exec_id)

    def _granted(self, attempt_id: str, exec_id: str) -> None:
        other = self.granted.setdefault(attempt_id, exec_id)
        if other != exec_id:
            raise Violation(f"two executions of {attempt_id}: {other} and {exec_id}")

    def started(self, attempt_id: str, exec_id: str, run_id: str, task_key: str) -> None:
        """User code of an attempt begins to run."""
        self.kernel.note("run", attempt_id, exec_id)
        self.beat_acknowledged(attempt_id, exec_id)
        self._granted(attempt_id, exec_id)
        state = self.live.state
        for edge in state.edges.values():
            if edge.run_id == run_id and edge.downstream_task_key == task_key:
                above = state.tasks.rows[run_id, edge.upstream_task_key]
                if above.state is not TaskState.SUCCEEDED:
                    raise Violation(f"{task_key} started before {above.task_key} succeeded")

    def _on_manifest(self, manifest: Manifest) -> None:
        newest = self.newest
        if newest is not None and manifest.v <= newest.v:
            return
        if newest is not None:
            if manifest.v != newest.v + 1:
                raise Violation(f"manifest {manifest.v} follows {newest.v}")
            if manifest.applied_seq < newest.applied_seq or manifest.epoch < newest.epoch:
                raise Violation(f"manifest {manifest.v} applies an older entry")
        self.newest = manifest
        self.named = frozenset(
            file.key
            for name in manifest.tables
            for tier in Tier
            for file in manifest.files(name, tier)
        )
        self.owners.add(manifest.owner)
        if manifest.v % CHECK_EVERY == self.kernel.seed % CHECK_EVERY:
            self._check_projection(manifest)

    def _check_projection(self, manifest: Manifest) -> None:
        """What was published is the fold of the ledger, row for row, read from real Parquet."""
        self.publishes += 1
        while self.published.state.seq < manifest.applied_seq:
            entry, digest, _ = self.slots[self.published.state.seq + 1]
            self.published.apply(entry, digest)
        snapshot = Snapshot(PlainStore(self.bucket), manifest)
        state = self.published.state
        changed = [name for name in folded_tables() if derived.changed(state, name)]
        for name in folded_tables():
            files = tuple(file.key for tier in Tier for file in manifest.files(name, tier))
            unchanged = self.checked_files.get(name) == files and name not in changed
            state.tables[name].dirty.clear()
            if unchanged:
                continue
            self.checked_files[name] = files
            expected = derived.rows(state, name)
            self._compare(name, expected, snapshot.rows(name), f"manifest {manifest.v}")

    def _compare(self, name: str, held: Iterable[Any], rows: Iterable[Any], what: str) -> None:
        key_of = self.live.state.tables[name].spec.key_of
        expected, found = [{key_of(row): row for row in side} for side in (held, rows)]
        if found == expected:
            return
        for key in (*expected, *found):
            if expected.get(key) != found.get(key):
                raise Violation(
                    f"{name}[{key}] in {what}: {_difference(expected.get(key), found.get(key))}"
                )

    # --- once it is quiet -------------------------------------------------------------------

    def unfinished(self) -> list[str]:
        """What should have ended but has not."""
        state = self.live.state
        open_runs = [
            f"run {run.run_id} {run.state}"
            for run in state.runs.values()
            if run.state not in TERMINAL_RUN_STATES
        ]
        open_tasks = [
            f"task {row.run_id} {row.task_key} {row.state} attempt {row.attempt}"
            for row in state.tasks.values()
            if row.state not in TERMINAL_TASK_STATES
        ]
        backfills = [
            f"backfill {row.backfill_id} {row.state}"
            for row in state.backfills.values()
            if row.finished_at is None
        ]
        parked = [f"parked {batch}" for batch in state.parked.rows]
        others = [left for law in self.laws for left in law.unfinished(state)]
        return [*open_runs, *open_tasks, *backfills, *parked, *others]

    def final(self) -> None:
        """Everything that must hold when the world is quiet."""
        if left := self.unfinished():
            raise Violation(f"not finished: {left[:5]}")
        if self.newest is not None:
            self._check_projection(self.newest)
        self._check_counters()
        backfill_laws.check_ended(self.live.state)
        for law in self.laws:
            law.ended(self.live.state)
        self._check_answers()
        self._check_outbox()
        self._check_promotions()
        self._check_doubled()

    def _check_counters(self) -> None:
        state = self.live.state
        for run in state.runs.values():
            rows = [
                state.tasks.rows[run.run_id, k] for k in state.index.run_tasks.get(run.run_id, ())
            ]
            counts = {kind: sum(row.state is kind for row in rows) for kind in TERMINAL_TASK_STATES}
            unborn = run.task_count - len(rows)
            expected = (
                counts[TaskState.SUCCEEDED],
                counts[TaskState.FAILED],
                counts[TaskState.SKIPPED],
                counts[TaskState.CANCELLED] + unborn,
            )
            actual = (
                run.tasks_succeeded,
                run.tasks_failed,
                run.tasks_skipped,
                run.tasks_cancelled,
            )
            if actual != expected:
                raise Violation(f"run {run.run_id} counts {actual}, but its tasks give {expected}")

    def _check_answers(self) -> None:
        """A repeated request gets the same answer."""
        state = self.live.state
        for batch, answer in self.acked:
            if answer.status not in (Status.APPLIED, Status.CONFLICT) or not batch.request_id:
                continue
            again = self.ask(state, batch)
            if (again.status, again.data) != (answer.status, answer.data):
                raise Violation(f"{batch.id} was answered {answer}, and now {again}")

    def ask(self, state: State, batch: Batch) -> Answer:
        """The answer the fold would give to a batch now; the state does not change."""
        before = (state.seq, state.epoch, state.ts)
        open_entry(state, seq=state.seq + 1, epoch=state.epoch, ts=state.ts, stall=False)
        answer = apply_batch(state, batch, 0)
        state.rollback(0)
        state.seq, state.epoch, state.ts = before
        return answer

    def _check_outbox(self) -> None:
        pending = [r for r in self.live.state.outbox.values() if r.status is OutboxStatus.PENDING]
        over = self.live.state.runs.rows
        stuck = [r for r in pending if over[r.run_id].state not in TERMINAL_RUN_STATES]
        if stuck:
            raise Violation(f"never sent: {stuck[0].dispatch_id}")

    def _check_promotions(self) -> None:
        """The data of an asset comes from the execution that was granted."""
        for row in self.live.state.tasks.values():
            ran = self.granted.get(row.attempt_id)
            if row.state is TaskState.SUCCEEDED and ran != row.exec_id:
                raise Violation(f"{row.task_key} was finished by {row.exec_id}, which never ran")

    def _check_doubled(self) -> None:
        """The ledger with every batch twice folds to the same rows."""
        once, twice = LedgerFold(self.bucket, self.paths), LedgerFold(self.bucket, self.paths)
        for seq in sorted(self.slots):
            entry, digest, _ = self.slots[seq]
            once.apply(entry, digest)
            self._apply_doubled(twice, entry, digest)
        for name in folded_tables():
            self._compare(
                name,
                derived.rows(once.state, name),
                derived.rows(twice.state, name),
                "the doubled ledger",
            )

    def _apply_doubled(self, replay: LedgerFold, entry: Entry, digest: str) -> None:
        state = replay.state
        replay.apply(entry, digest)
        if entry.epoch < state.epoch:
            return
        for batch in entry.batches:
            mark = len(state.journal)
            apply_batch(state, batch, 10_000)
            if len(state.journal) > mark and not self._only_renews(state, mark):
                raise Violation(f"batch {batch.id} of entry {entry.seq} applied twice")
            state.rollback(mark)

    @staticmethod
    def _only_renews(state: State, mark: int) -> bool:
        """A repeated claim renews a lease; no other repetition changes anything."""
        tables = {table.spec.name for table, _, _, _ in state.journal[mark:]}
        return tables <= {"tasks", "ledger_index"}


def _difference(expected: Any, found: Any) -> str:
    """Where two rows differ, in few words."""
    if expected is None or found is None:
        return "it should be there" if found is None else "it should not exist"
    return ", ".join(
        f"{name} is {getattr(found, name)!r} but should be {getattr(expected, name)!r}"
        for name in expected.__struct_fields__
        if getattr(found, name) != getattr(expected, name)
    )
