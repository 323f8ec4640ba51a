"""`servo admin pool` and `servo admin quota`: how much may run at once in a workspace."""

import click

from servo.cli.moment import at_a_moment
from servo.cli.options import json_option
from servo.cli.output import console, emit_json
from servo.cli.receipts import QUEUED, tell_receipt
from servo.cli.tables import grid
from servo.cli.workspace import with_workspace
from servo.core.state.rows.system import QuotaRow
from servo.errors import Invalid
from servo.operations.moments import AsOf
from servo.operations.quotas import (
    get_quota,
    list_pools,
    remove_pool_limit,
    set_pool_limit,
    set_quota,
)
from servo.workspace.workspace import Workspace


@click.group("pool")
def pool() -> None:
    """Limit how many tasks of a pool run at once."""


@pool.command("set", short_help="Limit a pool.")
@click.argument("name")
@click.argument("limit", type=click.IntRange(0))
@json_option
@with_workspace
def set_(*, workspace: Workspace, name: str, limit: int, json_: bool) -> int:
    """Let at most LIMIT tasks of the pool NAME run at once; 0 holds all of them back."""
    found = set_pool_limit(workspace, name, limit)
    if json_:
        emit_json(found)
        return QUEUED if found.receipt.queued else 0
    return tell_receipt(found.receipt, f"Limited the pool {name} to {limit}.")


@pool.command("remove", short_help="Remove the limit of a pool.")
@click.argument("name")
@json_option
@with_workspace
def remove(*, workspace: Workspace, name: str, json_: bool) -> int:
    """Remove the limit of the pool NAME."""
    found = remove_pool_limit(workspace, name)
    if json_:
        emit_json(found)
        return QUEUED if found.receipt.queued else 0
    return tell_receipt(found.receipt, f"Removed the limit of the pool {name}.")


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


@click.command("quota", short_help="Limit a whole workspace.")
@click.option("--max-parallel", type=click.IntRange(0), help="Tasks that run at once.")
@click.option("--max-runs", type=click.IntRange(0), help="Runs at once; others wait.")
@at_a_moment
@json_option
@with_workspace
def quota(
    *,
    workspace: Workspace,
    max_parallel: int | None,
    max_runs: int | None,
    as_of: AsOf | None,
    json_: bool,
) -> int:
    """Limit what runs at once in a workspace; without an option, show the limits."""
    given = {"max_concurrent_tasks": max_parallel, "max_concurrent_runs": max_runs}
    limits = {name: limit for name, limit in given.items() if limit is not None}
    if not limits:
        _show(get_quota(workspace, as_of=as_of), json_=json_)
        return 0
    if as_of is not None:
        raise Invalid("limits of the past cannot be set", remedy="leave out --as-of")
    found = set_quota(workspace, limits)
    if json_:
        emit_json(found)
        return QUEUED if found.receipt.queued else 0
    return tell_receipt(found.receipt, "Set the limits of the workspace.")


def _show(row: QuotaRow | None, *, json_: bool) -> None:
    if json_:
        emit_json(row)
        return
    tasks = None if row is None else row.max_concurrent_tasks
    runs = None if row is None else row.max_concurrent_runs
    console().print(f"tasks at once: {_limit(tasks)}; runs at once: {_limit(runs)}")


def _limit(value: int | None) -> str:
    return "no limit" if value is None else str(value)
