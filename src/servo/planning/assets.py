"""Plan a run: from selected assets to tasks.

There is one task for each function, for each partition of its assets, or for as many partitions as
its backfill policy allows. The selected assets of a function are materialized together. A task
depends on the tasks of its upstream assets; partitions depend on each other by their mappings.

The planner is pure: the time and the dynamic partitions are passed in.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from servo.core.ids import TaskKeyStr
from servo.core.keys import AssetKey, TaskOperation, task_key_text
from servo.core.plan import MAX_TASKS, MAX_TOGETHER, Plan, TaskSpec, normalize
from servo.core.tags import ISOLATION
from servo.errors import Invalid
from servo.planning.checks import Chosen, check_spec, checks_alone, group_tags
from servo.planning.partition_choice import Named, Relations, WantedPartitions, choose_partitions
from servo.planning.planned_tasks import Inputs, Planned, Unit
from servo.sdk.assets.assets_definition import AssetsDefinition, Behaviour
from servo.sdk.definitions.project import Project
from servo.sdk.partitions.mapping_resolution import Moment


def plan_assets(
    project: Project,
    keys: Iterable[AssetKey],
    *,
    checks: Chosen = None,
    partition_keys: Iterable[Named] = (),
    now: datetime | None = None,
    dynamic_partitions: Any = None,
) -> Plan:
    """Plan a run that materializes these assets, each after its upstream assets.

    `checks` are the checks to run, also of assets that are not materialized; None for all checks of
    the assets. `partition_keys` are the partitions to materialize, as users write them, or
    `PartitionKeyRange`s: see `servo.planning.partition_choice` for what they mean for assets with
    other partitions. `now` determines which time-based partitions exist, and `dynamic_partitions`
    stores the dynamic ones.
    """
    chosen = project.executable(list(keys))
    relations = Relations(project, Moment(now, dynamic_partitions))
    alone = checks_alone(project, chosen, checks)
    either = {*chosen, *alone}
    assets = [key for key in project.order if key in either]
    wanted = choose_partitions(relations, project, assets, partition_keys)
    return _plan(relations, project, wanted, checks, alone)


def plan_partitions(
    project: Project,
    wanted: Mapping[AssetKey, Sequence[str]],
    *,
    checks: Chosen = None,
    only_checked: Sequence[AssetKey] = (),
    now: datetime | None = None,
    dynamic_partitions: Any = None,
) -> Plan:
    """Plan a run that materializes exactly these partitions of these assets.

    An unpartitioned asset has one, `servo.sdk.partitions.mapping_resolution.WHOLE`. The assets of
    `only_checked` are not materialized: their latest outputs are checked.
    """
    relations = Relations(project, Moment(now, dynamic_partitions))
    numbers: WantedPartitions = {
        key: [*map(relations.space(key).number, names)] for key, names in wanted.items()
    }
    return _plan(relations, project, numbers, checks, only_checked)


def _plan(
    relations: Relations,
    project: Project,
    wanted: WantedPartitions,
    checks: Chosen,
    alone: Sequence[AssetKey],
) -> Plan:
    total = sum(len(numbers) for numbers in wanted.values())
    if total > MAX_TASKS:
        raise Invalid(
            f"the run would have {total} tasks",
            remedy=f"materialize fewer partitions at a time; the limit is {MAX_TASKS} tasks",
        )
    together = _by_function(project, [key for key in project.order if key in wanted], alone)
    planned = Planned(relations, project)
    for group in together:
        behaviour = project.makers[group[0]].behaviour
        numbers = _same(wanted, group)
        planned.add(group, behaviour.operation, numbers, _size(behaviour, len(numbers)))
    for key in alone:
        planned.add([key], TaskOperation.CHECK, wanted[key])
    made = [spec for group in together for spec in _specs(planned, group, checks)]
    looked = [check_spec(planned, key, u, checks) for key in alone for u in planned.units(key)]
    return normalize([*made, *looked])


def _size(behaviour: Behaviour, count: int) -> int:
    """How many partitions one task materializes."""
    policy = behaviour.backfill_policy
    most = 1 if policy is None else policy.max_partitions_per_run
    return min(max(count, 1) if most is None else most, MAX_TOGETHER)


def _same(wanted: WantedPartitions, group: Sequence[AssetKey]) -> Sequence[int]:
    """The partitions of assets that are materialized together."""
    numbers = {key: tuple(wanted[key]) for key in group}
    if len(set(numbers.values())) > 1:
        raise Invalid(
            f"{', '.join(map(str, group))} come from one function but have different partitions",
            remedy="use the same partitions_def for all assets of a function",
        )
    return numbers[group[0]]


def _by_function(
    project: Project, chosen: list[AssetKey], alone: Sequence[AssetKey]
) -> list[list[AssetKey]]:
    """The selected assets grouped by function, in the order of its definition."""
    wanted = set(chosen) - set(alone)
    groups: dict[int, list[AssetKey]] = {}
    for key in chosen:
        if key not in wanted:
            continue
        maker = project.makers[key]
        if id(maker) not in groups:
            groups[id(maker)] = [spec.key for spec in maker.specs if spec.key in wanted]
            _check_whole(maker, groups[id(maker)])
    return list(groups.values())


def _check_whole(maker: AssetsDefinition, chosen: list[AssetKey]) -> None:
    if len(chosen) < len(maker.keys) and not maker.can_subset:
        left = ", ".join(sorted(str(key) for key in maker.keys - set(chosen)))
        raise Invalid(
            f"{maker.name} ({maker.where}) materializes {left} together with {chosen[0]}",
            remedy="select all of them, or set can_subset=True on the decorator",
        )


def task_of(maker: AssetsDefinition, key: AssetKey) -> TaskKeyStr:
    """The task of an unpartitioned asset, and of those materialized with it."""
    return task_key_text(key.canonical(), None, maker.behaviour.operation)


def _specs(planned: Planned, group: list[AssetKey], checks: Chosen) -> Iterator[TaskSpec]:
    """The tasks of a group of assets, one for each unit."""
    project = planned.project
    first, *others = group
    behaviour = project.makers[first].behaviour
    timeout = behaviour.timeout
    tags = {**_tags(behaviour), **group_tags(project, group, checks)}
    template = TaskSpec(
        task_key=TaskKeyStr(""),
        asset_key=first.canonical(),
        also_makes=tuple(key.canonical() for key in others),
        operation=behaviour.operation,
        priority=behaviour.priority,
        pool=behaviour.pool,
        retry=project.retry_of(first),
        timeout_ms=round(timeout.total_seconds() * 1000) if timeout is not None else 0,
        code_version=project.specs[first].code_version or "",
        tags=tags,
    )
    for unit in planned.units(first):
        own = planned.task(first, unit)
        inputs = _inputs(planned, group, unit)
        inputs.tasks.pop(own, None)
        typed = [one for number in unit if (one := planned.typed(first, number)) is not None]
        yield replace(
            template,
            task_key=own,
            partition=typed[0] if typed else None,
            also_partitions=tuple(typed[1:]),
            upstream=tuple(inputs.tasks),
            tags={**tags, **inputs.tags()},
        )


def _inputs(planned: Planned, group: list[AssetKey], unit: Unit) -> Inputs:
    """What a task depends on, and which partitions it loads."""
    project, first = planned.project, group[0]
    inputs = Inputs([*project.inputs[first].values(), *project.checkbook.needs_of(group)])
    first_of = project.checkbook.after
    for key in group:
        for up in project.upstream[key]:
            planned.follow(inputs, up, (key, unit), needed=True)
        for up in first_of.get(key, ()):
            planned.follow(inputs, up, (key, unit))
    for need in inputs.left():
        planned.follow(inputs, need, (first, unit), waits=False)
    return inputs


def _tags(behaviour: Behaviour) -> dict[str, str]:
    """The tags of a task: those of its code, and its isolation."""
    tags = {name: str(value) for name, value in behaviour.op_tags.items()}
    return {**tags, ISOLATION: behaviour.isolation} if behaviour.isolation else tags
