"""A workspace with a long past: any number of closed tasks, or of partitions, written in bulk.

Files are built and described by the code that publishes, a few large ones as merging would leave
them, and one manifest names them. There is no ledger behind it: a start reads none.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta

from msgspec.structs import replace

from benchmarks.leader import PATHS
from servo.core.events.tasks import TaskOutcome
from servo.core.manifest import TableFiles, Tier, encode, first_claim
from servo.core.retry import RetryRules
from servo.core.state.rows.assets import PartitionStatusRow
from servo.core.state.rows.automation import RunKeyRow
from servo.core.state.rows.execution import RunRow, TaskRow
from servo.core.state.rows.row import Row
from servo.core.state.states import RunState, RunTransitionReason, TaskState, TransitionReason
from servo.ports.object_store import ObjectStore
from servo.projection.files.manifest_store import ManifestStore
from servo.projection.files.segment_store import FilePlacement, SegmentStore, build, one_by_one
from servo.projection.publish.capture import TierChange
from servo.projection.publish.tiering import level_for
from servo.testing.builders import START, task_key

TASKS_PER_RUN = 1_000
ROWS_PER_FILE = 250_000
SEQ = 1_000_000
PARTITIONED = "ns/customers"
END = START + timedelta(hours=1)

Files = Iterable[Sequence[Row]]


def write_history(store: ObjectStore, tasks: int, partitions: int = 0) -> None:
    """Fill an empty store with a workspace of so many closed tasks and materialized partitions."""
    runs = range(-(-tasks // TASKS_PER_RUN))
    history: dict[str, Files] = {}
    if tasks:
        history["runs"] = [[_run(number) for number in runs]]
        history["run_key_index"] = [[_run_key(number) for number in runs]]
        history["tasks"] = _task_files(tasks)
    if partitions:
        history["partition_status"] = _partition_files(partitions)
    write_tables(store, history)


def write_tables(store: ObjectStore, history: Mapping[str, Files]) -> None:
    """Publish these rows in an empty store, as a workspace that did everything long ago."""
    tables = {name: _write(store, name, files) for name, files in history.items()}
    first = first_claim(identity="5a" * 32, owner="history", nonce="history", ts=END)
    claim = replace(
        first, applied_seq=SEQ, applied_epoch=1, applied_ts=END, last_hash="0" * 64, tables=tables
    )
    assert ManifestStore(store, PATHS).create(encode(claim)[1]) is None


def _write(store: ObjectStore, table: str, files: Files) -> TableFiles:
    segments = SegmentStore(store, PATHS, cold=None, uploads=one_by_one)
    written: list[TableFiles] = []
    for number, rows in enumerate(files):
        place = FilePlacement(
            table=table,
            tier=Tier.CLOSED,
            level=level_for(len(rows)),
            seq=SEQ,
            nonce=f"history-{number}",
            written_at=END,
        )
        change = TierChange()
        change.rows.extend(rows)
        staged = segments.stage(place, build(place, change, PATHS))
        segments.put([staged])
        written.append(TableFiles(files=(staged.file,)))
    return TableFiles(files=tuple([file for held in written for file in held.files]))


def _task_files(tasks: int) -> Iterator[list[TaskRow]]:
    for first in range(0, tasks, ROWS_PER_FILE):
        yield [_task(number) for number in range(first, min(first + ROWS_PER_FILE, tasks))]


def _partition_files(partitions: int) -> Iterator[list[PartitionStatusRow]]:
    for first in range(0, partitions, ROWS_PER_FILE):
        yield [_partition(n) for n in range(first, min(first + ROWS_PER_FILE, partitions))]


def partition_key(number: int) -> str:
    return f"customer=i:{number:08d}"


def _partition(number: int) -> PartitionStatusRow:
    made = f"exec-{number:012d}"
    return PartitionStatusRow(
        asset_key=PARTITIONED,
        partition_key=partition_key(number),
        last_materialization_id=made,
        last_materialization_run_id=run_id(number),
        last_materialization_at=END,
        last_materialization_seq=SEQ,
        last_materialization_code_version="1",
        last_output_uri=f"assets/{PARTITIONED}/{made}",
        last_attempt_run_id=run_id(number),
        last_attempt_at=END,
        last_attempt_outcome=TaskOutcome.SUCCEEDED,
        partition_values={"customer": str(number)},
        latest_floor=SEQ,
        row_version=SEQ,
    )


def run_id(number: int) -> str:
    return f"run_{number:08d}"


def _run(number: int) -> RunRow:
    return RunRow(
        run_id=run_id(number),
        run_key=f"key-{run_id(number)}",
        request_fingerprint="fp",
        state=RunState.SUCCEEDED,
        reason=RunTransitionReason.ALL_TASKS_SUCCEEDED,
        transitioned_at=END,
        created_at=START,
        started_at=START,
        finished_at=END,
        plan_fingerprint="plan",
        task_count=TASKS_PER_RUN,
        tasks_succeeded=TASKS_PER_RUN,
        row_version=SEQ,
    )


def _run_key(number: int) -> RunKeyRow:
    return RunKeyRow(
        run_key=f"key-{run_id(number)}",
        run_id=run_id(number),
        request_fingerprint="fp",
        created_at=START,
        row_version=SEQ,
    )


def _task(number: int) -> TaskRow:
    name = f"t{number % TASKS_PER_RUN:06d}"
    return TaskRow(
        run_id=run_id(number // TASKS_PER_RUN),
        task_key=task_key(name),
        state=TaskState.SUCCEEDED,
        reason=TransitionReason.EXECUTION_SUCCEEDED,
        transitioned_at=END,
        asset_key=f"ns/{name}",
        attempt=1,
        attempt_id=f"att_{number:026d}",
        exec_id=f"exec-{number:012d}",
        worker_id=f"worker-{number % 16}",
        fencing_token=number,
        retry=RetryRules(),
        ready_at=START,
        dispatched_at=START,
        started_at=START,
        finished_at=END,
        outcome=TaskOutcome.SUCCEEDED,
        materialization_id=f"exec-{number:012d}",
        row_version=SEQ,
    )
