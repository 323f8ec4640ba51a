"""`servo tick`: one pass over everything that is due; it does nothing if nothing is due."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager

import click
from rich.text import Text

from servo.cli.command_code import several_codes
from servo.cli.commands.materialize import FAILED, with_workers
from servo.cli.hosts import (
    AT_ONCE,
    interrupt,
    stopped_by_sigterm,
    telling_interrupted,
)
from servo.cli.options.code import as_dagster_option
from servo.cli.options.project import locations
from servo.cli.options.shared import json_option
from servo.cli.options.workspace import Where, at_a_workspace
from servo.cli.rendering.narrator import Narrator
from servo.cli.rendering.output import console, emit_json, instant, plural
from servo.host.leading import LeadingHost
from servo.host.location_code import LocationCode
from servo.host.one_pass import PassReport, do_what_is_due
from servo.leader.leases.lease import LeaderAdvert
from servo.workspace.composition import without_user_libraries
from servo.workspace.leading import described
from servo.workspace.workspace import open_workspace


@click.command("tick")
@click.argument("code", nargs=-1)
@with_workers
@as_dagster_option
@json_option
@at_a_workspace
def tick(*, code: Sequence[str], where: Where, workers: int, as_dagster: bool, json_: bool) -> int:
    """Run everything of CODE that is due now, then exit.

    CODE is one or more files, modules or code locations. Default: all of the project file.

    Evaluates due schedules, sensors and automation conditions, and continues runs and backfills
    until nothing more can be done without waiting. If nothing is due, nothing is written. Call it
    regularly, from cron or a CI pipeline, to run a workspace without a permanent leader.

    If `servo dev` is running with CODE, the work is left to it. If another command leads the
    workspace, this one waits for it to end.
    """
    names = [one.name for one in locations(code, as_dagster=as_dagster)]
    broken = False

    def load() -> list[LocationCode]:
        nonlocal broken
        codes, broken = several_codes(code, as_dagster=as_dagster)
        without_user_libraries()
        return codes

    workspace = open_workspace(where.address, must_exist=False)
    report = do_what_is_due(workspace, names, load, workers=workers, watcher=_NarratedPass())
    _tell(report, json_=json_)
    return FAILED if broken or report.failed else 0


class _NarratedPass:
    """Prints what a pass does."""

    def waiting(self, leader: LeaderAdvert) -> None:
        """Print which leader the pass waits for."""
        told = f"waiting for {described(leader)}, which leads this workspace"
        console(stderr=True).print(
            Text(f"{told} and does not run what is due", "yellow"), soft_wrap=True
        )

    @contextmanager
    def leading(self, host: LeadingHost) -> Generator[LeadingHost]:
        """Narrate what happens while the host leads, and stop it on Ctrl-C."""
        with telling_interrupted(AT_ONCE), stopped_by_sigterm(), host:
            narrator = Narrator(console(stderr=True).print, host.has)
            _ = host.service.read(narrator.begin)
            narrator.tell()
            if host.triggers is not None:
                host.triggers.tell(narrator.hear)
            try:
                yield host
            except KeyboardInterrupt:
                raise KeyboardInterrupt(interrupt(host)) from None
            host.service.read(narrator.look)
            narrator.tell()


def _tell(report: PassReport, *, json_: bool) -> None:
    """Print what was done, or when something is due next."""
    if json_:
        emit_json(report)
        return
    out, failed = console(), report.failed
    if report.left_to_pass:
        out.print(f"{report.left_to} is making a pass; what is due since is left to the next one")
    elif report.left_to:
        out.print(f"{report.left_to} leads this workspace and runs what is due")
    elif report.why:
        ended = plural(len(report.runs), "run")
        out.print(f"{report.why}; {ended} finished, {len(failed)} failed")
    else:
        later = "" if report.next_due is None else f"; next at {instant(report.next_due)}"
        out.print(f"nothing is due{later}")
    for row in failed:
        out.print(Text(f"{row.run_id} {row.state.value}: see `servo run show {row.run_id}`", "red"))
