"""`servo tick`: one pass over everything that is due, and nothing if nothing is."""

from datetime import datetime

import click
from msgspec.structs import replace
from rich.text import Text

from servo.cli.code import as_dagster_option
from servo.cli.commands.materialize import FAILED, with_workers
from servo.cli.hosts import (
    AT_ONCE,
    Code,
    interrupt,
    read_code,
    stopped_by_sigterm,
    telling_interrupted,
)
from servo.cli.loaded_here import loaded_here
from servo.cli.narrator import Narrator
from servo.cli.options import json_option
from servo.cli.output import console, emit_json, instant, plural
from servo.cli.workspace import Where, at_a_workspace
from servo.code.setting import Setting
from servo.config import Settings
from servo.core.state.rows.execution import RunRow
from servo.core.state.states import RunState
from servo.host.leading import LeadingHost
from servo.host.one_pass import Outlook, conditions_due, make_pass, outlook
from servo.ledger.paths import Paths
from servo.projection.files.arrow import without_pandas
from servo.sdk.definitions.executors import at_most
from servo.storage.from_url import store_from_url
from servo.workspace.leading import described
from servo.workspace.system import SystemClock
from servo.workspace.workspace import open_workspace


@click.command("tick")
@click.argument("code", required=False)
@with_workers
@as_dagster_option
@json_option
@at_a_workspace
def tick(*, code: str | None, where: Where, workers: int, as_dagster: bool, json_: bool) -> int:
    """Do everything in CODE's workspace that is due now, then end.

    Schedules tick, sensors look, backfills and runs go on, until nothing can be done without
    waiting. If nothing is due, nothing is written. So any cron, timer or pipeline that calls this
    now and then is all it takes to run a workspace.
    """
    found, project = read_code(code, as_dagster=as_dagster)
    setting = where.setting(found.location)
    leader = open_workspace(setting.address, must_exist=False).leader()
    if leader is not None:
        instead = f"{described(leader)} leads this workspace and does what is due"
        return _told(Outlook(), [], json_=json_, instead=instead)
    clock = SystemClock()
    without_pandas()
    store = store_from_url(where.url, clock=clock)
    paths = Paths(where.tenant, where.workspace)
    ahead = outlook(store, paths, {found.name: found.declared}, clock.now())
    if not ahead.why:
        loaded = loaded_here(project, store, where, salt=bytes(32))
        if judged := conditions_due(loaded, found.declared, clock.now()):
            ahead = replace(ahead, why=f"conditions have changed: {judged}")
    del project
    if not ahead.why:
        return _told(ahead, [], json_=json_)
    return _told(ahead, _pass(found, setting, workers, clock.now()), json_=json_)


def _pass(code: Code, setting: Setting, workers: int, began: datetime) -> list[RunRow]:
    """Lead the workspace for one pass; the runs that ended in it."""
    out = console(stderr=True)
    size = at_most(workers, code.executor)
    with (
        telling_interrupted(AT_ONCE),
        stopped_by_sigterm(),
        LeadingHost(
            setting, workers=size, settings=Settings(), triggers=True, command="tick"
        ) as session,
    ):
        narrator = Narrator(out.print)
        _ = narrator.begin(session.service.engine.state)
        if session.triggers is not None:
            session.triggers.tell(narrator.hear)
        try:
            session.deploy(code.name, code.declared)
            make_pass(session, SystemClock().now())
        except KeyboardInterrupt:
            raise KeyboardInterrupt(interrupt(session)) from None
        state = session.service.engine.state
        narrator.look(state)
        rows = list(state.runs.rows.values())
    return [row for row in rows if row.finished_at is not None and row.finished_at >= began]


def _told(ahead: Outlook, ended: list[RunRow], *, json_: bool, instead: str = "") -> int:
    """Say what was done, or when something will be; the exit code."""
    failed = [row for row in ended if row.state is not RunState.SUCCEEDED]
    if json_:
        emit_json(
            {
                "why": ahead.why or instead,
                "next_due": ahead.next_due,
                "runs": [{"run_id": row.run_id, "state": row.state} for row in ended],
            }
        )
        return FAILED if failed else 0
    out = console()
    if instead:
        out.print(instead)
    elif ahead.why:
        out.print(f"{ahead.why}; {plural(len(ended), 'run')} ended, {len(failed)} not well")
    else:
        later = "" if ahead.next_due is None else f"; next at {instant(ahead.next_due)}"
        out.print(f"nothing is due{later}")
    for row in failed:
        out.print(Text(f"{row.run_id} {row.state.value}: see `servo run show {row.run_id}`", "red"))
    return FAILED if failed else 0
