"""From assets to a plan."""

from collections.abc import Iterable, Sequence

from servo.core.ids import TaskKeyStr
from servo.core.keys import AssetKey, TaskOperation, task_key_text
from servo.core.plan import Plan, TaskSpec, normalize
from servo.errors import Invalid
from servo.sdk.project import Project
from servo.sdk.retries import stored_policy


def plan_assets(project: Project, keys: Iterable[AssetKey]) -> Plan:
    """The plan that makes these assets, each after those of them it depends on."""
    chosen = project.executable(list(keys))
    _refuse_partitioned(project, chosen)
    tasks = {key: task_of(key) for key in chosen}
    return normalize(_spec(project, key, tasks) for key in chosen)


def _refuse_partitioned(project: Project, keys: Sequence[AssetKey]) -> None:
    """Partitions can be declared and not yet made; an asset is never made as if it had none."""
    divided = [
        key.to_user_string() for key in keys if project.specs[key].partitions_def is not None
    ]
    if divided:
        raise Invalid(
            f"partitions cannot be made yet, and these assets have them: {', '.join(divided)}",
            remedy="select the others, such as "
            + " and ".join(f'not key:"{name}"' for name in divided[:3]),
        )


def task_of(key: AssetKey) -> TaskKeyStr:
    """The task that makes an asset."""
    return task_key_text(key.canonical(), None, TaskOperation.MATERIALIZE)


def _spec(project: Project, key: AssetKey, tasks: dict[AssetKey, TaskKeyStr]) -> TaskSpec:
    behaviour = project.makers[key].behaviour
    timeout = behaviour.timeout
    return TaskSpec(
        task_key=tasks[key],
        asset_key=key.canonical(),
        upstream=tuple(tasks[up] for up in project.upstream[key] if up in tasks),
        priority=behaviour.priority,
        pool=behaviour.pool,
        retry=stored_policy(behaviour.retry_policy),
        timeout_ms=round(timeout.total_seconds() * 1000) if timeout is not None else 0,
        code_version=project.specs[key].code_version or "",
    )
