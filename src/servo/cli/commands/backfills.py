"""`servo backfill`: materialize many partitions; follow, pause, cancel and retry it."""

from collections.abc import Sequence
from typing import Any

import click

from servo.cli.backfill_steps import (
    begin_and_wait,
    follow_here,
    tell_begun,
    tell_end,
    tell_who_works,
)
from servo.cli.command_code import Selected, leader_locations, one_code
from servo.cli.commands.materialize import with_workers
from servo.cli.hosts import open_host
from servo.cli.options.backfill_options import asked_for, request_id_option, with_partition_choice
from servo.cli.options.code import as_dagster_option
from servo.cli.options.completing import backfill_ids
from servo.cli.options.groups import NounGroup
from servo.cli.options.moment import at_a_moment
from servo.cli.options.project import code_behind, code_or_selection
from servo.cli.options.shared import json_option, paged, tell_older
from servo.cli.options.workspace import Where, at_a_workspace, with_workspace
from servo.cli.rendering.backfill_display import tell_details, tell_list, tell_preview
from servo.cli.rendering.output import console, emit_json, plural
from servo.cli.rendering.receipts import tell_change
from servo.host.location_code import LocationCode
from servo.operations.backfill_requests import (
    Asked,
    BackfillPreview,
    begin_backfill,
    new_retry,
    prepare_backfill,
    preview_backfill,
)
from servo.operations.backfills import (
    BackfillChanged,
    cancel_backfill,
    get_backfill,
    list_backfills,
    pause_backfill,
    present_backfill,
    resume_backfill,
)
from servo.operations.interface.listing import Page
from servo.operations.interface.moments import AsOf
from servo.workspace.workspace import Workspace, open_workspace

_wait = click.option("--wait", "wait_", is_flag=True, help="Wait until it has finished.")
_id = click.argument("backfill_id", shell_complete=backfill_ids)


@click.group("backfill", cls=NounGroup)
def backfill() -> None:
    """Materialize many partitions, a few in each run, and follow the progress."""


@backfill.command("create", short_help="Materialize many partitions.")
@click.argument("code", required=False)
@click.argument("select", nargs=-1)
@with_partition_choice
@_wait
@with_workers
@as_dagster_option
@json_option
@at_a_workspace
def create(  # noqa: PLR0913 - the options of the command
    *,
    code: str | None,
    select: Sequence[str],
    where: Where,
    workers: int,
    as_dagster: bool,
    wait_: bool,
    json_: bool,
    **options: Any,
) -> int:
    """Materialize partitions of the assets of CODE, or of the SELECTed assets.

    Choose a range (--from, --to), single partitions (--partition), or --all, --missing, --failed or
    --stale, which can be limited to a range. The list is fixed when the backfill is created. Its
    runs materialize --chunk-size partitions each, --concurrency of them at the same time. The
    leader of the workspace does the work: `servo dev`, this command with --wait, or `servo resume`
    later.
    """
    found, select = _code(where, code, select, as_dagster=as_dagster)
    asked = asked_for(found, options)
    if where.workspace_or_empty().address.is_in_memory:
        _ = _preview(found, select, asked, where)  # a refused request leaves no store behind
    workspace = open_workspace(where.address, must_exist=False)
    evaluator = found.evaluator(where.address, workspace)
    event = prepare_backfill(workspace, evaluator, asked, select)
    found.forget_project()
    if event is None:
        nothing = f"Nothing to do: no partition is {asked.choice.which}."
        emit_json(None) if json_ else console().print(nothing)
        return 0
    if wait_:
        return begin_and_wait(event, found, where, workers, json_=json_)
    return tell_begun(workspace, begin_backfill(workspace, event), json_=json_)


@backfill.command("preview", short_help="Show what a backfill would do.")
@click.argument("code", required=False)
@click.argument("select", nargs=-1)
@with_partition_choice
@as_dagster_option
@json_option
@at_a_workspace
def preview(
    *,
    code: str | None,
    select: Sequence[str],
    where: Where,
    as_dagster: bool,
    json_: bool,
    **options: Any,
) -> None:
    """Show what `servo backfill create` with the same options would do. Nothing is created."""
    found, select = _code(where, code, select, as_dagster=as_dagster)
    outlined = _preview(found, select, asked_for(found, options), where)
    if json_:
        emit_json(outlined)
        return
    tell_preview(outlined)


@backfill.command("list", short_help="List the newest backfills.")
@paged
@at_a_moment
@json_option
@with_workspace
def list_(*, workspace: Workspace, page: Page, as_of: AsOf | None, json_: bool) -> None:
    """List the newest backfills."""
    found = list_backfills(workspace, page, as_of=as_of)
    if json_:
        emit_json(found)
        return
    tell_list(found.items)
    tell_older(found.next_cursor)


@backfill.command("show", short_help="Show one backfill and its runs.")
@_id
@click.option("--partitions", is_flag=True, help="List partitions, not runs.")
@at_a_moment
@json_option
@with_workspace
def show(
    *,
    workspace: Workspace,
    backfill_id: str,
    partitions: bool,
    as_of: AsOf | None,
    json_: bool,
) -> None:
    """Show one backfill and its runs. BACKFILL_ID can be abbreviated."""
    found = get_backfill(workspace, backfill_id, as_of=as_of)
    if json_:
        emit_json(found)
        return
    tell_details(found, partitions=partitions)


@backfill.command("pause", short_help="Pause a backfill.")
@_id
@json_option
@with_workspace
def pause(*, workspace: Workspace, backfill_id: str, json_: bool) -> int:
    """Pause a backfill: it starts no more runs. Running ones finish with all their partitions."""
    found = pause_backfill(workspace, backfill_id)
    return tell_change(found, _paused(found), json_=json_)


@backfill.command("resume", short_help="Resume a paused backfill.")
@_id
@json_option
@with_workspace
def resume(*, workspace: Workspace, backfill_id: str, json_: bool) -> int:
    """Resume a paused backfill."""
    found = resume_backfill(workspace, backfill_id)
    name = found.backfill.backfill_id
    code = tell_change(found, f"Resumed {name}.", json_=json_)
    if not json_:
        tell_who_works(workspace, name)
    return code


@backfill.command("cancel", short_help="Cancel a backfill and its runs.")
@_id
@click.option("--force", is_flag=True, help="Cancel at once, even if workers do not respond.")
@json_option
@with_workspace
def cancel(*, workspace: Workspace, backfill_id: str, force: bool, json_: bool) -> int:
    """Cancel a backfill: it starts no more runs, and its running ones are interrupted.

    Running tasks have 10 seconds to clean up. With --force, their processes are killed at once, the
    backfill becomes CANCELLED, and later reports from its workers are ignored. --force also works
    on a backfill that is already being cancelled.
    """
    found = cancel_backfill(workspace, backfill_id, force=force)
    row = found.backfill
    done = f"{row.state.value.capitalize()} {row.backfill_id}."
    return tell_change(found, done, json_=json_)


@backfill.command("retry-failed", short_help="Retry the failed partitions of a backfill.")
@_id
@click.argument("code", required=False)
@request_id_option
@_wait
@with_workers
@as_dagster_option
@json_option
@at_a_workspace
def retry_failed(  # noqa: PLR0913 - the options of the command
    *,
    backfill_id: str,
    code: str | None,
    request_id: str | None,
    where: Where,
    workers: int,
    as_dagster: bool,
    wait_: bool,
    json_: bool,
) -> int:
    """Create a backfill of the partitions that failed in another one."""
    workspace = open_workspace(where.address)
    event = new_retry(workspace, backfill_id, request_id=request_id)
    if not wait_:
        return tell_begun(workspace, begin_backfill(workspace, event), json_=json_)
    found = one_code(
        code or code_behind(event.location, event.labels), workspace, as_dagster=as_dagster
    )
    return begin_and_wait(event, found, where, workers, json_=json_)


@backfill.command("wait", short_help="Wait until a backfill has finished.")
@_id
@click.argument("code", required=False)
@with_workers
@as_dagster_option
@json_option
@at_a_workspace
def wait(
    *,
    backfill_id: str,
    code: str | None,
    where: Where,
    workers: int,
    as_dagster: bool,
    json_: bool,
) -> int:
    """Wait until a backfill has finished. If no leader continues it, this process does."""
    workspace = open_workspace(where.address)
    present = present_backfill(workspace, backfill_id)
    row = present.row
    if row.finished_at is not None:
        return tell_end(present, json_=json_)
    found = one_code(
        code or code_behind(row.location, row.labels), workspace, as_dagster=as_dagster
    )
    with open_host(found, where, workers, backfills=True, plans=False) as host:
        return tell_end(follow_here(host, row.backfill_id, json_=json_), json_=json_)


# --- what was asked for ---------------------------------------------------------------------------


def _code(
    where: Where, code: str | None, select: Sequence[str], *, as_dagster: bool
) -> tuple[LocationCode, Sequence[str]]:
    """The named code, or the leader's, and the selection."""
    workspace = where.workspace_or_empty()
    code, select = code_or_selection(code, select, leader_locations(workspace))
    chosen = Selected(select=select)
    return one_code(code, workspace, as_dagster=as_dagster, selected=chosen), select


def _preview(
    code: LocationCode, select: Sequence[str], asked: Asked, where: Where
) -> BackfillPreview:
    workspace = where.workspace_or_empty()
    return preview_backfill(workspace, code.evaluator(where.address, workspace), asked, select)


def _paused(found: BackfillChanged) -> str:
    """The message that a backfill was paused, and what still runs."""
    row = found.backfill
    if not row.active_chunks:
        return f"Paused {row.backfill_id}."
    most = min(row.active_chunks * row.chunk_size, row.total_partitions)
    runs, partitions = plural(row.active_chunks, "run"), plural(most, "partition")
    return f"Paused {row.backfill_id}. {runs} still running: up to {partitions}."
