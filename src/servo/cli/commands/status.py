"""`servo status`: the status of a workspace in a few lines."""

from collections.abc import Sequence

import click
from rich.text import Text

from servo.cli.commands.runs import coloured
from servo.cli.options.moment import at_a_moment
from servo.cli.options.shared import json_option
from servo.cli.options.workspace import with_workspace
from servo.cli.rendering.output import console, emit_json, instant, plural
from servo.cli.rendering.run_rows import waiting_words
from servo.core.freshness import FreshnessState
from servo.operations.interface.moments import AsOf
from servo.operations.status import WorkspaceStatus, get_status
from servo.workspace.leading import described
from servo.workspace.workspace import Workspace

MOST_NAMES = 10


@click.command("status", short_help="Summarize a workspace.")
@at_a_moment
@json_option
@with_workspace
def status(*, workspace: Workspace, as_of: AsOf | None, json_: bool) -> None:
    """Summarize a workspace: its assets, its leader, unfinished work and the newest runs."""
    found = get_status(workspace, as_of=as_of)
    if json_:
        emit_json(found)
        return
    out = console()
    runs = plural(sum(found.runs.values()), "run")
    where = f"entry {found.applied_seq}, {instant(found.as_of)}"
    out.print(f"{plural(found.assets, 'asset')}, {runs} ({where})")
    for what, names in _troubles(found).items():
        if names:
            out.print(f"{what}: {_listed(names)}")
    if found.needs_upgrade:
        out.print(Text(found.needs_upgrade, "red"), soft_wrap=True)
    _show_leader(found)
    if unfinished := _unfinished(found):
        rest = "" if found.leader or as_of else "; continue with `servo resume`"
        out.print(f"not finished: {unfinished}{rest}")
    if found.paused_backfills:
        names = f"{'backfill' if len(found.paused_backfills) == 1 else 'backfills'} "
        out.print(f"paused: {names}{_listed(found.paused_backfills)}")
    for row in found.waiting:
        out.print(waiting_words(row), soft_wrap=True)
    for run in found.newest_runs:
        out.print(f"{instant(run.created_at)} {run.run_id} ", coloured(run.state), sep="")


def _show_leader(found: WorkspaceStatus) -> None:
    """Print who leads, and what keeps it from working."""
    if found.leader is None:
        return
    out = console()
    having = f" with {', '.join(found.leader.locations)}" if found.leader.locations else ""
    out.print(f"leader: {described(found.leader)}{having}")
    if found.leader_silent:
        out.print(Text(found.leader_silent, "red"), soft_wrap=True)
    for why in found.not_loaded.values():
        out.print(Text(f"not loaded: {why}", "red"), soft_wrap=True)


def _troubles(found: WorkspaceStatus) -> dict[str, list[str]]:
    return {
        "failing": found.failing,
        "never materialized": found.missing,
        "freshness failed": found.freshness.get(FreshnessState.FAIL, []),
        "freshness warning": found.freshness.get(FreshnessState.WARN, []),
    }


def _unfinished(found: WorkspaceStatus) -> str:
    counts = {"run": len(found.open_runs), "backfill": len(found.open_backfills)}
    return ", ".join(plural(count, word) for word, count in counts.items() if count)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"{', '.join(names[:MOST_NAMES])}{more}"
