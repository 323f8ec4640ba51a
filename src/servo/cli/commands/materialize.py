"""`servo materialize` and `servo run retry`: run assets, or retry tasks that did not succeed."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import click
import msgspec
from rich.text import Text

from servo.cli.command_code import Selected, leader_locations, one_code
from servo.cli.hosts import Host, open_host
from servo.cli.options.code import as_dagster_option
from servo.cli.options.completing import asset_keys, run_ids
from servo.cli.options.partitions import with_partitions
from servo.cli.options.project import (
    DEFAULT_WORKERS,
    code_behind,
    code_or_selection,
    default_tags,
    default_workers,
)
from servo.cli.options.shared import json_option
from servo.cli.options.texts import read_text_file
from servo.cli.options.workspace import Command, Where, at_a_workspace
from servo.cli.rendering.output import console, emit_json, plural
from servo.cli.rendering.run_display import Ended, summary, wait_for
from servo.cli.rendering.run_rows import place_shown, waiting_words
from servo.core.state.states import RunState
from servo.errors import Invalid
from servo.host.location_code import LocationCode
from servo.operations.run_requests import (
    NewRun,
    PreparedRun,
    RunPreview,
    prepare_retry,
    prepare_run,
    previewed,
    run_to_retry,
    start_run,
)
from servo.operations.runs import get_run, get_run_outcome
from servo.workers.parallelism import parallelism
from servo.workspace.workspace import open_workspace

FAILED = 1


def with_workers(command: Command) -> Command:
    """Give a command the option that says how many processes run user code."""
    return click.option(
        "--workers",
        type=click.IntRange(1),
        default=default_workers,
        show_default=str(DEFAULT_WORKERS),
        help="Worker processes for each code location.",
    )(command)


@click.command("materialize")
@click.argument("code", required=False)
@click.argument("select", nargs=-1, shell_complete=asset_keys)
@click.option("--config", "config", help="Run configuration: JSON, or a file that holds JSON.")
@click.option("--tag", "tags", multiple=True, metavar="KEY=VALUE", help="Tag the run; repeatable.")
@click.option("--job", help="Materialize the selection of this job, with its configuration.")
@click.option("--dry-run", is_flag=True, help="Print the plan without running it.")
@click.option(
    "--run-key",
    metavar="KEY",
    help="Idempotency key: repeating a request with the same key creates no second run.",
)
@click.option("--isolate", is_flag=True, help="Run each task in its own process.")
@click.option("--checks-only", is_flag=True, help="Only run the checks, on the latest outputs.")
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
    """Materialize the assets of CODE, a file or a module, or the SELECTed ones.

    CODE is optional when only one file defines assets, or only one code location defines the
    SELECTed ones.

    SELECT is an asset key, or an expression such as 'group:"raw" and not key:"tmp*"' or 'orders+'.

    Only the named partitions are materialized; other assets follow their partition mappings.

    If `servo dev` is running, it plans and executes the run. Otherwise this command does, after it
    has finished any interrupted runs of CODE.
    """
    workspace = where.workspace_or_empty()  # a refused request leaves no store behind
    known = leader_locations(workspace)
    code, select = code_or_selection(code, select, known)
    chosen = Selected(select=select, job=job)
    found = one_code(code, workspace, as_dagster=as_dagster, selected=chosen)
    new = NewRun(
        select=tuple(select),
        job=job,
        checks_only=checks_only,
        partitions=tuple(partitions),
        ranges=tuple(ranges),
        config=read_config(config),
        tags=read_tags(tags),
        default_tags=default_tags(),
        isolate=isolate,
        run_key=run_key,
    )
    prepared = prepare_run(found.evaluator(where.address, workspace), new)
    for hint in prepared.hints:
        console(stderr=True).print(f"hint: {hint}")
    if dry_run:
        return _show_plan(previewed(prepared), json_=json_)
    if prepared.executor is not None:
        found.use_executor(prepared.executor)
    workers = parallelism(prepared.config, workers)
    return _run(found, where, workers, [prepared], json_=json_, finish_others=True)


@click.command("retry", short_help="Retry the tasks that did not succeed.")
@click.argument("run_id", shell_complete=run_ids)
@click.argument("code", required=False)
@click.option(
    "--all", "all_", is_flag=True, help="Repeat every task, including those that succeeded."
)
@click.option(
    "--select",
    multiple=True,
    help="Repeat these assets, whether they succeeded or not; repeatable.",
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
    """Start a new run of the tasks of RUN_ID that did not succeed, with the same tags."""
    workspace = open_workspace(where.address)
    repeated = run_to_retry(workspace, run_id, everything=all_, select=select)
    behind = code or code_behind(repeated.run.location, repeated.run.labels)
    found = one_code(behind, workspace, as_dagster=as_dagster)
    prepared = prepare_retry(found.evaluator(where.address, workspace), repeated, select)
    return _run(found, where, workers, [prepared], json_=json_)


def _run(
    code: LocationCode,
    where: Where,
    workers: int,
    planned: list[PreparedRun],
    *,
    json_: bool,
    finish_others: bool = False,
) -> int:
    """Start the planned run and wait for it; the exit code.

    The plan is taken out of its list to free it: a large plan is many megabytes.
    """
    code.forget_project()
    with open_host(code, where, workers) as host:
        if finish_others and host.leads:
            for ended in finish_begun(host, json_=json_):
                _ = None if json_ else tell(ended, where, json_=False)
        run_key = planned[0].run_key
        started = start_run(host.workspace, planned.pop())
        if not started.created:
            console(stderr=True).print(
                f"{started.run_id} was already requested with --run-key {run_key}: "
                "no new run was created"
            )
        ended = wait_for(host, started.run_id, shown=not json_)
    return tell(ended, where, json_=json_)


def finish_begun(host: Host, *, json_: bool) -> list[Ended]:
    """Wait for every interrupted run."""
    ended: list[Ended] = []
    for run in host.begun_runs():
        if not json_:
            console(stderr=True).print(f"resuming {run}")
        ended.append(wait_for(host, run, shown=not json_))
    if not json_:
        for row in host.left_runs():
            console(stderr=True).print(waiting_words(row), soft_wrap=True)
    return ended


def tell(ended: Ended, where: Where, *, json_: bool) -> int:
    """Print the outcome of a run; the exit code of the command that requested it."""
    workspace = open_workspace(where.address)
    if json_:
        emit_json(get_run(workspace, ended.run.run_id))
        return exit_code_of(ended)
    outcome = get_run_outcome(workspace, ended.run.run_id)
    summary(ended, outcome.materializations, outcome.failed_checks)
    return exit_code_of(ended)


def exit_code_of(ended: Ended) -> int:
    """The exit code of a command that requested a run."""
    return 0 if ended.run.state is RunState.SUCCEEDED else FAILED


def read_config(given: str | None) -> dict[str, Any]:
    """The run configuration: JSON itself, or a file that holds it."""
    if given is None:
        return {}
    written = given.lstrip().startswith(("{", "["))
    remedy = "name a JSON file, or pass JSON"
    text = given if written else read_text_file(Path(given), remedy=remedy)
    try:
        found = json.loads(text)
        _ = msgspec.json.encode(found)  # what can be read but not stored: half of a character
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise Invalid(
            f"invalid JSON in --config: {half!r} is half of a character", remedy="correct it"
        ) from None
    except ValueError as error:
        raise Invalid(f"invalid JSON in --config: {error}", remedy="correct it") from None
    except RecursionError:
        raise Invalid("the JSON in --config is nested too deeply", remedy="correct it") from None
    if not isinstance(found, dict):
        raise Invalid("--config is not a JSON object", remedy='use an object such as {"ops": {…}}')
    return cast("dict[str, Any]", found)


def read_tags(given: Sequence[str]) -> dict[str, str]:
    """Tags as they are typed."""
    pairs = [text.partition("=") for text in given]
    if wrong := [key for key, found, _ in pairs if not found or not key]:
        raise Invalid(f"the tag {wrong[0]!r} has no value", remedy="use --tag key=value")
    return {key: value for key, _, value in pairs}


def _show_plan(found: RunPreview, *, json_: bool) -> int:
    if json_:
        emit_json(found)
        return 0
    out = console()
    out.print(f"{plural(len(found.tasks), 'task')}, in a possible order:")
    for task in found.tasks:
        out.print(Text(f"  {place_shown(task.asset_key, task.partition_key)}"))
    return 0
