"""`servo materialize` and `servo resume`: make assets, and finish what was begun."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import click

from servo.cli.code import as_dagster_option, find_code
from servo.cli.output import console, emit_json, plural
from servo.cli.run_display import summary, wait_for
from servo.cli.run_rows import run_and_tasks
from servo.cli.workspace import DEFAULT_STORE, open_target
from servo.core.keys import AssetKey
from servo.core.plan import Plan
from servo.core.state.rows.execution import RunRow
from servo.core.state.states import RunState, TaskState
from servo.errors import Conflict, Invalid, NotFound
from servo.projection.reader import Reader
from servo.runtime.system import SystemClock, SystemEntropy
from servo.sdk.config import RunConfig
from servo.sdk.planning import plan_assets
from servo.sdk.project import Project
from servo.sdk.selection import AssetSelection
from servo.worker.loader import load_project
from servo.worker.session import Session, setting_for

FAILED = 1
CODE_LABEL = "servo/code"


def _where(command: click.Command) -> click.Command:
    for option in (
        click.option(
            "--store",
            envvar="SERVO_STORE",
            default=DEFAULT_STORE,
            show_default=True,
            help="Folder or URL of the store; also $SERVO_STORE.",
        ),
        click.option("--tenant", default="default", show_default=True, help="Name of the tenant."),
        click.option(
            "--workspace", default="default", show_default=True, help="Name of the workspace."
        ),
        click.option(
            "--workers", type=click.IntRange(1), default=2, show_default=True, help="Processes."
        ),
        click.option("--json", "json_", is_flag=True, help="Print one JSON value."),
        as_dagster_option,
    ):
        command = option(command)
    return command


@_where
@click.command("materialize")
@click.argument("code", required=False)
@click.argument("select", nargs=-1)
@click.option("--config", "config", help="Configuration: a file of JSON, or JSON itself.")
@click.option("--tag", "tags", multiple=True, metavar="KEY=VALUE", help="A tag of the run.")
@click.option("--dry-run", is_flag=True, help="Show the plan and do nothing.")
def materialize(  # noqa: PLR0913 - the options of the command
    *,
    code: str | None,
    select: Sequence[str],
    config: str | None,
    tags: Sequence[str],
    dry_run: bool,
    store: str,
    tenant: str,
    workspace: str,
    workers: int,
    json_: bool,
    as_dagster: bool,
) -> int:
    """Make the assets of CODE, a file or a module, or those of them that are SELECTed.

    SELECT is a key, or an expression such as 'group:"raw" and not key:"tmp*"' or 'orders+'.

    Runs that were begun in this workspace and have not ended are finished first.
    """
    folder = Path.cwd()
    name = find_code(code, folder)
    project = load_project(name, folder, as_dagster=as_dagster)
    plan = plan_assets(project, _chosen(project, select))
    given, labels = read_config(config), {**read_tags(tags), CODE_LABEL: name}
    if dry_run:
        return _show_plan(plan, json_=json_)
    setting = setting_for(
        name,
        folder,
        _store_url(store),
        tenant=tenant,
        workspace=workspace,
        as_dagster=as_dagster,
    )
    with Session(setting, workers=workers) as session:
        session.deploy(name, project.definitions())
        _finish_begun(session, json_=json_)
        began = SystemClock().monotonic()
        key = f"materialize:{SystemEntropy().token_bytes(12).hex()}"
        run_id = session.request(plan, key, tags=labels, config=given)
        run = _wait(session, run_id, json_=json_)
        return _tell(session, run, SystemClock().monotonic() - began, json_=json_)


@_where
@click.command("resume")
@click.argument("code", required=False)
def resume(  # noqa: PLR0913 - the options of the command
    *,
    code: str | None,
    store: str,
    tenant: str,
    workspace: str,
    workers: int,
    json_: bool,
    as_dagster: bool,
) -> int:
    """Finish the runs that were begun and have not ended."""
    folder = Path.cwd()
    name = find_code(code, folder)
    project = load_project(name, folder, as_dagster=as_dagster)
    setting = setting_for(
        name,
        folder,
        _store_url(store),
        tenant=tenant,
        workspace=workspace,
        as_dagster=as_dagster,
    )
    with Session(setting, workers=workers) as session:
        session.deploy(name, project.definitions())
        codes = _finish_begun(session, json_=json_)
        if not codes and not json_:
            console().print("nothing to resume: every run has ended")
        return max(codes, default=0)


@_where
@click.command("retry", short_help="Do again what a run left undone.")
@click.argument("run_id")
@click.argument("code", required=False)
@click.option("--all", "all_", is_flag=True, help="Everything, also what succeeded.")
def retry(  # noqa: PLR0913 - the options of the command
    *,
    run_id: str,
    code: str | None,
    all_: bool,
    store: str,
    tenant: str,
    workspace: str,
    workers: int,
    json_: bool,
    as_dagster: bool,
) -> int:
    """Make again what a run failed, skipped or was stopped before, in a new run with its tags."""
    target = open_target(store, tenant, workspace)
    run, tasks = run_and_tasks(Reader(target.store, target.paths).snapshot(), run_id)
    left = [task for task in tasks if all_ or task.state is not TaskState.SUCCEEDED]
    if not left:
        raise Conflict(f"every task of {run.run_id} succeeded", remedy="use --all to repeat them")
    folder = Path.cwd()
    name = find_code(code or run.labels.get(CODE_LABEL), folder)
    project = load_project(name, folder, as_dagster=as_dagster)
    plan = plan_assets(project, [AssetKey.parse(task.asset_key) for task in left])
    setting = setting_for(
        name,
        folder,
        _store_url(store),
        tenant=tenant,
        workspace=workspace,
        as_dagster=as_dagster,
    )
    with Session(setting, workers=workers) as session:
        session.deploy(name, project.definitions())
        began = SystemClock().monotonic()
        key = f"retry:{run.run_id}:{SystemEntropy().token_bytes(8).hex()}"
        ended = _wait(session, session.repeat(run, plan, key), json_=json_)
        return _tell(session, ended, SystemClock().monotonic() - began, json_=json_)


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


def _store_url(store: str) -> str:
    return store if "://" in store else str(Path(store).expanduser().absolute())


def _chosen(project: Project, select: Sequence[str]) -> list[AssetKey]:
    if not select:
        return project.order
    return AssetSelection.from_coercible(list(select)).resolve(project)


def _show_plan(plan: Plan, *, json_: bool) -> int:
    if json_:
        emit_json([{"asset": task.asset_key, "upstream": task.upstream} for task in plan.tasks])
        return 0
    out = console()
    out.print(f"{plural(len(plan.tasks), 'task')}, in an order they could run in:")
    for task in plan.tasks:
        out.print(f"  {task.asset_key}")
    return 0


def _finish_begun(session: Session, *, json_: bool) -> list[int]:
    """Wait for every run that was begun earlier; the exit code of each."""
    codes: list[int] = []
    for run in session.open_runs():
        if not json_:
            console(stderr=True).print(f"resuming {run.run_id}")
        began = SystemClock().monotonic()
        ended = _wait(session, run.run_id, json_=json_)
        codes.append(_tell(session, ended, SystemClock().monotonic() - began, json_=json_))
    return codes


def _wait(session: Session, run_id: str, *, json_: bool) -> RunRow:
    try:
        return wait_for(session, run_id, shown=not json_)
    except KeyboardInterrupt:
        session.pool.drain()
        console(stderr=True).print("interrupted; `servo resume` goes on from here")
        raise


def _tell(session: Session, run: RunRow, seconds: float, *, json_: bool) -> int:
    tasks = session.tasks(run.run_id)
    if json_:
        emit_json({"run": run, "tasks": tasks})
    else:
        summary(run, tasks, seconds)
    return 0 if run.state is RunState.SUCCEEDED else FAILED
