"""`servo materialize` and `servo run retry`: make assets, now or again."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import click
from msgspec.structs import replace
from rich.text import Text

from servo.cli.hosts import Host, open_host, read_code
from servo.cli.options.code import as_dagster_option, tell_near_misses
from servo.cli.options.completing import asset_keys, run_ids
from servo.cli.options.partitions import NamedPartitions, named, with_partitions
from servo.cli.options.project import (
    CODE_LABEL,
    DEFAULT_WORKERS,
    code_behind,
    code_or_selection,
    default_tags,
    default_workers,
)
from servo.cli.options.shared import json_option
from servo.cli.options.workspace import Command, Where, at_a_workspace
from servo.cli.rendering.output import console, emit_json, plural
from servo.cli.rendering.run_display import Ended, summary, wait_for
from servo.cli.rendering.run_rows import place_shown, waiting_words
from servo.core.keys import AssetKey, TaskOperation
from servo.core.plan import Plan, chosen_checks
from servo.core.state.rows.execution import TaskRow
from servo.core.state.states import TERMINAL_RUN_STATES, RunState, TaskState
from servo.core.tags import ISOLATION, JOB_LABEL, OWN_PROCESS
from servo.errors import Conflict, Invalid, NotFound
from servo.host.leading import LeadingHost
from servo.host.run_keys import requested_before, tasks_of_run, under_run_key
from servo.operations.runs import get_run, get_run_outcome
from servo.planning.assets import plan_assets, plan_partitions
from servo.planning.checks import Chosen
from servo.planning.retries import partitions_of
from servo.sdk.checks.selection import checks_of_assets
from servo.sdk.definitions.jobs import AssetJob
from servo.sdk.definitions.needs import check_config
from servo.sdk.definitions.project import Project
from servo.sdk.resources.run_config import RunConfig
from servo.sdk.selection.selecting import selected
from servo.sdk.selection.selection import AssetSelection
from servo.workers.parallelism import parallelism
from servo.workspace.run_requests import Wanted, with_config
from servo.workspace.system import SystemEntropy
from servo.workspace.workspace import open_workspace

FAILED = 1


def with_workers(command: Command) -> Command:
    """Give a command the option that says how many processes run user code."""
    return click.option(
        "--workers",
        type=click.IntRange(1),
        default=default_workers,
        show_default=str(DEFAULT_WORKERS),
        help="Processes for each code location.",
    )(command)


@click.command("materialize")
@click.argument("code", required=False)
@click.argument("select", nargs=-1, shell_complete=asset_keys)
@click.option("--config", "config", help="Configuration: a file of JSON, or JSON itself.")
@click.option("--tag", "tags", multiple=True, metavar="KEY=VALUE", help="A tag of the run.")
@click.option("--job", help="Make what this job selects, as it says.")
@click.option("--dry-run", is_flag=True, help="Show the plan and do nothing.")
@click.option(
    "--run-key",
    metavar="KEY",
    help="Idempotency key: repeating a request with the same key creates no second run.",
)
@click.option("--isolate", is_flag=True, help="Run every task in a process of its own.")
@click.option("--checks-only", is_flag=True, help="Check the latest outputs and make nothing.")
@with_partitions
@with_workers
@as_dagster_option
@json_option
@at_a_workspace
def materialize(  # noqa: PLR0913 - the options of the command
    *,
    code: str | None,
    select: Sequence[str],
    config: str | None,
    tags: Sequence[str],
    job: str | None,
    dry_run: bool,
    run_key: str | None,
    isolate: bool,
    checks_only: bool,
    partitions: Sequence[str],
    ranges: Sequence[tuple[str, str]],
    where: Where,
    workers: int,
    as_dagster: bool,
    json_: bool,
) -> int:
    """Make the assets of CODE, a file or a module, or those of them that are SELECTed.

    CODE can be left out where it is plain which is meant.

    SELECT is a key, or an expression such as 'group:"raw" and not key:"tmp*"' or 'orders+'.

    Of assets with partitions those are made that are named; what is divided otherwise is made for
    the partitions that belong to them.

    Runs of CODE that were begun in this workspace and have not ended are finished first. While
    `servo dev` is at work there, it does the work.
    """
    code, select = code_or_selection(code, select)
    text = text_of(select, job, checks_only=checks_only)
    found, project = read_code(code, as_dagster=as_dagster, select=select, job=job)
    given, labels = read_config(config), {**default_tags(), **read_tags(tags)}
    labels[CODE_LABEL] = found.name
    if isolate:
        labels[ISOLATION] = OWN_PROCESS
    chosen, checks = None, None
    if job is not None:
        its = _job(project, job, select)
        chosen, given = its.keys(project), given or its.run_config()
        checks = its.checks(project)
        labels = {**its.tags, **its.run_tags, JOB_LABEL: job, **labels}
        if its.executor_def is not None:
            found = replace(found, executor=its.executor_def)
    check_config(project, given)
    tell_near_misses(project)
    asked = named(where, partitions, ranges)
    labels = {**asked.labels, **labels}
    if chosen is None:
        chosen = selected(project, select) if select else project.order
    if checks_only:
        chosen, checks = [], checks or checks_of_assets(project, chosen)
    plan = _plan(project, chosen, asked, checks)
    if dry_run:
        return _show_plan(plan, json_=json_)
    del project
    with open_host(found, where, parallelism(given, workers)) as host:
        if isinstance(host, LeadingHost):
            for ended in finish_begun(host, json_=json_):
                _ = tell(ended, where, json_=False) if not json_ else None
        wanted = Wanted(
            plan=plan,
            run_key=f"materialize:{SystemEntropy().token_bytes(12).hex()}",
            tags=with_config(labels, given),
            text=text,
        )
        del plan
        if run_key is None:
            run_id = host.ask(wanted)
            del wanted  # the leader has made its own of it, and a large one is many megabytes
            ended = wait_for(host, run_id, shown=not json_)
        else:
            ended = _under_key(host, under_run_key(wanted, run_key), json_=json_)
    return tell(ended, where, json_=json_)


def _under_key(host: Host, wanted: Wanted, *, json_: bool) -> Ended:
    """Ask for a run under a key of the user's, unless that was done before; and wait for it."""
    known = requested_before(host, wanted)
    if known is None:
        return wait_for(host, host.ask(wanted), shown=not json_)
    console(stderr=True).print(
        f"{known.run_id} was already requested with --run-key {wanted.request_id}: "
        "no new run was created"
    )
    if known.state in TERMINAL_RUN_STATES:
        return Ended(run=known, tasks=tasks_of_run(host, known.run_id), seconds=0)
    return wait_for(host, known.run_id, shown=not json_)


def text_of(select: Sequence[str], job: str | None, *, checks_only: bool) -> str:
    """What was asked for, as it was typed."""
    what = f"job {job}" if job is not None else " ".join(select) or "all assets"
    return f"checks of {what}" if checks_only else what


@click.command("retry", short_help="Do again what a run left undone.")
@click.argument("run_id", shell_complete=run_ids)
@click.argument("code", required=False)
@click.option("--all", "all_", is_flag=True, help="Everything, also what succeeded.")
@click.option(
    "--select", multiple=True, help="These of its assets, however they ended; repeatable."
)
@with_workers
@as_dagster_option
@json_option
@at_a_workspace
def retry(  # noqa: PLR0913 - the options of the command
    *,
    run_id: str,
    code: str | None,
    all_: bool,
    select: Sequence[str],
    where: Where,
    workers: int,
    as_dagster: bool,
    json_: bool,
) -> int:
    """Make again what a run failed, skipped or was stopped before, in a new run with its tags."""
    detail = get_run(open_workspace(where.address), run_id)
    run, tasks = detail.run, detail.tasks
    left = [t for t in tasks if all_ or select or t.state is not TaskState.SUCCEEDED]
    if not left:
        raise Conflict(f"every task of {run.run_id} succeeded", remedy="use --all to repeat them")
    found, project = read_code(code or code_behind(run.location, run.labels), as_dagster=as_dagster)
    if select:
        left = _selected(project, left, select, run.run_id)
    plan = _again(project, left, named(where))
    del project
    with open_host(found, where, workers) as host:
        key = f"retry:{run.run_id}:{SystemEntropy().token_bytes(8).hex()}"
        ended = wait_for(host, host.repeat(run, plan, key), shown=not json_)
    return tell(ended, where, json_=json_)


def finish_begun(host: Host, *, json_: bool) -> list[Ended]:
    """Wait for every run that was begun earlier."""
    ended: list[Ended] = []
    for run in host.begun_runs():
        if not json_:
            console(stderr=True).print(f"resuming {run}")
        ended.append(wait_for(host, run, shown=not json_))
    if isinstance(host, LeadingHost) and not json_:
        for row in host.left_runs():
            console(stderr=True).print(waiting_words(row), soft_wrap=True)
    return ended


def tell(ended: Ended, where: Where, *, json_: bool) -> int:
    """Say what became of a run; the exit code of the command that asked for it."""
    if json_:
        emit_json({"run": ended.run, "tasks": ended.tasks})
        return exit_code_of(ended)
    outcome = get_run_outcome(open_workspace(where.address), ended.run.run_id)
    summary(ended, outcome.materializations, outcome.failed_checks)
    return exit_code_of(ended)


def exit_code_of(ended: Ended) -> int:
    """The exit code of a command that asked for a run."""
    return 0 if ended.run.state is RunState.SUCCEEDED else FAILED


def read_config(given: str | None) -> dict[str, Any]:
    """The configuration in a file, or in the text itself."""
    if given is None:
        return {}
    path = Path(given)
    text = given if given.lstrip().startswith("{") else None
    if text is None and not path.is_file():
        raise NotFound(f"there is no file {given}", remedy="name a file of JSON, or pass JSON")
    try:
        found = json.loads(path.read_text() if text is None else text)
    except ValueError as error:
        raise Invalid(f"the configuration is no JSON: {error}", remedy="correct it") from None
    if not isinstance(found, dict):
        raise Invalid("the configuration is no object", remedy='begin it with {"ops": …}')
    return RunConfig.of(cast("dict[str, Any]", found)).to_config_dict()


def read_tags(given: Sequence[str]) -> dict[str, str]:
    """Tags as they are typed."""
    pairs = [text.partition("=") for text in given]
    if wrong := [key for key, found, _ in pairs if not found or not key]:
        raise Invalid(f"the tag {wrong[0]!r} has no value", remedy="write --tag key=value")
    return {key: value for key, _, value in pairs}


def _job(project: Project, name: str, select: Sequence[str]) -> AssetJob:
    """The job of this name; it says itself what it makes."""
    if select:
        raise Invalid(
            f"--job {name} comes with a selection", remedy="give one of the two; a job selects"
        )
    return project.job(name)


def _plan(project: Project, chosen: list[AssetKey], asked: NamedPartitions, checks: Chosen) -> Plan:
    plan = plan_assets(
        project,
        chosen,
        checks=checks,
        partition_keys=asked.keys,
        now=asked.now,
        dynamic_partitions=asked.store,
    )
    if checks is not None and not plan.tasks:
        raise NotFound(
            "what is selected has no checks",
            remedy="select assets that have, or write some with @asset_check or servo.checks",
        )
    return plan


def _selected(
    project: Project, tasks: Sequence[TaskRow], select: Sequence[str], run_id: str
) -> list[TaskRow]:
    """Those tasks that make an asset which is selected."""
    keys = AssetSelection.from_coercible(list(select)).resolve(project)
    wanted = {key.canonical() for key in keys}
    found = [task for task in tasks if wanted.intersection((task.asset_key, *task.also_makes))]
    if not found:
        raise NotFound(
            f"{run_id} made no asset that is selected by {' '.join(select)}",
            remedy=f"see `servo run show {run_id}` for those it made",
        )
    return found


def _again(project: Project, left: Sequence[TaskRow], asked: NamedPartitions) -> Plan:
    """The plan that does tasks again: assets that were made, and checks that ran alone."""
    alone = [task for task in left if task.operation is TaskOperation.CHECK]
    wanted = partitions_of(project, left)
    made = partitions_of(project, [task for task in left if task not in alone])
    if not alone:
        return plan_partitions(project, made, now=asked.now, dynamic_partitions=asked.store)
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
        now=asked.now,
        dynamic_partitions=asked.store,
    )


def _show_plan(plan: Plan, *, json_: bool) -> int:
    if json_:
        emit_json(
            [
                {"asset": task.asset_key, "partition": task.partition, "upstream": task.upstream}
                for task in plan.tasks
            ]
        )
        return 0
    out = console()
    out.print(f"{plural(len(plan.tasks), 'task')}, in an order they could run in:")
    for task in plan.tasks:
        out.print(Text(f"  {place_shown(task.asset_key, task.partition)}"))
    return 0
