"""From assets to a plan.

One task for each function: the assets it makes, or those of them that were chosen, are made
together. A task comes after those that make what its assets depend on.
"""

from collections.abc import Iterable, Sequence

from servo.core.ids import TaskKeyStr
from servo.core.keys import AssetKey, task_key_text
from servo.core.plan import Plan, TaskSpec, normalize
from servo.core.tags import ISOLATION
from servo.errors import Invalid
from servo.sdk.assets_definition import AssetsDefinition, Behaviour
from servo.sdk.check_planning import Chosen, check_tasks, group_tags
from servo.sdk.project import Project
from servo.sdk.retries import stored_policy


def plan_assets(project: Project, keys: Iterable[AssetKey], *, checks: Chosen = None) -> Plan:
    """The plan that makes these assets, each after those of them it depends on.

    `checks` are those to run, also of assets that are not made; None for those of the assets.
    """
    chosen = project.executable(list(keys))
    _refuse_partitioned(project, chosen)
    together = _by_function(project, chosen)
    tasks = {
        key: task_of(project.makers[group[0]], group[0]) for group in together for key in group
    }
    made = [_spec(project, group, tasks, checks) for group in together]
    return normalize([*made, *check_tasks(project, tasks, checks)])


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


def _by_function(project: Project, chosen: list[AssetKey]) -> list[list[AssetKey]]:
    """The chosen assets, those of one function together and in the order of its definition."""
    wanted = set(chosen)
    groups: dict[int, list[AssetKey]] = {}
    for key in chosen:
        maker = project.makers[key]
        if id(maker) not in groups:
            groups[id(maker)] = [spec.key for spec in maker.specs if spec.key in wanted]
            _check_whole(maker, groups[id(maker)])
    return list(groups.values())


def _check_whole(maker: AssetsDefinition, chosen: list[AssetKey]) -> None:
    if len(chosen) < len(maker.keys) and not maker.can_subset:
        left = ", ".join(sorted(str(key) for key in maker.keys - set(chosen)))
        raise Invalid(
            f"{maker.name} ({maker.where}) makes {left} together with {chosen[0]}",
            remedy="select all of them, or let it make some with can_subset=True",
        )


def task_of(maker: AssetsDefinition, key: AssetKey) -> TaskKeyStr:
    """The task that makes an asset, and those that are made with it."""
    return task_key_text(key.canonical(), None, maker.behaviour.operation)


def _spec(
    project: Project, group: list[AssetKey], tasks: dict[AssetKey, TaskKeyStr], checks: Chosen
) -> TaskSpec:
    first, *others = group
    maker = project.makers[first]
    behaviour = maker.behaviour
    timeout = behaviour.timeout
    first_of = project.checkbook.after
    wanted = [up for key in group for up in (*project.upstream[key], *first_of.get(key, ()))]
    above = {tasks[up]: None for up in wanted if up in tasks}
    above.pop(tasks[first], None)
    return TaskSpec(
        task_key=tasks[first],
        asset_key=first.canonical(),
        also_makes=tuple(key.canonical() for key in others),
        operation=behaviour.operation,
        upstream=tuple(above),
        priority=behaviour.priority,
        pool=behaviour.pool,
        retry=stored_policy(behaviour.retry_policy),
        timeout_ms=round(timeout.total_seconds() * 1000) if timeout is not None else 0,
        code_version=project.specs[first].code_version or "",
        tags={**_tags(behaviour), **group_tags(project, group, checks)},
    )


def _tags(behaviour: Behaviour) -> dict[str, str]:
    """What a task is told besides: the tags of its code, and whether it wants its own process."""
    tags = {name: str(value) for name, value in behaviour.op_tags.items()}
    return {**tags, ISOLATION: behaviour.isolation} if behaviour.isolation else tags
