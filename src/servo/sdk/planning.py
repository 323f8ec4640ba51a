"""From assets to a plan."""

from collections.abc import Iterable

from servo.core.ids import TaskKeyStr
from servo.core.keys import AssetKey, TaskOperation, task_key_text
from servo.core.plan import Plan, TaskSpec, normalize
from servo.sdk.check_planning import Chosen, check_tags, check_tasks
from servo.sdk.project import Project
from servo.sdk.retries import stored_policy


def plan_assets(project: Project, keys: Iterable[AssetKey], *, checks: Chosen = None) -> Plan:
    """The plan that makes these assets, each after those of them it depends on.

    `checks` are those to run, also of assets that are not made; None for those of the assets.
    """
    chosen = project.executable(list(keys))
    tasks = {key: task_of(key) for key in chosen}
    made = [_spec(project, key, tasks, checks) for key in chosen]
    return normalize([*made, *check_tasks(project, tasks, checks)])


def task_of(key: AssetKey) -> TaskKeyStr:
    """The task that makes an asset."""
    return task_key_text(key.canonical(), None, TaskOperation.MATERIALIZE)


def _spec(
    project: Project, key: AssetKey, tasks: dict[AssetKey, TaskKeyStr], checks: Chosen
) -> TaskSpec:
    behaviour = project.makers[key].behaviour
    timeout = behaviour.timeout
    above = (*project.upstream[key], *project.checkbook.after.get(key, ()))
    return TaskSpec(
        task_key=tasks[key],
        asset_key=key.canonical(),
        upstream=tuple(tasks[up] for up in above if up in tasks),
        priority=behaviour.priority,
        pool=behaviour.pool,
        retry=stored_policy(behaviour.retry_policy),
        timeout_ms=round(timeout.total_seconds() * 1000) if timeout is not None else 0,
        code_version=project.specs[key].code_version or "",
        tags=check_tags(project, key, checks),
    )
