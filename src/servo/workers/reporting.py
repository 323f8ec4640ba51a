"""What a worker reports of an execution: its checks and its end, in one batch."""

from servo.core.events.assets import AssetObserved, AssetReported, CheckEvaluated
from servo.core.events.envelope import Batch
from servo.core.events.tasks import TaskFinished
from servo.core.fold.latest import partitions_of
from servo.core.state.rows.execution import TaskRow
from servo.leader.assignments import Assignment, TaskResult


def report_of(granted: Assignment | TaskRow, done: TaskResult, *, actor: str) -> Batch:
    """The batch that records how an execution ended."""
    partition = _partition_of(granted)
    made = "" if done.output is None else done.output.materialization_id
    checks = [
        CheckEvaluated(
            run_id=granted.run_id,
            task_key=granted.task_key,
            attempt_id=granted.attempt_id,
            exec_id=granted.exec_id,
            asset_key=check.asset_key or granted.asset_key,
            check_name=check.name,
            partition_key=partition,
            passed=check.passed,
            severity=check.severity,
            blocking=check.blocking,
            message=check.message,
            metadata=check.metadata,
            materialization_id=check.materialization_id or made,
        )
        for check in done.checks
    ]
    reports = [_report(granted, done, number) for number in range(len(done.reported))]
    finished = TaskFinished(
        run_id=granted.run_id,
        task_key=granted.task_key,
        attempt_id=granted.attempt_id,
        exec_id=granted.exec_id,
        outcome=done.outcome,
        output=done.output,
        outputs=done.outputs,
        error=done.error,
        cost=done.cost,
        retry_after_ms=done.retry_after_ms,
        code_version=done.code_version,
        log=done.log,
    )
    events = (*checks, *reports, finished)
    return Batch(id=f"done-{granted.exec_id}", events=events, actor=actor)


def _partition_of(granted: Assignment | TaskRow) -> str | None:
    """The partition of an execution, if it has exactly one."""
    if isinstance(granted, Assignment):
        return granted.only_partition
    partitions = partitions_of(granted)
    return partitions[0] if len(partitions) == 1 else None


def _report(
    granted: Assignment | TaskRow, done: TaskResult, number: int
) -> AssetReported | AssetObserved:
    """The event for a report on an asset that the code does not define."""
    told = done.reported[number]
    if told.seen:
        return AssetObserved(
            asset_key=told.asset_key,
            partition_key=told.partition,
            data_version=told.data_version,
            metadata=told.metadata,
        )
    return AssetReported(
        asset_key=told.asset_key,
        materialization_id=f"{granted.exec_id}.r{number}",
        partition_key=told.partition,
        data_version=told.data_version,
        metadata=told.metadata,
        run_id=granted.run_id,
        task_key=granted.task_key,
    )
