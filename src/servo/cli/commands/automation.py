"""`servo automation`: explain, pause, resume and dry-run automation conditions."""

from collections.abc import Sequence
from datetime import datetime

import click
from rich.text import Text

from servo.cli.command_code import Selected, leader_locations, one_code
from servo.cli.options.code import as_dagster_option
from servo.cli.options.completing import asset_keys
from servo.cli.options.groups import NounGroup
from servo.cli.options.moment import at_a_moment
from servo.cli.options.project import code_or_selection
from servo.cli.options.shared import json_option, paged, tell_older
from servo.cli.options.workspace import Where, at_a_workspace, with_workspace
from servo.cli.rendering.condition_trees import draw
from servo.cli.rendering.output import console, emit_json, instant, plural
from servo.cli.rendering.receipts import tell_change
from servo.cli.rendering.tables import facts, grid
from servo.core.state.states import SensorStatus
from servo.operations.interface.listing import Page
from servo.operations.interface.moments import AsOf
from servo.operations.triggers.automation import (
    ConditionDetail,
    get_condition,
    list_condition_evaluations,
    list_conditions,
    pause_automation,
    resume_automation,
)
from servo.operations.triggers.condition_previews import ConditionForecast, preview_automation
from servo.operations.triggers.conditions import ListedCondition
from servo.workspace.workspace import Workspace, open_workspace

MOST_NAMED = 10

_asset = click.argument("asset", shell_complete=asset_keys)
_all = click.option("--all", "whole", is_flag=True, help="Show every part of the condition.")


@click.group("automation", cls=NounGroup)
def automation() -> None:
    """Explain, pause, resume and dry-run automation conditions."""


@automation.command("list", short_help="List the assets that have a condition.")
@at_a_moment
@json_option
@with_workspace
def list_(*, workspace: Workspace, as_of: AsOf | None, json_: bool) -> None:
    """List the assets and checks that have an automation condition, with their last evaluations.

    An evaluation is recorded only if something changed for the asset.
    """
    found = list_conditions(workspace, as_of=as_of)
    if json_:
        emit_json(found)
        return
    table = grid("asset", "condition", "sensor", "last evaluated", "last requested", whole=1)
    for row in found.items:
        table.add_row(
            row.asset_key,
            row.condition,
            _sensor(row),
            "" if row.evaluated_at is None else _when(row.evaluated_at, row.tick or 0),
            "" if row.last_requested_at is None else instant(row.last_requested_at),
        )
    none = "No asset has an automation condition yet. Give one to an asset and start `servo dev`."
    console().print(table if found.items else none)


@automation.command("show", short_help="Explain why a condition is true or false.")
@_asset
@click.option("--tick", type=click.IntRange(1), help="Number of an older evaluation.")
@_all
@at_a_moment
@json_option
@with_workspace
def show(
    *,
    workspace: Workspace,
    asset: str,
    tick: int | None,
    whole: bool,
    as_of: AsOf | None,
    json_: bool,
) -> None:
    """Draw the newest recorded evaluation of the condition of ASSET, and what decided it.

    Name the condition of a check with its asset: orders:has_rows.
    """
    found = get_condition(workspace, asset, tick=tick, as_of=as_of)
    if json_:
        emit_json(found)
        return
    out = console()
    out.print(_standing(found))
    if found.tree is not None:
        out.print()
        draw(found.tree, whole=whole)
    if found.lacking:
        out.print()
        out.print(f"It will be requested when {' and '.join(found.lacking)}.")


@automation.command("history", short_help="List the evaluations of a condition.")
@_asset
@paged
@at_a_moment
@json_option
@with_workspace
def history(
    *, workspace: Workspace, asset: str, page: Page, as_of: AsOf | None, json_: bool
) -> None:
    """List the recorded evaluations of the condition of ASSET, newest first."""
    found = list_condition_evaluations(workspace, asset, page, as_of=as_of)
    if json_:
        emit_json(found)
        return
    table = grid("tick", "evaluated", "requested", "run", "sensor", whole=2)
    for row in found.items:
        table.add_row(
            str(row.tick), instant(row.evaluated_at), row.outcome, row.run_id or "", row.sensor_id
        )
    console().print(table if found.items else "Not evaluated yet. `servo dev` evaluates it.")
    tell_older(found.next_cursor)


@automation.command("pause", short_help="Stop evaluating conditions.")
@click.argument("sensor", required=False)
@json_option
@with_workspace
def pause(*, workspace: Workspace, sensor: str | None, json_: bool) -> int:
    """Pause SENSOR: its conditions request nothing until it is resumed.

    Without SENSOR, pause the default sensor: it evaluates the conditions that no other covers.
    """
    found = pause_automation(workspace, sensor)
    return tell_change(found, f"Paused {found.sensor_id}.", json_=json_)


@automation.command("resume", short_help="Evaluate conditions again.")
@click.argument("sensor", required=False)
@json_option
@with_workspace
def resume(*, workspace: Workspace, sensor: str | None, json_: bool) -> int:
    """Resume SENSOR. Its next evaluation takes into account what changed while it was paused."""
    found = resume_automation(workspace, sensor)
    return tell_change(found, f"Resumed {found.sensor_id}.", json_=json_)


@automation.command("evaluate", short_help="Dry-run conditions now.")
@click.argument("code", required=False)
@click.argument("select", nargs=-1)
@as_dagster_option
@_all
@json_option
@at_a_workspace
def evaluate(
    *,
    code: str | None,
    select: Sequence[str],
    where: Where,
    as_dagster: bool,
    whole: bool,
    json_: bool,
) -> None:
    """Show what the conditions of CODE, or of the SELECTed assets, would request now, and why.

    This is a dry run of the next evaluation with the code in this folder, paused or not. Nothing
    is recorded and nothing is started.
    """
    workspace = open_workspace(where.address)
    known = leader_locations(workspace)
    given, chosen = code_or_selection(code, select, known)
    evaluator = one_code(
        given, workspace, as_dagster=as_dagster, selected=Selected(select=chosen)
    ).evaluator(where.address, workspace)
    found = preview_automation(workspace, evaluator, chosen)
    if json_:
        emit_json(found)
        return
    for one in found.items:
        console().print(Text(f"{one.asset_key}: {_would(one)}", "bold"))
        draw(one.tree, whole=whole)


# --- words ----------------------------------------------------------------------------------------


def _would(one: ConditionForecast) -> str:
    if not one.requested:
        return "would request nothing"
    if one.requested == ("",):
        return "would be requested"
    named = ", ".join(one.requested[:MOST_NAMED])
    rest = " …" if len(one.requested) > MOST_NAMED else ""
    return f"would request {plural(len(one.requested), 'partition')}: {named}{rest}"


def _standing(found: ConditionDetail) -> object:
    listed, evaluation = found.asset, found.evaluation
    table = facts()
    table.add_row("asset", listed.asset_key)
    table.add_row("condition", listed.condition)
    table.add_row("sensor", _sensor(listed))
    if evaluation is None:
        table.add_row("evaluated", "not yet; `servo dev` evaluates it")
        return table
    table.add_row("evaluated", _when(evaluation.evaluated_at, evaluation.tick))
    table.add_row("requested", evaluation.outcome)
    if found.tree is None:
        table.add_row("reason", "too large to record")
    return table


def _when(at: datetime, tick: int) -> str:
    return f"{instant(at)} (#{tick})"


def _sensor(listed: ListedCondition) -> Text:
    if listed.sensor_id is None:
        return Text("none yet", "yellow")
    if listed.sensor_status is SensorStatus.PAUSED:
        return Text(f"{listed.sensor_id} (paused)", "yellow")
    return Text(listed.sensor_id)
