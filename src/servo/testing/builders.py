"""A workspace in memory, driven by hand: for tests of the fold and of what reads it.

`Story` keeps the ledger it writes, so that any test can fold it again, cut it, or double it.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from servo.core.events.codec import encode_entry, encode_judged
from servo.core.events.dispatch import DispatchRequested, Handover
from servo.core.events.envelope import Answer, Batch, Entry, Event
from servo.core.events.runs import PlanCreated, RunRequested
from servo.core.events.tasks import CommittedOutput, TaskFinished, TaskOutcome, TaskStarted
from servo.core.fold.apply import judge_batch, open_entry
from servo.core.fold.limits import FOLD_VERSION
from servo.core.ids import TaskKeyStr
from servo.core.plan import TaskSpec
from servo.core.state import derived
from servo.core.state.rows.execution import RunRow, TaskRow
from servo.core.state.state import State
from servo.core.state.tables import Residency

START = datetime(2026, 1, 1, tzinfo=UTC)


def task_key(name: str) -> TaskKeyStr:
    """The task key of the asset `ns/name`."""
    return TaskKeyStr(f"ns/{name}:materialize")


def specs(dag: Mapping[str, Sequence[str]], **fields: Any) -> tuple[TaskSpec, ...]:
    """Task specifications of a graph given as name → upstream names, in the order given."""
    return tuple(
        TaskSpec(
            task_key=task_key(name),
            asset_key=f"ns/{name}",
            upstream=tuple(task_key(above) for above in upstream),
            **fields,
        )
        for name, upstream in dag.items()
    )


class Story:
    """A workspace that a test tells event by event. Time passes only when told to."""

    def __init__(self, tenant: str = "acme", workspace: str = "prod") -> None:
        self.state = State(tenant, workspace)
        self.now = START
        self.entries: list[tuple[Entry, bytes, str]] = []
        self._batches = 0

    def wait(self, **duration: float) -> None:
        """Let time pass: keyword arguments as of `timedelta`."""
        self.now += timedelta(**duration)

    def batch(self, *events: Event, **fields: Any) -> Batch:
        self._batches += 1
        values: dict[str, Any] = {"id": f"batch-{self._batches}", "events": events, **fields}
        return Batch(**values)

    def tell(self, *events: Event, **fields: Any) -> Answer:
        """Commit one batch in an entry of its own."""
        return self.commit(self.batch(*events, **fields))[0]

    def commit(
        self, *batches: Batch, epoch: int | None = None, stall: bool = False
    ) -> list[Answer]:
        """Commit batches in one entry, as a leader does: what changes nothing is not written."""
        state = self.state
        ts = max(self.now, state.ts + timedelta(microseconds=1))
        before = (state.seq, state.epoch, state.ts)
        number = max(state.epoch, 1) if epoch is None else epoch
        open_entry(state, seq=state.seq + 1, epoch=number, ts=ts, stall=stall)
        kept: list[Batch] = []
        answers: list[Answer] = []
        for batch in batches:
            mark = len(state.journal)
            first = sum(len(one.events) for one in kept)
            answer, judged = judge_batch(state, batch, len(kept), first)
            answers.append(answer)
            if len(state.journal) > mark:
                kept.append(judged)
        if not state.journal and batches:
            state.seq, state.epoch, state.ts = before
            return answers
        self._append(kept, ts=ts, epoch=number, stall=stall)
        return answers

    def _append(self, batches: Sequence[Batch], *, ts: datetime, epoch: int, stall: bool) -> None:
        entry = Entry(
            seq=self.state.seq,
            epoch=epoch,
            owner=f"owner-{epoch}",
            nonce=f"nonce-{self.state.seq}",
            ts=ts,
            prev_hash=self.state.last_hash,
            fold_version=FOLD_VERSION,
            stall=stall,
            batches=tuple(batches),
        )
        data, digest = encode_entry(entry, [encode_judged(batch) for batch in batches])
        self.entries.append((entry, data, digest))
        self.state.seal()
        self.state.last_hash = digest

    # --- the usual steps --------------------------------------------------------------------

    def request(self, run_id: str = "run_1", **fields: Any) -> Answer:
        values: dict[str, Any] = {"run_key": f"key-{run_id}", "request_fingerprint": "fp", **fields}
        return self.tell(RunRequested(run_id=run_id, **values))

    def plan(
        self, dag: Mapping[str, Sequence[str]], run_id: str = "run_1", **fields: Any
    ) -> Answer:
        """Request a run of this graph and plan it, in one batch."""
        request = RunRequested(run_id=run_id, run_key=f"key-{run_id}", request_fingerprint="fp")
        plan = PlanCreated(run_id=run_id, fingerprint="plan", tasks=specs(dag, **fields))
        return self.tell(request, plan)

    def dispatch(self, name: str, run_id: str = "run_1", **fields: Any) -> Answer:
        attempt = self.task(name, run_id).attempt + 1
        values: dict[str, Any] = {"attempt": attempt, **fields}
        return self.tell(DispatchRequested(run_id=run_id, task_key=task_key(name), **values))

    def start(self, name: str, run_id: str = "run_1", exec_id: str = "") -> Answer:
        """Dispatch a ready task through the outbox and claim it."""
        self.dispatch(name, run_id)
        return self.claim(name, run_id, exec_id)

    def claim(self, name: str, run_id: str = "run_1", exec_id: str = "") -> Answer:
        row = self.task(name, run_id)
        return self.tell(
            TaskStarted(
                run_id=run_id,
                task_key=row.task_key,
                attempt_id=row.attempt_id,
                exec_id=exec_id or f"exec-{name}-{row.attempt}",
                worker_id="worker",
            )
        )

    def finished(
        self,
        name: str,
        outcome: TaskOutcome = TaskOutcome.SUCCEEDED,
        run_id: str = "run_1",
        **fields: Any,
    ) -> TaskFinished:
        """The report of the execution that holds a task now."""
        row = self.task(name, run_id)
        made = outcome is TaskOutcome.SUCCEEDED
        values: dict[str, Any] = {
            "attempt_id": row.attempt_id,
            "exec_id": row.exec_id,
            "output": CommittedOutput(materialization_id=row.exec_id, uri="mem") if made else None,
            **fields,
        }
        return TaskFinished(run_id=run_id, task_key=row.task_key, outcome=outcome, **values)

    def finish(
        self,
        name: str,
        outcome: TaskOutcome = TaskOutcome.SUCCEEDED,
        run_id: str = "run_1",
        **fields: Any,
    ) -> Answer:
        return self.tell(self.finished(name, outcome, run_id, **fields))

    def execute(
        self, name: str, outcome: TaskOutcome = TaskOutcome.SUCCEEDED, run_id: str = "run_1"
    ) -> Answer:
        """Take a ready task from dispatch to its end."""
        row = self.task(name, run_id)
        handover = Handover(exec_id=f"exec-{name}-{row.attempt + 1}", worker_id="worker")
        self.dispatch(name, run_id, handover=handover)
        return self.finish(name, outcome, run_id)

    # --- looking ----------------------------------------------------------------------------

    def task(self, name: str, run_id: str = "run_1") -> TaskRow:
        return self.state.tasks.rows[run_id, task_key(name)]

    def run(self, run_id: str = "run_1") -> RunRow:
        return self.state.runs.rows[run_id]

    def states(self, run_id: str = "run_1") -> dict[str, str]:
        """Task states by asset name."""
        return {
            key[1].removeprefix("ns/").removesuffix(":materialize"): row.state.value
            for key, row in self.state.tasks.rows.items()
            if key[0] == run_id
        }


def dump(state: State) -> dict[str, dict[Any, Any]]:
    """Every folded row by table and key, for whole-value comparison."""
    return {
        name: {table.spec.key_of(row): row for row in derived.rows(state, name)}
        for name, table in state.tables.items()
        if table.spec.residency is not Residency.VOLATILE
    }


def content(state: State) -> dict[str, dict[Any, Any]]:
    """Every folded row but those that only say which batches there were."""
    rows = dump(state)
    return {name: rows[name] for name in rows if name not in ("ledger_index", "idempotency_keys")}


def forget_versions(rows: dict[str, dict[Any, Any]]) -> dict[str, dict[Any, Any]]:
    """The same rows without what depends only on where in the ledger they were changed."""
    return {
        name: {key: replace(row, row_version=0) for key, row in table.items()}
        for name, table in rows.items()
    }
