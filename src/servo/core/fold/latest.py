"""Which output of an asset is the latest, and how its attempts ended.

Accepting a success promotes its output, in the order of the ledger: the latest output is that of
the last accepted success. An output in quarantine does not change the latest. When it is approved,
it becomes the latest only if there is no newer one, so a late decision cannot replace new data with
old. Attempts and materializations are kept apart: a failure leaves the data as it was.

`promote` and `record_attempt` run for every attempt that ends, so they build rows and nothing else.
"""

from datetime import datetime

from msgspec.structs import replace

from servo.core.events.tasks import CommittedOutput, Gate, TaskCost, TaskFinished, TaskOutcome
from servo.core.fold.context import Rejected
from servo.core.keys import TaskOperation
from servo.core.partitions import PartitionKey
from servo.core.state import derived
from servo.core.state.rows.assets import AssetRow, MaterializationRow, PartitionStatusRow
from servo.core.state.rows.execution import TaskCostRow, TaskRow
from servo.core.state.state import State
from servo.errors import Invalid

_NO_OUTPUT = CommittedOutput(materialization_id="")

# Named once: finding a member in its enumeration takes longer than replacing a small row.
_CHECK = TaskOperation.CHECK
_OBSERVE = TaskOperation.OBSERVE
_SUCCEEDED = TaskOutcome.SUCCEEDED
_FAILED = TaskOutcome.FAILED
_TIMED_OUT = TaskOutcome.TIMED_OUT
_QUARANTINED = Gate.QUARANTINED

_ASSETS = "unplanned_output: the task does not materialize this asset, or reports it twice"
_PARTITIONS = "unplanned_output: the task does not materialize this partition, or reports it twice"


def promote(state: State, task: TaskRow, event: TaskFinished, index: int | None = None) -> None:
    """Record what an accepted success produced and make it the latest, unless it is held back."""
    if task.operation is _OBSERVE and task.asset_key:
        _observed(state, task, event.output or _NO_OUTPUT)
    elif _produces(task):
        for output in event.outputs or (event.output or _NO_OUTPUT,):
            made = _materialization(state, task, event, output, index)
            put_made(state, made)
            if task.also_partitions and not output.partition_key:
                _put_others(state, task, made)


def put_made(state: State, made: MaterializationRow) -> None:
    """Record an output, and update its asset and its partition."""
    state.materializations.put(made.materialization_id, made)
    asset = asset_of(state, made.asset_key)
    asset = _with_latest(state, asset, made) if made.promoted else _with_held(state, asset, made)
    state.assets.put(made.asset_key, asset)
    if made.partition_key is not None:
        row = partition_of(state, made.asset_key, made.partition_key)
        if made.promoted:
            row = _with_latest_partition(state, row, made)
            state.partitions.put((made.asset_key, made.partition_key), row)
        else:
            _put_attempt(state, row, made.run_id, _SUCCEEDED)


def _put_others(state: State, task: TaskRow, made: MaterializationRow) -> None:
    """Record the other partitions of an output that covers all partitions of its task."""
    for number, partition_key in enumerate(task.also_partitions, 1):
        name = f"{made.materialization_id}.{number}"
        put_made(state, replace(made, materialization_id=name, partition_key=partition_key))


def partitions_of(task: TaskRow) -> tuple[str, ...]:
    """The partitions that a task materializes; none for an asset without partitions."""
    return () if task.partition_key is None else (task.partition_key, *task.also_partitions)


def check_outputs(task: TaskRow, outputs: tuple[CommittedOutput, ...]) -> None:
    """Refuse outputs that the task does not materialize, or that have no id of their own."""
    planned = {task.asset_key, *task.also_makes}
    keys = [output.asset_key or task.asset_key for output in outputs]
    if task.also_partitions:
        _check_partitions(task, outputs)
    elif any(output.partition_key not in ("", task.partition_key) for output in outputs):
        raise Rejected(_PARTITIONS)
    elif len(set(keys)) < len(keys):
        raise Rejected(_ASSETS)
    if not planned.issuperset(keys):
        raise Rejected(_ASSETS)
    ids = {output.materialization_id for output in outputs}
    if "" in ids or len(ids) < len(outputs):
        raise Rejected(
            "unplanned_output: each of several outputs needs a materialization id of its own"
        )


def _check_partitions(task: TaskRow, outputs: tuple[CommittedOutput, ...]) -> None:
    """Refuse outputs of partitions that the task does not materialize, and duplicates."""
    planned = {"", *partitions_of(task)}
    places = [(out.asset_key or task.asset_key, out.partition_key) for out in outputs]
    whole = {asset for asset, partition in places if not partition}
    twice = len(set(places)) < len(places) or any(p and a in whole for a, p in places)
    if twice or not planned.issuperset(partition for _, partition in places):
        raise Rejected(_PARTITIONS)


def record_attempt(state: State, task: TaskRow, outcome: TaskOutcome) -> None:
    """Record an attempt that ended without a success; whatever was materialized stays so.

    Only what user code did counts as a failure of the asset: not a lost worker, not a cancel.
    """
    if not _produces(task):
        return
    for key in (task.asset_key, *task.also_makes):
        if outcome is _FAILED or outcome is _TIMED_OUT:
            asset = asset_of(state, key)
            failed = replace(
                asset,
                last_failure_at=state.ts,
                consecutive_failures=asset.consecutive_failures + 1,
                row_version=state.seq,
            )
            state.assets.put(key, failed)
        for partition_key in partitions_of(task):
            row = partition_of(state, key, partition_key)
            _put_attempt(state, row, task.run_id, outcome)


def record_cost(state: State, task: TaskRow, cost: TaskCost) -> None:
    """Record what the current attempt of a task used."""
    row = TaskCostRow(
        run_id=task.run_id,
        task_key=task.task_key,
        attempt=task.attempt,
        cpu_ms=cost.cpu_ms,
        wall_ms=cost.wall_ms,
        peak_memory_bytes=cost.peak_memory_bytes,
        bytes_read=cost.bytes_read,
        bytes_written=cost.bytes_written,
        recorded_at=state.ts,
        row_version=state.seq,
    )
    state.task_costs.put((task.run_id, task.task_key, task.attempt), row)


def release(state: State, made: MaterializationRow) -> bool:
    """Make an output that leaves quarantine the latest if it is the newest; whether it was.

    It was recorded with its asset and its partition, so their rows exist.
    """
    asset = state.assets.rows[made.asset_key]
    if made.partition_key is None:
        if made.created_seq <= asset.latest_floor:
            return False
    else:
        row = partition_of(state, made.asset_key, made.partition_key)
        if made.created_seq <= row.latest_floor:
            return False
        _release_partition(state, row, made)
    latest = replace(
        _with_latest(state, asset, made),
        last_success_at=asset.last_success_at,
        consecutive_failures=asset.consecutive_failures,
        last_gating_decision=asset.last_gating_decision,
    )
    state.assets.put(made.asset_key, latest)
    return True


def _release_partition(state: State, row: PartitionStatusRow, made: MaterializationRow) -> None:
    latest = replace(
        _with_latest_partition(state, row, made),
        last_attempt_run_id=row.last_attempt_run_id,
        last_attempt_at=row.last_attempt_at,
        last_attempt_outcome=row.last_attempt_outcome,
    )
    state.partitions.put((row.asset_key, row.partition_key), latest)


def wipe(state: State, asset: AssetRow) -> None:
    """Let nothing produced so far be the latest of an asset, nor of any of its partitions.

    Partitions that this very entry changed are written: their version cannot tell whether that
    was before. All others are told by their version, and nothing is done to them here.
    """
    here = [key for table, key, _, _ in state.journal if table is state.partitions]
    for key in dict.fromkeys(here):
        if key[0] == asset.asset_key:
            forget_latest_partition(state, state.partitions.rows[key])
    forget_latest(state, replace(asset, wiped_seq=state.seq))


def forget_latest(state: State, asset: AssetRow) -> None:
    """Let nothing produced so far be the latest of an asset."""
    row = replace(
        asset,
        last_materialization_id=None,
        last_materialization_at=None,
        last_materialization_seq=None,
        last_materialization_run_id=None,
        last_partition_key=None,
        last_output_uri="",
        last_content_hash="",
        last_data_version="",
        latest_floor=state.seq,
        row_version=state.seq,
    )
    state.assets.put(asset.asset_key, row)


def forget_latest_partition(state: State, row: PartitionStatusRow) -> None:
    """Let nothing produced so far be the latest of a partition."""
    state.partitions.put((row.asset_key, row.partition_key), derived.wiped(row, state.seq))


def asset_of(state: State, asset_key: str) -> AssetRow:
    """The row of an asset; a new one if it does something before a deployment defines it."""
    row = state.assets.rows.get(asset_key)
    return AssetRow(asset_key=asset_key, row_version=state.seq) if row is None else row


def partition_of(state: State, asset_key: str, partition_key: str) -> PartitionStatusRow:
    """The row of a partition as it is after the last wipe of its asset, or a new one."""
    row = state.partitions.rows.get((asset_key, partition_key))
    if row is not None:
        return derived.partition_status(state, row)
    return PartitionStatusRow(
        asset_key=asset_key,
        partition_key=partition_key,
        partition_values=_values(partition_key),
        row_version=state.seq,
    )


def _produces(task: TaskRow) -> bool:
    operation = task.operation
    return task.asset_key != "" and operation is not _CHECK and operation is not _OBSERVE


def _materialization(
    state: State, task: TaskRow, event: TaskFinished, output: CommittedOutput, index: int | None
) -> MaterializationRow:
    return MaterializationRow(
        materialization_id=output.materialization_id or event.exec_id,
        asset_key=output.asset_key or task.asset_key,
        partition_key=output.partition_key or task.partition_key,
        run_id=task.run_id,
        task_key=task.task_key,
        attempt=task.attempt,
        exec_id=event.exec_id,
        output_uri=output.uri,
        output_format=output.format,
        row_count=output.row_count,
        byte_size=output.byte_size,
        schema_hash=output.schema_hash,
        content_hash=output.content_hash,
        data_version=output.data_version,
        code_version=event.code_version or task.code_version,
        gating_decision=output.gate,
        promoted=output.gate is not _QUARANTINED,
        metadata=output.metadata,
        created_at=state.ts,
        created_seq=state.seq,
        created_index=index,
        row_version=state.seq,
    )


def _observed(state: State, task: TaskRow, output: CommittedOutput) -> None:
    """Record what a task saw of an asset that something else produces."""
    observe(state, task.asset_key, task.partition_key, output.data_version, state.ts)


def observe(
    state: State, asset_key: str, partition_key: str | None, version: str, seen: datetime
) -> None:
    """Note that an asset was seen at a version."""
    asset = asset_of(state, asset_key)
    asset = replace(
        asset,
        last_observed_at=seen,
        last_data_version=version,
        data_changed_seq=_changed(state, asset, version),
        row_version=state.seq,
    )
    state.assets.put(asset_key, asset)
    if partition_key is not None:
        row = partition_of(state, asset_key, partition_key)
        row = replace(
            row,
            last_data_version=version,
            last_observed_at=seen,
            data_changed_seq=_changed(state, row, version),
            row_version=state.seq,
        )
        state.partitions.put((asset_key, partition_key), row)


def _changed(state: State, row: AssetRow | PartitionStatusRow, version: str) -> int:
    """The entry that last brought data of another version, after one that brought this one."""
    same = version != "" and version == row.last_data_version
    return row.data_changed_seq if same else state.seq


def _with_latest(state: State, asset: AssetRow, made: MaterializationRow) -> AssetRow:
    """The row of an asset after a success that made its latest output."""
    return replace(
        asset,
        last_materialization_id=made.materialization_id,
        last_materialization_at=made.created_at,
        last_materialization_seq=state.seq,
        last_materialization_run_id=made.run_id,
        last_partition_key=made.partition_key,
        last_output_uri=made.output_uri,
        last_content_hash=made.content_hash,
        last_data_version=made.data_version,
        data_changed_seq=_changed(state, asset, made.data_version),
        latest_floor=made.created_seq,
        last_success_at=state.ts,
        consecutive_failures=0,
        last_gating_decision=made.gating_decision,
        row_version=state.seq,
    )


def _with_held(state: State, asset: AssetRow, made: MaterializationRow) -> AssetRow:
    """The row of an asset after a success whose output is held back."""
    return replace(
        asset,
        last_success_at=state.ts,
        consecutive_failures=0,
        last_gating_decision=made.gating_decision,
        row_version=state.seq,
    )


def _with_latest_partition(
    state: State, row: PartitionStatusRow, made: MaterializationRow
) -> PartitionStatusRow:
    """The row of a partition after a success that made its latest output."""
    return replace(
        row,
        last_materialization_id=made.materialization_id,
        last_materialization_run_id=made.run_id,
        last_materialization_at=made.created_at,
        last_materialization_seq=state.seq,
        last_materialization_code_version=made.code_version,
        last_output_uri=made.output_uri,
        last_content_hash=made.content_hash,
        last_data_version=made.data_version,
        data_changed_seq=_changed(state, row, made.data_version),
        last_attempt_run_id=made.run_id,
        last_attempt_at=state.ts,
        last_attempt_outcome=_SUCCEEDED,
        stale_since=None,
        stale_reason_code=None,
        latest_floor=made.created_seq,
        row_version=state.seq,
    )


def _put_attempt(state: State, row: PartitionStatusRow, run_id: str, outcome: TaskOutcome) -> None:
    row = replace(
        row,
        last_attempt_run_id=run_id,
        last_attempt_at=state.ts,
        last_attempt_outcome=outcome,
        row_version=state.seq,
    )
    state.partitions.put((row.asset_key, row.partition_key), row)


def _values(partition_key: str) -> dict[str, str]:
    """The values by dimension for people to filter by; none of a key that is not canonical."""
    try:
        key = PartitionKey.parse(partition_key)
    except Invalid:
        return {}
    values = key.values()
    if len(values) == 1:
        return {name: key.display() for name in values}
    return {name: PartitionKey.of({name: value}).display() for name, value in values.items()}
