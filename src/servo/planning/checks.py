"""Which checks a run executes, and in which task.

The checks of a materialized asset run in its task. Checks that are selected without their asset get
a task of their own, which checks the latest output. The tags of a task say what its checks need to
load, and which of them to run if not all.
"""

from collections.abc import Collection, Sequence

from servo.core.keys import AssetKey, TaskOperation
from servo.core.plan import CHECKS_TAG, INPUTS_TAG, TaskSpec
from servo.planning.planned_tasks import Inputs, Planned, Unit
from servo.sdk.assets.retries import ONCE
from servo.sdk.checks.definition import AssetCheckKey
from servo.sdk.definitions.project import Project

Chosen = Collection[AssetCheckKey] | None
"""The checks to run; None for all."""


def check_tags(project: Project, key: AssetKey, chosen: Chosen = None) -> dict[str, str]:
    """The tags for the checks of an asset; empty if none are needed."""
    hosted = project.checks.get(key, ())
    if not hosted:
        return {}
    keys = [spec.key for bound in hosted for spec in bound.definition.specs]
    needs = [need for bound in hosted for need in bound.needs]
    tags: dict[str, str] = {}
    if needs:
        tags[INPUTS_TAG] = ",".join(need.canonical() for need in dict.fromkeys(needs))
    if chosen is not None and not all(check in chosen for check in keys):
        tags[CHECKS_TAG] = ",".join(_named(check) for check in keys if check in chosen)
    return tags


def group_tags(project: Project, keys: Sequence[AssetKey], chosen: Chosen = None) -> dict[str, str]:
    """The tags for the checks of several assets."""
    each = {key: check_tags(project, key, chosen) for key in keys if key in project.checks}
    tags: dict[str, str] = {}
    if len(each) <= 1:
        return next(iter(each.values()), tags)
    needs = [need for found in each.values() for need in found.get(INPUTS_TAG, "").split(",")]
    if any(needs):
        tags[INPUTS_TAG] = ",".join(dict.fromkeys(filter(None, needs)))
    if chosen is not None and any(CHECKS_TAG in found for found in each.values()):
        bound = [check for key in each for check in project.checks[key]]
        hosted = [spec.key for check in bound for spec in check.definition.specs]
        tags[CHECKS_TAG] = ",".join(_named(check) for check in hosted if check in chosen)
    return tags


def checks_alone(project: Project, made: Collection[AssetKey], chosen: Chosen) -> list[AssetKey]:
    """The assets that are not materialized and whose tasks run selected checks, in order."""
    return [
        key
        for key in project.order
        if key not in made
        and any(
            spec.key in (chosen or ())
            for bound in project.checks.get(key, ())
            for spec in bound.definition.specs
        )
    ]


def check_spec(planned: Planned, key: AssetKey, unit: Unit, chosen: Chosen) -> TaskSpec:
    """The task that runs the selected checks of an asset or a partition, and nothing else."""
    project = planned.project
    tags = check_tags(project, key, chosen)
    inputs = Inputs(project.check_index.needs_of([key]))
    needs = dict.fromkeys([key.canonical(), *filter(None, tags.get(INPUTS_TAG, "").split(","))])
    for above in (*project.upstream[key], *project.check_index.after.get(key, ())):
        planned.follow(inputs, above, (key, unit))
    for need in inputs.left():
        planned.follow(inputs, need, (key, unit), waits=False)
    return TaskSpec(
        task_key=planned.task(key, unit),
        asset_key=key.canonical(),
        partition=planned.typed(key, unit[0]),
        operation=TaskOperation.CHECK,
        upstream=tuple(inputs.tasks),
        retry=ONCE,
        tags={**tags, INPUTS_TAG: ",".join(needs), **inputs.tags()},
    )


def _named(check: AssetCheckKey) -> str:
    return f"{check.asset_key.canonical()}:{check.name}"
