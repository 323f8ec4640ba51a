"""`servo logs`: what the executions of a run printed."""

import sys

import click

from servo.cli.output import console
from servo.cli.workspace import Target, of_a_workspace
from servo.core.state.rows.execution import RunRow
from servo.errors import NotFound
from servo.ledger.paths import unquoted
from servo.projection.reader import Reader


@click.command("logs")
@click.argument("run_id", required=False)
@click.argument("asset", required=False)
@of_a_workspace
def logs(*, target: Target, run_id: str | None, asset: str | None) -> None:
    """Print what the executions of a run printed: the newest run, or RUN_ID, or one ASSET of it."""
    run = _run(target, run_id)
    prefix = target.paths.logs_of(run.run_id)
    found = 0
    for meta in target.store.list_after(prefix):
        task, attempt, _ = meta.key.removeprefix(prefix).split("/")
        if asset is not None and unquoted(task).rpartition(":")[0] != asset:
            continue
        found += 1
        console(stderr=True).print(f"── {unquoted(task)}, attempt {int(attempt)}", style="bold")
        sys.stdout.write(target.store.get(meta.key).data.decode(errors="replace"))
        sys.stdout.flush()
    if not found:
        console(stderr=True).print(f"{run.run_id} printed nothing")


def _run(target: Target, run_id: str | None) -> RunRow:
    rows = Reader(target.store, target.paths).snapshot().rows("runs")
    runs = [row for row in rows if isinstance(row, RunRow)]
    chosen = [row for row in runs if run_id is None or row.run_id.startswith(run_id)]
    if not chosen:
        raise NotFound(f"there is no run {run_id or 'yet'}", remedy="see `servo run list`")
    return max(chosen, key=lambda row: row.created_at)
