"""Planning a run before there is one: the tasks of a new run, or of one that repeats another."""

from collections.abc import Sequence

import msgspec

from servo.code.conditions.sets import SetsOnDemand
from servo.code.evaluator.handed_back import refuse_config
from servo.code.evaluator.loaded_location import LoadedLocation
from servo.code.evaluator.messages import PlanRetry, PlanRun, Refused, RunPlanned
from servo.code.evaluator.refusals import refused
from servo.core.keys import AssetKey, TaskOperation
from servo.core.plan import Plan, chosen_checks
from servo.core.state.rows.execution import TaskRow
from servo.core.tags import JOB_LABEL, PARTITION_LABEL
from servo.errors import Invalid, NotFound
from servo.planning.assets import plan_assets, plan_partitions
from servo.planning.checks import Chosen
from servo.planning.job_retries import with_job_retries
from servo.planning.partition_choice import Named
from servo.planning.retries import partitions_of
from servo.projection.read.replay import PRESENT
from servo.projection.read.time_travel import snapshot_at
from servo.sdk.checks.selection import checks_of_assets
from servo.sdk.definitions.jobs import AssetJob
from servo.sdk.definitions.needs import check_config, near_misses
from servo.sdk.definitions.project import Project
from servo.sdk.partitions.definition import PartitionKeyRange
from servo.sdk.resources.run_config import RunConfig
from servo.sdk.selection.selecting import selected
from servo.sdk.selection.selection import AssetSelection


class _Scope(msgspec.Struct, frozen=True, kw_only=True):
    """The scope of a run: assets, additional checks, and what its job adds."""

    keys: list[AssetKey]
    checks: Chosen = None
    labels: dict[str, str] = {}
    config: dict[str, object] = {}
    job: AssetJob | None = None


def plan_run(loaded: LoadedLocation, question: PlanRun) -> RunPlanned | Refused:
    """The tasks of a new run, by the current code and dynamic partitions."""
    try:
        return _planned(loaded, question)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - mappings may be user code
        return refused(error)


def plan_retry(loaded: LoadedLocation, question: PlanRetry) -> RunPlanned | Refused:
    """The tasks that repeat those of a run, by the current code."""
    try:
        tasks = question.tasks
        if question.select:
            tasks = _making(loaded.project, tasks, question)
        job = loaded.project.jobs.get(question.job or "")
        plan = with_job_retries(_again(loaded, tasks), loaded.project, job)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - mappings may be user code
        return refused(error)
    return RunPlanned(
        plan=plan,
        location=loaded.records.location,
        executor=None if job is None else job.executor_def,
    )


def _planned(loaded: LoadedLocation, question: PlanRun) -> RunPlanned:
    project = loaded.project
    config = RunConfig.of(question.config).to_config_dict() if question.config else {}
    scope = _scope(project, question)
    if not config:
        config = scope.config
        refuse_config(config, f"job {question.job}")
    check_config(project, config)
    named = (*question.partitions, *(PartitionKeyRange(*pair) for pair in question.ranges))
    plan = plan_assets(
        project,
        scope.keys,
        checks=scope.checks,
        partition_keys=named,
        now=loaded.clock.now(),
        dynamic_partitions=_dynamic(loaded),
    )
    if scope.checks is not None and not plan.tasks:
        raise NotFound(
            "the selected assets have no checks",
            remedy="select assets with checks, or add some with @asset_check or servo.checks",
        )
    return RunPlanned(
        plan=with_job_retries(plan, project, scope.job),
        location=loaded.records.location,
        config=config,
        labels={**_partition_label(named), **scope.labels},
        executor=None if scope.job is None else scope.job.executor_def,
        hints=tuple(near_misses(project)),
    )


def _scope(project: Project, question: PlanRun) -> _Scope:
    if question.job is None:
        keys = selected(project, question.select) if question.select else project.order
        scope = _Scope(keys=keys)
    else:
        scope = _of_job(project, question.job, question.select)
    if not question.checks_only:
        return scope
    checks = scope.checks or checks_of_assets(project, scope.keys)
    return msgspec.structs.replace(scope, keys=[], checks=checks)


def _of_job(project: Project, name: str, select: Sequence[str]) -> _Scope:
    if select:
        raise Invalid(
            f"the job {name} cannot be combined with a selection",
            remedy="use one of the two: a job has its own selection",
        )
    job: AssetJob = project.job(name)
    return _Scope(
        keys=job.keys(project),
        checks=job.checks(project),
        labels={**job.tags, **job.run_tags, JOB_LABEL: name},
        config=job.run_config(),
        job=job,
    )


def _partition_label(named: Sequence[Named]) -> dict[str, str]:
    """What a run of a single partition is labelled with."""
    one = named[0] if len(named) == 1 else None
    return {PARTITION_LABEL: one} if isinstance(one, str) else {}


def _making(project: Project, tasks: Sequence[TaskRow], question: PlanRetry) -> tuple[TaskRow, ...]:
    """The tasks that materialize a selected asset."""
    keys = AssetSelection.from_coercible(list(question.select)).resolve(project)
    wanted = {key.canonical() for key in keys}
    found = [task for task in tasks if wanted.intersection((task.asset_key, *task.also_makes))]
    if not found:
        raise NotFound(
            f"{question.run_id} has no task for {' '.join(question.select)}",
            remedy=f"see `servo run show {question.run_id}` for its tasks",
        )
    return tuple(found)


def _again(loaded: LoadedLocation, tasks: Sequence[TaskRow]) -> Plan:
    """The plan that repeats tasks: materialized assets, and checks that ran alone."""
    project = loaded.project
    now, dynamic = loaded.clock.now(), _dynamic(loaded)
    alone = [task for task in tasks if task.operation is TaskOperation.CHECK]
    wanted = partitions_of(project, tasks)
    made = partitions_of(project, [task for task in tasks if task not in alone])
    if not alone:
        return plan_partitions(project, made, now=now, dynamic_partitions=dynamic)
    named = {name for task in alone for name in chosen_checks(task.tags) or ()}
    whole = {task.asset_key for task in alone if chosen_checks(task.tags) is None}
    checks = checks_of_assets(project, made) | {
        spec.key
        for key, hosted in project.checks.items()
        for bound in hosted
        for spec in bound.definition.specs
        if key.canonical() in whole or f"{spec.asset.canonical()}:{spec.name}" in named
    }
    return plan_partitions(
        project,
        wanted,
        checks=checks,
        only_checked=[key for key in wanted if key not in made],
        now=now,
        dynamic_partitions=dynamic,
    )


def _dynamic(loaded: LoadedLocation) -> SetsOnDemand:
    held = loaded.records
    return SetsOnDemand(lambda: snapshot_at(held.store, held.paths, PRESENT))
