"""`servo admin pool` and `servo admin quota`: how much may run at once in a workspace.

A request is left in the store. Whoever leads carries it out within seconds, or at once when
somebody leads again.
"""

import click
from rich import box
from rich.table import Table

from servo.cli.leaving import leave, tell_left
from servo.cli.options import json_option
from servo.cli.output import console, emit_json
from servo.cli.workspace import Target, of_a_workspace
from servo.core.events.quotas import PoolLimitSet, QuotaSet
from servo.core.state.rows.system import QuotaRow
from servo.errors import Invalid
from servo.projection.read.reader import Reader

WORKSPACE = "workspace"
POOL = "pool"


@click.group("pool")
def pool() -> None:
    """Limit how many tasks of a pool run at once."""


@pool.command("set", short_help="Limit a pool.")
@click.argument("name")
@click.argument("limit", type=click.IntRange(0))
@of_a_workspace
def set_(*, target: Target, name: str, limit: int) -> None:
    """Let at most LIMIT tasks of the pool NAME run at once; 0 holds all of them back."""
    leave(target, "pool", PoolLimitSet(pool=name, limit=limit))
    tell_left(target, f"the pool {name}", f"limited to {limit}")


@pool.command("remove", short_help="Lift the limit of a pool.")
@click.argument("name")
@of_a_workspace
def remove(*, target: Target, name: str) -> None:
    """Lift the limit of the pool NAME."""
    leave(target, "pool", PoolLimitSet(pool=name, limit=None))
    tell_left(target, f"the limit of the pool {name}", "lifted")


@pool.command("list", short_help="The limits there are.")
@json_option
@of_a_workspace
def list_(*, target: Target, json_: bool) -> None:
    """List the pools that have a limit."""
    rows = [row for row in _quotas(target) if row.scope == POOL]
    limited = [row for row in rows if row.max_concurrent_tasks is not None]
    if json_:
        emit_json(limited)
        return
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    table.add_column("pool", no_wrap=True)
    table.add_column("limit", justify="right")
    for row in limited:
        table.add_row(row.name, str(row.max_concurrent_tasks))
    console().print(table if limited else "no pool has a limit")


@click.command("quota", short_help="Limit a whole workspace.")
@click.option("--max-parallel", type=click.IntRange(0), help="Tasks that run at once.")
@click.option("--max-runs", type=click.IntRange(0), help="Runs that are at work at once.")
@json_option
@of_a_workspace
def quota(*, target: Target, max_parallel: int | None, max_runs: int | None, json_: bool) -> None:
    """Limit what runs at once in a workspace; without an option, show the limits."""
    if max_parallel is None and max_runs is None:
        _show(target, json_=json_)
        return
    if json_:
        raise Invalid("--json shows limits and sets none", remedy="leave it out, or the others")
    event = QuotaSet(max_concurrent_tasks=max_parallel, max_concurrent_runs=max_runs)
    leave(target, "quota", event)
    tell_left(target, "the limits", "set")


def _show(target: Target, *, json_: bool) -> None:
    row = next((row for row in _quotas(target) if row.scope == WORKSPACE), None)
    if json_:
        emit_json(row)
        return
    tasks = None if row is None else row.max_concurrent_tasks
    runs = None if row is None else row.max_concurrent_runs
    console().print(f"tasks at once: {_limit(tasks)}; runs at once: {_limit(runs)}")


def _limit(value: int | None) -> str:
    return "no limit" if value is None else str(value)


def _quotas(target: Target) -> list[QuotaRow]:
    rows = Reader(target.store, target.paths).snapshot().rows("quotas")
    return sorted(
        (row for row in rows if isinstance(row, QuotaRow)), key=lambda row: (row.scope, row.name)
    )
