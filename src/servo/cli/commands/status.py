"""`servo status`: how a workspace stands, in a few lines."""

from collections import Counter

import click

from servo.cli.asset_rows import freshness_rows
from servo.cli.commands.runs import coloured
from servo.cli.hosts import who_works_in
from servo.cli.options import json_option
from servo.cli.output import console, emit_json, instant, plural
from servo.cli.run_rows import waiting_words
from servo.cli.workspace import Target, of_a_workspace
from servo.core.freshness import FreshnessState
from servo.core.state.rows.assets import AssetRow
from servo.core.state.rows.execution import RunRow
from servo.core.state.states import TERMINAL_RUN_STATES
from servo.operations.runs import newest_runs, waiting_runs
from servo.projection.read.lookup import Lookup, Page
from servo.projection.read.reader import Reader, Snapshot
from servo.workspace.leading import described

NEWEST = 5
MOST_LOOKED_AT = 20
"""Of so many open runs the tasks are looked at."""


@click.command("status")
@json_option
@of_a_workspace
def status(*, target: Target, json_: bool) -> None:
    """Say how a workspace stands: its assets, what runs, and how the newest runs ended."""
    snapshot = Reader(target.store, target.paths).snapshot()
    assets = [row for row in snapshot.rows("assets") if isinstance(row, AssetRow) and row.defined]
    states = _states(snapshot)
    open_runs = [run for run, state in states.items() if state not in TERMINAL_RUN_STATES]
    failing = sorted(row.asset_key for row in assets if row.consecutive_failures)
    busy = who_works_in(target)
    missing = sorted(row.asset_key for row in assets if row.last_materialization_id is None)
    defined = {row.asset_key for row in assets}
    judged = [row for row in freshness_rows(snapshot) if row.asset_key in defined]
    stale = [row.asset_key for row in judged if row.state is FreshnessState.FAIL]
    aging = [row.asset_key for row in judged if row.state is FreshnessState.WARN]
    waiting = waiting_runs(snapshot, _rows(snapshot, open_runs[:MOST_LOOKED_AT]))
    if json_:
        told = {
            "applied_seq": snapshot.applied_seq,
            "as_of": snapshot.as_of,
            "assets": len(assets),
            "failing": failing,
            "missing": missing,
            "freshness": {"FAIL": stale, "WARN": aging},
            "runs": dict(Counter(states.values())),
            "open_runs": open_runs,
            "waiting": {row.run_id: row.location for row in waiting},
            "at_work": None if busy is None else busy.pid,
        }
        emit_json(told)
        return
    out = console()
    out.print(f"{plural(len(assets), 'asset')}, {plural(len(states), 'run')}, entry ", end="")
    out.print(f"{snapshot.applied_seq} of {instant(snapshot.as_of)}")
    named = {"failing": failing, "never made": missing, "too old": stale, "soon too old": aging}
    for word, names in named.items():
        if names:
            out.print(f"{word}: {', '.join(names[:10])}{' …' if len(names) > 10 else ''}")
    if busy is not None:
        having = f" with {', '.join(busy.locations)}" if busy.locations else ""
        out.print(f"leader: {described(busy)}{having}")
    if open_runs:
        rest = "" if busy is not None else "; `servo resume` goes on with them"
        out.print(f"not ended: {plural(len(open_runs), 'run')}{rest}")
    for row in waiting:
        out.print(waiting_words(row), soft_wrap=True)
    for run in newest_runs(snapshot, Page(limit=NEWEST)).items:
        out.print(f"{instant(run.created_at)} {run.run_id} ", coloured(run.state), sep="")


def _rows(snapshot: Snapshot, names: list[str]) -> list[RunRow]:
    return Lookup(snapshot).any(RunRow, "run_id", names) if names else []


def _states(snapshot: Snapshot) -> dict[str, str]:
    """The state of every run, newest first."""
    columns = snapshot.table("runs", only=("run_id", "state", "created_at"))
    rows: list[dict[str, str]] = columns.sort_by([("created_at", "descending")]).to_pylist()
    return {row["run_id"]: row["state"] for row in rows}
