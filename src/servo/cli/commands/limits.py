"""`servo admin quota`, `pool` and `lane`: how much may run at once, and who goes first.

A request is left in the store. Whoever leads carries it out within seconds, or at once when
somebody leads again.
"""

from datetime import timedelta

import click

from servo.cli.durations import MILLISECOND, format_duration, parse_duration
from servo.cli.leaving import leave, tell_left
from servo.cli.options import json_option
from servo.cli.output import console, emit_json
from servo.cli.tables import grid
from servo.cli.workspace import Target, of_a_workspace
from servo.core.events.quotas import LaneWeightSet, PoolLimitSet
from servo.core.fold.quotas import MAX_WEIGHT
from servo.core.lanes import default_weight, lane_weights
from servo.core.quotas import WorkspaceLimit, quota_set, workspace_limits
from servo.core.state.rows.system import QuotaRow
from servo.errors import Invalid
from servo.projection.read.reader import Reader

WORKSPACE = "workspace"
POOL = "pool"
LANE = "lane"
NONE = "none"
MOST_DIGITS = 18
DURATION = "max_run_duration_ms"


# --- pools ----------------------------------------------------------------------------------------


@click.group("pool")
def pool() -> None:
    """Limit how many tasks of a pool run at once."""


@pool.command("set", short_help="Limit a pool.")
@click.argument("name")
@click.argument("limit", type=click.IntRange(0))
@of_a_workspace
def set_pool(*, target: Target, name: str, limit: int) -> None:
    """Let at most LIMIT tasks of the pool NAME run at once; 0 holds all of them back."""
    leave(target, "pool", PoolLimitSet(pool=name, limit=limit))
    tell_left(target, f"the pool {name}", f"limited to {limit}")


@pool.command("remove", short_help="Lift the limit of a pool.")
@click.argument("name")
@of_a_workspace
def remove_pool(*, target: Target, name: str) -> None:
    """Lift the limit of the pool NAME."""
    leave(target, "pool", PoolLimitSet(pool=name, limit=None))
    tell_left(target, f"the limit of the pool {name}", "lifted")


@pool.command("list", short_help="The limits there are.")
@json_option
@of_a_workspace
def list_pools(*, target: Target, json_: bool) -> None:
    """List the pools that have a limit."""
    rows = [row for row in _quotas(target) if row.scope == POOL]
    limited = [row for row in rows if row.max_concurrent_tasks is not None]
    if json_:
        emit_json(limited)
        return
    table = grid("pool", "limit", left=1, whole=1)
    for row in limited:
        table.add_row(row.name, str(row.max_concurrent_tasks))
    console().print(table if limited else "no pool has a limit")


# --- lanes ----------------------------------------------------------------------------------------


@click.group("lane")
def lane() -> None:
    """Share workers between interactive runs, schedules, automation and backfills."""


@lane.command("set", short_help="Set the weight of a lane.")
@click.argument("name")
@click.argument("weight", type=click.IntRange(1, MAX_WEIGHT))
@of_a_workspace
def set_lane(*, target: Target, name: str, weight: int) -> None:
    """Give the lane NAME a WEIGHT: twice the weight gets twice the tasks when lanes compete."""
    leave(target, "lane", LaneWeightSet(lane=name, weight=weight))
    tell_left(target, f"the weight of the lane {name}", f"set to {weight}")


@lane.command("reset", short_help="Give a lane its default weight.")
@click.argument("name")
@of_a_workspace
def reset_lane(*, target: Target, name: str) -> None:
    """Give the lane NAME its default weight again."""
    weight = default_weight(name)
    leave(target, "lane", LaneWeightSet(lane=name, weight=weight))
    tell_left(target, f"the weight of the lane {name}", f"set to {weight}")


@lane.command("list", short_help="The lanes and their weights.")
@json_option
@of_a_workspace
def list_lanes(*, target: Target, json_: bool) -> None:
    """List the lanes with their weights, the largest share first."""
    rows = [row for row in _quotas(target) if row.scope == LANE]
    found = lane_weights({row.name: row.weight for row in rows if row.weight is not None})
    if json_:
        emit_json(found)
        return
    table = grid("lane", "weight", "default", left=1, whole=1)
    for row in found:
        table.add_row(row.lane, str(row.weight), str(row.default))
    console().print(table)


# --- the workspace --------------------------------------------------------------------------------


@click.command("quota", short_help="Limit a whole workspace.")
@click.option("--max-parallel", "max_concurrent_tasks", metavar="N|none", help="Tasks at once.")
@click.option(
    "--max-runs", "max_concurrent_runs", metavar="N|none", help="Runs at once; others wait."
)
@click.option(
    "--max-queued",
    "max_queued_tasks",
    metavar="N|none",
    help="Tasks that wait in a queue for a worker; others stay ready.",
)
@click.option(
    "--max-daily-runs",
    "max_daily_runs",
    metavar="N|none",
    help="Runs a day, by UTC; further requests are refused.",
)
@click.option(
    "--max-run-duration",
    DURATION,
    metavar="TIME|none",
    help="How long a run may take, such as 90m or 24h; then it is TIMED_OUT.",
)
@click.option(
    "--max-tasks-per-run",
    "max_tasks_per_run",
    metavar="N|none",
    help="Tasks in a run; a larger plan is refused.",
)
@click.option(
    "--max-backfill-runs",
    "max_backfill_concurrency",
    metavar="N|none",
    help="Runs of all backfills at once; further chunks wait.",
)
@json_option
@of_a_workspace
def quota(*, target: Target, json_: bool, **limits: str | None) -> None:
    """Limit a workspace; `none` lifts a limit. Without an option, show the limits."""
    given = {name: _parsed(name, text) for name, text in limits.items() if text is not None}
    if not given:
        _show(target, json_=json_)
        return
    if json_:
        raise Invalid("--json shows limits and sets none", remedy="leave it out, or the others")
    leave(target, "quota", quota_set(given))
    tell_left(target, "the limits", "set")


def _parsed(name: str, text: str) -> int | None:
    if text == NONE:
        return None
    if name == DURATION:
        return parse_duration(text) // MILLISECOND
    if not text.isdecimal() or len(text) > MOST_DIGITS:
        raise Invalid(f"a limit of {text!r}", remedy=f"use a whole number, or `{NONE}`")
    return int(text)


def _show(target: Target, *, json_: bool) -> None:
    row = next((row for row in _quotas(target) if row.scope == WORKSPACE), None)
    limits = workspace_limits(row)
    if json_:
        emit_json(limits)
        return
    table = grid("limit", "at most", "set by")
    for limit in limits:
        table.add_row(limit.what, _shown(limit), "default" if limit.is_default else WORKSPACE)
    console().print(table)


def _shown(limit: WorkspaceLimit) -> str:
    if limit.limit is None:
        return "no limit"
    if limit.name == DURATION:
        return format_duration(timedelta(milliseconds=limit.limit))
    return str(limit.limit)


def _quotas(target: Target) -> list[QuotaRow]:
    rows = Reader(target.store, target.paths).snapshot().rows("quotas")
    return sorted(
        (row for row in rows if isinstance(row, QuotaRow)), key=lambda row: (row.scope, row.name)
    )
