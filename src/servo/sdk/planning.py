"""From assets to a plan."""

from collections.abc import Iterable

from servo.core.ids import TaskKeyStr
from servo.core.keys import AssetKey, TaskOperation, task_key_text
from servo.core.plan import Plan, TaskSpec, normalize
from servo.core.tags import ISOLATION
from servo.sdk.assets_definition import Behaviour
from servo.sdk.project import Project
from servo.sdk.retries import stored_policy


def plan_assets(project: Project, keys: Iterable[AssetKey]) -> Plan:
    """The plan that makes these assets, each after those of them it depends on."""
    chosen = project.executable(list(keys))
    tasks = {key: task_of(key) for key in chosen}
    return normalize(_spec(project, key, tasks) for key in chosen)


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
        tags=_tags(behaviour),
    )


def _tags(behaviour: Behaviour) -> dict[str, str]:
    """What a task is told besides: the tags of its code, and whether it wants its own process."""
    tags = {name: str(value) for name, value in behaviour.op_tags.items()}
    return {**tags, ISOLATION: behaviour.isolation} if behaviour.isolation else tags
