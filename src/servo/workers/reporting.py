"""What a worker reports of an execution: its checks and its end, in one batch."""

from servo.core.events.assets import AssetObserved, AssetReported, CheckEvaluated
from servo.core.events.envelope import Batch
from servo.core.events.tasks import TaskFinished
from servo.leader.assignments import Assignment, TaskResult


def report_of(assignment: Assignment, done: TaskResult, *, actor: str) -> Batch:
    """The batch that records how an execution ended."""
    made = "" if done.output is None else done.output.materialization_id
    checks = [
        CheckEvaluated(
            run_id=assignment.run_id,
            task_key=assignment.task_key,
            attempt_id=assignment.attempt_id,
            exec_id=assignment.exec_id,
            asset_key=check.asset_key or assignment.asset_key,
            check_name=check.name,
            partition_key=assignment.only_partition,
            passed=check.passed,
            severity=check.severity,
            blocking=check.blocking,
            message=check.message,
            metadata=check.metadata,
            materialization_id=check.materialization_id or made,
        )
        for check in done.checks
    ]
    reports = [_report(assignment, done, number) for number in range(len(done.reported))]
    finished = TaskFinished(
        run_id=assignment.run_id,
        task_key=assignment.task_key,
        attempt_id=assignment.attempt_id,
        exec_id=assignment.exec_id,
        outcome=done.outcome,
        output=done.output,
        outputs=done.outputs,
        error=done.error,
        cost=done.cost,
        retry_after_ms=done.retry_after_ms,
        code_version=done.code_version,
    )
    events = (*checks, *reports, finished)
    return Batch(id=f"done-{assignment.exec_id}", events=events, actor=actor)


def _report(assignment: Assignment, done: TaskResult, number: int) -> AssetReported | AssetObserved:
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
        materialization_id=f"{assignment.exec_id}.r{number}",
        partition_key=told.partition,
        data_version=told.data_version,
        metadata=told.metadata,
        run_id=assignment.run_id,
        task_key=assignment.task_key,
    )
