"""`servo automation`: which conditions there are, what they came to and why, and pausing them."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import click
import msgspec
from rich.text import Text

from servo.cli.code import as_dagster_option, code_or_selection
from servo.cli.completing import asset_keys
from servo.cli.condition_rows import (
    ListedCondition,
    Told,
    all_conditions,
    condition_of,
    evaluation_at,
    evaluations_of,
    find_sensor,
    with_runs,
)
from servo.cli.condition_trees import draw
from servo.cli.hosts import read_code
from servo.cli.leaving import leave, refuse_active, refuse_paused, tell_left
from servo.cli.loaded_here import loaded_here
from servo.cli.options import json_option, paged, tell_older
from servo.cli.output import console, emit_json, instant, plural
from servo.cli.tables import facts, grid
from servo.cli.workspace import Target, Where, at_a_workspace, of_a_workspace
from servo.code.evaluator.conditions import ConditionEvaluator
from servo.code.evaluator.loaded_location import LoadedLocation
from servo.core.automation.telling import lacking, read_tree
from servo.core.automation.trees import Tree
from servo.core.events.sensors import SensorPaused, SensorResumed
from servo.core.explain.conditions import asked_for
from servo.core.state.rows.conditions import AutomationEvaluationRow
from servo.core.state.states import SensorStatus
from servo.errors import NotFound
from servo.projection.files.arrow import without_pandas
from servo.projection.read.lookup import Page
from servo.projection.read.reader import Reader, Snapshot
from servo.sdk.automation.graph import all_subjects, targeted, text_of
from servo.sdk.automation.sensors import sensors_of_conditions
from servo.sdk.definitions.project import Project
from servo.workspace.identity import this_process

MOST_NAMED = 10

_asset = click.argument("asset", shell_complete=asset_keys)
_all = click.option("--all", "whole", is_flag=True, help="Show every part of the condition.")


class Foreseen(msgspec.Struct, frozen=True, kw_only=True):
    """What the condition of an asset would ask for now; `""` is an asset without partitions."""

    asset_key: str
    sensor_id: str
    requested: tuple[str, ...]
    tree: Tree


@click.group("automation")
def automation() -> None:
    """See what automation conditions ask for and why; pause, resume and try them."""


@automation.command("list", short_help="Every asset with a condition.")
@json_option
@of_a_workspace
def list_(*, target: Target, json_: bool) -> None:
    """List the assets and checks that have an automation condition, and what came of it.

    An evaluation in which nothing is new about an asset leaves no record of it.
    """
    rows = Reader(target.store, target.paths).read(all_conditions)
    if json_:
        emit_json(rows)
        return
    table = grid("asset", "condition", "sensor", "last evaluated", "last requested", whole=1)
    for row in rows:
        table.add_row(
            row.asset_key,
            row.condition,
            _sensor(row),
            "" if row.evaluated_at is None else _when(row.evaluated_at, row.tick or 0),
            "" if row.last_requested_at is None else instant(row.last_requested_at),
        )
    none = "no asset has an automation condition yet: give it one and start `servo dev`"
    console().print(table if rows else none)


@automation.command("show", short_help="Why a condition is true or not.")
@_asset
@click.option("--tick", type=click.IntRange(1), help="An older evaluation, by its number.")
@_all
@json_option
@of_a_workspace
def show(*, target: Target, asset: str, tick: int | None, whole: bool, json_: bool) -> None:
    """Draw the newest recorded evaluation of the condition of ASSET, and what decided it.

    The condition of a check is named with its asset: orders:has_rows.
    """

    def read(snapshot: Snapshot) -> tuple[ListedCondition, AutomationEvaluationRow | None]:
        listed = condition_of(snapshot, asset)
        if tick is not None:
            return listed, evaluation_at(snapshot, listed, tick)
        newest = evaluations_of(snapshot, listed, Page(limit=1)).rows
        return listed, next(iter(newest), None)

    listed, row = Reader(target.store, target.paths).read(read)
    tree = None if row is None else read_tree(row.tree)
    missing = [] if tree is None else lacking(tree)
    if json_:
        evaluation = None if row is None else _without_tree(row)
        told = {"asset": listed, "evaluation": evaluation, "tree": tree, "lacking": missing}
        emit_json(told)
        return
    out = console()
    out.print(_standing(listed, row))
    if tree is not None:
        out.print()
        draw(tree, whole=whole)
    if missing:
        out.print()
        out.print(f"it is asked for when {' and '.join(missing)}")


@automation.command("history", short_help="What came of its evaluations.")
@_asset
@paged
@json_option
@of_a_workspace
def history(*, target: Target, asset: str, page: Page, json_: bool) -> None:
    """List the evaluations of the condition of ASSET that there was something to tell of."""

    def read(found: Snapshot) -> tuple[list[Told], str | None]:
        told = evaluations_of(found, condition_of(found, asset), page)
        return with_runs(found, told.rows), told.older

    rows, older = Reader(target.store, target.paths).read(read)
    if json_:
        emit_json([{**_without_tree(row.evaluation), "run_id": row.run_id} for row in rows])
        return
    table = grid("tick", "evaluated", "asked for", "run", "sensor", whole=2)
    for row in rows:
        one = row.evaluation
        asked = asked_for(one.requested_count, read_tree(one.tree))
        table.add_row(
            str(one.tick), instant(one.evaluated_at), asked, row.run_id or "", one.sensor_id
        )
    console().print(table if rows else "not evaluated yet: `servo dev` does that")
    tell_older(older)


@automation.command("pause", short_help="Let a sensor evaluate no more.")
@click.argument("sensor", required=False)
@of_a_workspace
def pause(*, target: Target, sensor: str | None) -> None:
    """Pause SENSOR: the conditions that it evaluates ask for nothing until it is resumed.

    Without a name: the one that Servo has for all conditions that no other sensor evaluates.
    """
    name, status = Reader(target.store, target.paths).read(lambda found: find_sensor(found, sensor))
    refuse_paused(name, paused=status is SensorStatus.PAUSED)
    leave(target, "sensor", SensorPaused(sensor_id=name, changed_by=this_process()))
    tell_left(target, name, "paused")


@automation.command("resume", short_help="Let a sensor evaluate again.")
@click.argument("sensor", required=False)
@of_a_workspace
def resume(*, target: Target, sensor: str | None) -> None:
    """Resume SENSOR. What happened while it was paused is news to its next evaluation."""
    name, status = Reader(target.store, target.paths).read(lambda found: find_sensor(found, sensor))
    refuse_active(name, active=status is not SensorStatus.PAUSED)
    leave(target, "sensor", SensorResumed(sensor_id=name, changed_by=this_process()))
    tell_left(target, name, "resumed")


@automation.command("evaluate", short_help="What conditions would ask for now.")
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
    """Say what the conditions of CODE, or of the assets SELECTed, would ask for now, and why.

    Nothing is written and nothing is made, also if a sensor is paused: it is a dry run of the next
    evaluation, with the code as it is in this folder.
    """
    without_pandas()
    target = where.open()
    given, chosen = code_or_selection(code, select, Path.cwd())
    _, project = read_code(given, as_dagster=as_dagster)
    wanted = _chosen(project, chosen)
    found = [one for one in _foreseen(project, target, where) if one.asset_key in wanted]
    if not found:
        raise NotFound(
            "nothing that is chosen has an automation condition",
            remedy="give an asset one: @asset(automation_condition=AutomationCondition.eager())",
        )
    if json_:
        emit_json(found)
        return
    for one in found:
        console().print(Text(f"{one.asset_key}: {_would(one)}", "bold"))
        draw(one.tree, whole=whole)


# --- a dry run ------------------------------------------------------------------------------------


def _chosen(project: Project, select: Sequence[str]) -> set[str]:
    chosen = targeted(project, list(select)) if select else all_subjects(project)
    return {text_of(one) for one in chosen}


def _foreseen(project: Project, target: Target, where: Where) -> list[Foreseen]:
    """What every condition of a project would ask for, in the order of the graph."""
    loaded = loaded_here(project, target.store, where, salt=bytes(32))
    found: dict[str, Foreseen] = {}
    for name in sensors_of_conditions(project):
        preview = _room(loaded, name).preview(target.clock.now())
        for key, tree in preview.trees.items():
            asked = preview.requested.get(key, ())
            found[key] = Foreseen(asset_key=key, sensor_id=name, requested=asked, tree=tree)
    return [found[text] for one in all_subjects(project) if (text := text_of(one)) in found]


def _room(loaded: LoadedLocation, name: str) -> ConditionEvaluator:
    try:
        return ConditionEvaluator(loaded, name)
    except NotFound:
        raise NotFound(
            "this workspace has nothing on record that conditions could be evaluated on",
            remedy="make something first with `servo materialize`, or start `servo dev`",
        ) from None


def _would(one: Foreseen) -> str:
    if not one.requested:
        return "would ask for nothing"
    if one.requested == ("",):
        return "would ask for it"
    named = ", ".join(one.requested[:MOST_NAMED])
    rest = " …" if len(one.requested) > MOST_NAMED else ""
    return f"would ask for {plural(len(one.requested), 'partition')}: {named}{rest}"


# --- words ----------------------------------------------------------------------------------------


def _standing(listed: ListedCondition, row: AutomationEvaluationRow | None) -> object:
    table = facts()
    table.add_row("asset", listed.asset_key)
    table.add_row("condition", listed.condition)
    table.add_row("sensor", _sensor(listed))
    if row is None:
        table.add_row("evaluated", "not yet: `servo dev` does that")
        return table
    table.add_row("evaluated", _when(row.evaluated_at, row.tick))
    tree = read_tree(row.tree)
    table.add_row("asked for", asked_for(row.requested_count, tree))
    if tree is None:
        table.add_row("why", "was too large to be kept")
    return table


def _when(at: datetime, tick: int) -> str:
    return f"{instant(at)} (#{tick})"


def _sensor(listed: ListedCondition) -> Text:
    if listed.sensor_id is None:
        return Text("none yet", "yellow")
    if listed.sensor_status is SensorStatus.PAUSED:
        return Text(f"{listed.sensor_id} (paused)", "yellow")
    return Text(listed.sensor_id)


def _without_tree(row: AutomationEvaluationRow) -> dict[str, object]:
    told: dict[str, object] = msgspec.structs.asdict(row)
    del told["tree"]
    return told
