"""The retry policies of a run's tasks, where its job has one."""

from msgspec.structs import replace

from servo.core.keys import AssetKey, TaskOperation
from servo.core.plan import Plan
from servo.core.retry import RetryRules
from servo.sdk.assets.retries import stored_policy
from servo.sdk.definitions.jobs import AssetJob
from servo.sdk.definitions.project import Project


def with_job_retries(plan: Plan, project: Project, job: AssetJob | None) -> Plan:
    """The plan of a run of a job: tasks without a policy of their own have that of the job."""
    if job is None or job.op_retry_policy is None:
        return plan
    return Plan(
        tasks=tuple(
            replace(
                task,
                retry=retry_of_task(project, AssetKey.parse(task.asset_key), task.operation, job),
            )
            for task in plan.tasks
        )
    )


def retry_of_task(
    project: Project, key: AssetKey, operation: TaskOperation, job: AssetJob | None
) -> RetryRules:
    """The retry policy of a task in a run, perhaps of a job.

    A task that only runs checks does not materialize the asset, so the asset's policy and the
    project's do not apply to it.
    """
    if operation is TaskOperation.CHECK:
        return stored_policy(None if job is None else job.op_retry_policy)
    return project.retry_of(key, job)
