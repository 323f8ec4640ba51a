"""`servo admin quota`, `pool` and `lane`: how much may run at once, and how lanes share it."""

from datetime import timedelta

import click

from servo.cli.options.durations import MILLISECOND, format_duration, parse_duration
from servo.cli.options.groups import NounGroup
from servo.cli.options.moment import at_a_moment
from servo.cli.options.shared import json_option
from servo.cli.options.workspace import (
    Where,
    at_a_workspace,
    open_without_user_code,
    with_new_workspace,
    with_workspace,
)
from servo.cli.rendering.output import console, emit_json
from servo.cli.rendering.receipts import tell_change
from servo.cli.rendering.replay_bar import replay_bar
from servo.cli.rendering.tables import grid
from servo.errors import Invalid
from servo.operations.interface.listing import Listing
from servo.operations.interface.moments import AsOf
from servo.operations.quotas import (
    WorkspaceLimit,
    get_quota,
    list_lanes,
    list_pools,
    remove_pool_limit,
    reset_lane_weight,
    set_lane_weight,
    set_pool_limit,
    set_quota,
)
from servo.workspace.workspace import Workspace, unwatched

NONE = "none"
MOST_DIGITS = 18
DURATION = "max_run_duration_ms"


@click.group("pool", cls=NounGroup)
def pool() -> None:
    """Limit how many tasks of a pool run at once."""


@pool.command("set", short_help="Limit a pool.")
@click.argument("name")
@click.argument("limit", type=click.IntRange(0))
@json_option
@with_new_workspace
def set_(*, workspace: Workspace, name: str, limit: int, json_: bool) -> int:
    """Let at most LIMIT tasks of the pool NAME run at once; with 0, none starts.

    Creates the workspace if it does not exist.
    """
    found = set_pool_limit(workspace, name, limit)
    return tell_change(found, f"Limited the pool {name} to {limit}.", json_=json_)


@pool.command("remove", short_help="Remove the limit of a pool.")
@click.argument("name")
@json_option
@with_workspace
def remove(*, workspace: Workspace, name: str, json_: bool) -> int:
    """Remove the limit of the pool NAME."""
    found = remove_pool_limit(workspace, name)
    return tell_change(found, f"Removed the limit of the pool {name}.", json_=json_)


@pool.command("list", short_help="List the limits of pools.")
@at_a_moment
@json_option
@with_workspace
def list_(*, workspace: Workspace, as_of: AsOf | None, json_: bool) -> None:
    """List the pools that have a limit."""
    found = list_pools(workspace, as_of=as_of)
    if json_:
        emit_json(found)
        return
    table = grid("pool", "limit", left=1, whole=1)
    for row in found.items:
        table.add_row(row.name, str(row.max_concurrent_tasks))
    none = "No pool has a limit. Set one with `servo admin pool set`."
    console().print(table if found.items else none)


@click.group("lane", cls=NounGroup)
def lane() -> None:
    """Share workers between interactive runs, schedules, automation and backfills."""


@lane.command("set", short_help="Set the weight of a lane.")
@click.argument("name")
@click.argument("weight", type=int)
@json_option
@with_new_workspace
def set_lane(*, workspace: Workspace, name: str, weight: int, json_: bool) -> int:
    """Give the lane NAME a WEIGHT: twice the weight gets twice the tasks when lanes compete.

    Creates the workspace if it does not exist.
    """
    found = set_lane_weight(workspace, name, weight)
    return tell_change(found, f"Set the weight of the lane {name} to {weight}.", json_=json_)


@lane.command("reset", short_help="Give a lane its default weight.")
@click.argument("name")
@json_option
@with_workspace
def reset_lane(*, workspace: Workspace, name: str, json_: bool) -> int:
    """Give the lane NAME its default weight again."""
    found = reset_lane_weight(workspace, name)
    return tell_change(found, f"Set the weight of the lane {name} to {found.weight}.", json_=json_)


@lane.command("list", short_help="List the lanes and their weights.")
@at_a_moment
@json_option
@with_workspace
def list_of_lanes(*, workspace: Workspace, as_of: AsOf | None, json_: bool) -> None:
    """List the lanes with their weights, the largest share first."""
    found = list_lanes(workspace, as_of=as_of)
    if json_:
        emit_json(found)
        return
    table = grid("lane", "weight", "default", left=1, whole=1)
    for row in found.items:
        table.add_row(row.lane, str(row.weight), str(row.default))
    console().print(table)


@click.command("quota", short_help="Limit a whole workspace.")
@click.option(
    "--max-parallel", "max_concurrent_tasks", metavar="N|none", help="Tasks that may run at once."
)
@click.option(
    "--max-runs",
    "max_concurrent_runs",
    metavar="N|none",
    help="Runs that may be active at once; others wait.",
)
@click.option(
    "--max-queued",
    "max_queued_tasks",
    metavar="N|none",
    help="Tasks that may be queued for workers; others stay ready.",
)
@click.option(
    "--max-daily-runs",
    "max_daily_runs",
    metavar="N|none",
    help="Runs per UTC day; further requests are rejected.",
)
@click.option(
    "--max-run-duration",
    DURATION,
    metavar="TIME|none",
    help="How long a run may take, such as 90m or 24h; then it times out.",
)
@click.option(
    "--max-tasks-per-run",
    "max_tasks_per_run",
    metavar="N|none",
    help="Tasks per run; larger plans are rejected.",
)
@click.option(
    "--max-backfill-runs",
    "max_backfill_concurrency",
    metavar="N|none",
    help="Backfill runs that may be active at once; others wait.",
)
@at_a_moment
@json_option
@at_a_workspace
def quota(*, where: Where, as_of: AsOf | None, json_: bool, **limits: str | None) -> int:
    """Limit a workspace; `none` lifts a limit. Without an option, show the limits.

    Setting a limit creates the workspace if it does not exist.
    """
    given = {name: _parsed(name, text) for name, text in limits.items() if text is not None}
    if given and as_of is not None:
        raise Invalid("limits cannot be set in the past", remedy="leave out --as-of")
    replaying = unwatched if json_ else replay_bar
    workspace = open_without_user_code(where, replaying, must_exist=not given)
    if not given:
        _show(get_quota(workspace, as_of=as_of), json_=json_)
        return 0
    return tell_change(set_quota(workspace, given), "Set the limits of the workspace.", json_=json_)


def _parsed(name: str, text: str) -> int | None:
    if text == NONE:
        return None
    if name == DURATION:
        return parse_duration(text) // MILLISECOND
    if not text.isdecimal() or len(text) > MOST_DIGITS:
        raise Invalid(f"invalid limit: {text!r}", remedy=f"use a whole number, or `{NONE}`")
    return int(text)


def _show(found: Listing[WorkspaceLimit], *, json_: bool) -> None:
    if json_:
        emit_json(found)
        return
    table = grid("limit", "at most", "set by")
    for limit in found.items:
        table.add_row(limit.what, _shown(limit), "default" if limit.is_default else "workspace")
    console().print(table)


def _shown(limit: WorkspaceLimit) -> str:
    if limit.limit is None:
        return "no limit"
    if limit.name == DURATION:
        return format_duration(timedelta(milliseconds=limit.limit))
    return str(limit.limit)
