"""`servo resume`: finish interrupted runs and backfills."""

from collections.abc import Sequence

import click

from servo.cli.command_code import several_codes
from servo.cli.commands.materialize import (
    exit_code_of,
    finish_begun,
    json_option,
    tell,
    with_workers,
)
from servo.cli.hosts import open_host
from servo.cli.options.code import as_dagster_option
from servo.cli.options.workspace import Where, at_a_workspace
from servo.cli.rendering.backfill_display import exit_code_of as backfill_exit_code
from servo.cli.rendering.backfill_display import finish_backfills
from servo.cli.rendering.output import console, emit_json, plural
from servo.operations.backfills import Resumed, finished
from servo.operations.inbox import count_queued
from servo.operations.runs import get_runs
from servo.workspace.workspace import open_workspace


@click.command("resume")
@click.argument("code", nargs=-1)
@with_workers
@as_dagster_option
@json_option
@at_a_workspace
def resume(
    *, code: Sequence[str], where: Where, workers: int, as_dagster: bool, json_: bool
) -> int:
    """Finish interrupted runs and backfills of CODE.

    CODE is one or more files, modules or code locations. Default: all of the project file.
    """
    (first, *others), broken = several_codes(code, as_dagster=as_dagster)
    left = count_queued(open_workspace(where.address, must_exist=False))
    with open_host(first, where, workers, also=others, backfills=True) as host:
        backfills = finish_backfills(host, json_=json_)
        ended = finish_begun(host, json_=json_)
        waiting = len(host.open_runs())
    codes = [int(broken), *(backfill_exit_code(one.row) for one in backfills)]
    if json_:
        runs = get_runs(open_workspace(where.address), [one.run.run_id for one in ended])
        emit_json(Resumed(items=runs.items, backfills=[finished(one) for one in backfills]))
        return max([*codes, *(exit_code_of(one) for one in ended)])
    if not ended and not backfills:
        also = f"; processed {plural(left, 'queued request')}" if left else ""
        whose = "" if not waiting else f" of {', '.join(one.name for one in (first, *others))}"
        console().print(f"nothing to resume: every run{whose} has finished{also}")
    return max([*codes, *(tell(one, where, json_=False) for one in ended)])
