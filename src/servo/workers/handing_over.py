"""What a worker is told of an execution that the leader has granted."""

from servo.core.plan import input_partitions
from servo.core.tags import CONFIG_LABEL
from servo.execution.messages import Input, Work
from servo.leader.workers import Assignment
from servo.planning.checks import chosen_checks


def made_by(assignment: Assignment) -> tuple[str, ...]:
    """The partitions that an execution makes."""
    first = assignment.partition_key
    return () if first is None else (first, *assignment.also_partitions)


def as_work(assignment: Assignment) -> Work:
    """What a worker is told of a granted execution."""
    return Work(
        exec_id=assignment.exec_id,
        run_id=assignment.run_id,
        task_key=assignment.task_key,
        asset_key=assignment.asset_key,
        also_makes=assignment.also_makes,
        partitions=made_by(assignment),
        input_partitions=input_partitions(assignment.tags),
        attempt=assignment.attempt,
        attempt_id=assignment.attempt_id,
        fencing_token=assignment.fencing_token,
        failures=assignment.failures,
        inputs={key: Input(*pinned) for key, pinned in assignment.inputs.items()},
        tags=assignment.labels,
        run_config=assignment.labels.get(CONFIG_LABEL, ""),
        operation=assignment.operation,
        checks=chosen_checks(assignment.tags),
    )
