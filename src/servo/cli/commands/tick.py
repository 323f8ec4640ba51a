"""`servo tick`: one pass over everything that is due; it does nothing if nothing is due."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial

import click
from msgspec.structs import replace
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
from servo.cli.options.shared import json_option
from servo.cli.options.workspace import Where, at_a_workspace
from servo.cli.rendering.narrator import Narrator
from servo.cli.rendering.output import console, emit_json, instant, plural
from servo.code.evaluator.messages import ConditionsEvaluated, EvaluateConditions
from servo.code.evaluator.pool import EvaluatorPool
from servo.config import Settings
from servo.core.state.rows.execution import RunRow
from servo.core.state.state import State
from servo.core.state.states import RunState
from servo.host.evaluators import evaluator_process
from servo.host.leading import LeadingHost
from servo.host.location_code import LocationCode
from servo.host.one_pass import Outlook, PassReport, active_conditions, make_pass, outlook
from servo.sdk.definitions.executors import at_most
from servo.triggers.conditions import JUDGE_SECONDS
from servo.workspace.answering import can_be_pinged, check_answers
from servo.workspace.composition import system_clock, without_user_libraries
from servo.workspace.leading import described
from servo.workspace.workspace import Workspace, open_workspace


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
    """
    workspace = open_workspace(where.address, must_exist=False)
    leader = workspace.leader()
    if leader is not None:
        if can_be_pinged(leader):
            check_answers(leader)
        instead = f"{described(leader)} leads this workspace and runs what is due"
        return _told(Outlook(), [], json_=json_, instead=instead)
    codes, broken = several_codes(code, as_dagster=as_dagster)
    without_user_libraries()
    declared = {one.name: one.declared for one in codes}
    ahead = outlook(workspace.store, workspace.paths, declared, workspace.now())
    if not ahead.why and (changed := _changed_conditions(codes, where, workspace)):
        ahead = replace(ahead, why=f"automation conditions changed: {changed}")
    ended = _pass(codes, where, workers, workspace.now()) if ahead.why else []
    return max(_told(ahead, ended, json_=json_), FAILED if broken else 0)


def _changed_conditions(codes: Sequence[LocationCode], where: Where, workspace: Workspace) -> str:
    """The first sensor whose conditions evaluate to something new, or none.

    They are evaluated in processes that have their code.
    """
    for code in codes:
        names = workspace.read(partial(active_conditions, declared=code.declared))
        with evaluator_process(where.setting(code.location), salt=bytes(32)) as pool:
            if found := next((name for name in names if _has_news(pool, name)), ""):
                return found
    return ""


def _has_news(pool: EvaluatorPool, name: str) -> bool:
    """Whether conditions request something, or cannot be evaluated, which the pass reports."""
    found = pool.ask(EvaluateConditions(sensor_id=name), JUDGE_SECONDS)
    return not isinstance(found, ConditionsEvaluated) or bool(found.ticked or found.error)


def _pass(
    codes: Sequence[LocationCode], where: Where, workers: int, began: datetime
) -> list[RunRow]:
    """Lead the workspace for one pass; the runs that finished in it."""
    out = console(stderr=True)
    leading = LeadingHost(
        *(where.setting(code.location) for code in codes),
        workers={code.name: at_most(workers, code.executor) for code in codes},
        settings=Settings(),
        triggers=True,
        command="tick",
    )
    with telling_interrupted(AT_ONCE), stopped_by_sigterm(), leading as session:
        narrator = Narrator(out.print, session.has)
        _ = session.service.read(narrator.begin)
        narrator.tell()
        if session.triggers is not None:
            session.triggers.tell(narrator.hear)
        try:
            for code in codes:
                session.deploy(code.name, code.declared)
            make_pass(session, system_clock().now())
        except KeyboardInterrupt:
            raise KeyboardInterrupt(interrupt(session)) from None
        rows = session.service.read(lambda state: _runs_after(narrator, state))
        narrator.tell()
    return [row for row in rows if row.finished_at is not None and row.finished_at >= began]


def _runs_after(narrator: Narrator, state: State) -> list[RunRow]:
    narrator.look(state)
    return list(state.runs.values())


def _told(ahead: Outlook, ended: list[RunRow], *, json_: bool, instead: str = "") -> int:
    """Print what was done, or when something is due next; the exit code."""
    failed = [row for row in ended if row.state is not RunState.SUCCEEDED]
    if json_:
        emit_json(PassReport(why=ahead.why or instead, next_due=ahead.next_due, runs=ended))
        return FAILED if failed else 0
    out = console()
    if instead:
        out.print(instead)
    elif ahead.why:
        out.print(f"{ahead.why}; {plural(len(ended), 'run')} finished, {len(failed)} failed")
    else:
        later = "" if ahead.next_due is None else f"; next at {instant(ahead.next_due)}"
        out.print(f"nothing is due{later}")
    for row in failed:
        out.print(Text(f"{row.run_id} {row.state.value}: see `servo run show {row.run_id}`", "red"))
    return FAILED if failed else 0
