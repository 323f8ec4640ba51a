"""`servo sensor`: show, pause, resume, push to and evaluate sensors."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import click
from rich.text import Text

from servo.cli.commands.schedules import print_requests
from servo.cli.options.code import as_dagster_option
from servo.cli.options.groups import NounGroup
from servo.cli.options.moment import at_a_moment
from servo.cli.options.project import one_location
from servo.cli.options.shared import json_option, paged, tell_older
from servo.cli.options.texts import read_standard_input, read_text_file
from servo.cli.options.workspace import Where, at_a_workspace, with_workspace
from servo.cli.rendering.output import console, emit_json, instant, plural
from servo.cli.rendering.receipts import QUEUED, tell_change, tell_receipt
from servo.cli.rendering.tables import facts, grid
from servo.core.declared import KIND_LABEL
from servo.core.events.assets import AssetReported
from servo.core.events.sensors import SensorEvalStatus
from servo.core.state.rows.automation import SensorEvalRow
from servo.core.state.states import SensorStatus
from servo.errors import Invalid
from servo.host.evaluators import evaluator_process
from servo.operations.interface.evaluating import run_id_salt
from servo.operations.interface.listing import Page
from servo.operations.interface.moments import AsOf
from servo.operations.triggers.sensor_messages import push_message
from servo.operations.triggers.sensor_trials import SensorEvaluation, evaluate_sensor
from servo.operations.triggers.sensors import (
    ListedSensor,
    get_cursor,
    get_sensor,
    list_evaluations,
    list_sensors,
    move_cursor,
    pause_sensor,
    resume_sensor,
)
from servo.workspace.workspace import Workspace

_payload = click.option(
    "--payload", default="null", help="The message: JSON, @FILE with JSON, or - for standard input."
)
_COLOURS = {
    SensorEvalStatus.TRIGGERED.value: "green",
    SensorEvalStatus.FAILED.value: "red",
    SensorStatus.ACTIVE.value: "green",
    SensorStatus.PAUSED.value: "yellow",
    SensorStatus.ERROR.value: "red",
}


@click.group("sensor", cls=NounGroup)
def sensor() -> None:
    """List, pause, resume, push to and evaluate sensors."""


@sensor.command("list", short_help="List the sensors.")
@at_a_moment
@json_option
@with_workspace
def list_(*, workspace: Workspace, as_of: AsOf | None, json_: bool) -> None:
    """List the deployed sensors."""
    found = list_sensors(workspace, as_of=as_of)
    if json_:
        emit_json(found)
        return
    names = ("sensor", "kind", "status", "target", "every", "last evaluated", "note")
    table = grid(*names, whole=3)
    for row in found.items:
        definition, state = row.definition, row.state
        table.add_row(
            row.name,
            definition.labels.get(KIND_LABEL, definition.mode.value.lower()),
            _coloured(state.status.value),
            definition.target,
            "" if row.pushed else _interval(row),
            "" if state.last_evaluation_at is None else instant(state.last_evaluation_at),
            state.last_error or (_waiting(row) if state.messages_waiting else ""),
        )
    console().print(table if found.items else "No sensors yet. `servo dev` deploys them.")


@sensor.command("show", short_help="Show one sensor and its newest evaluations.")
@click.argument("name")
@at_a_moment
@json_option
@with_workspace
def show(*, workspace: Workspace, name: str, as_of: AsOf | None, json_: bool) -> None:
    """Show the definition of sensor NAME, its state and its newest evaluations."""
    found = get_sensor(workspace, name, as_of=as_of)
    if json_:
        emit_json(found)
        return
    row = found.sensor
    definition, state = row.definition, row.state
    table = facts()
    table.add_row("status", _coloured(state.status.value))
    table.add_row("kind", definition.labels.get(KIND_LABEL, ""))
    table.add_row("target", definition.target or "chosen by its function")
    if row.pushed:
        table.add_row("messages", f"{state.messages_received} received, {_waiting(row)}")
    else:
        table.add_row("interval", _interval(row))
        table.add_row("cursor", "none" if state.cursor is None else state.cursor)
    table.add_row("timeout", f"{definition.timeout_ms / 1000:g} s")
    if state.consecutive_failures:
        table.add_row("failed", plural(state.consecutive_failures, "time") + " in a row")
    console().print(table)
    _print_evaluations(found.evaluations)


@sensor.command("history", short_help="List the newest evaluations of a sensor.")
@click.argument("name")
@paged
@at_a_moment
@json_option
@with_workspace
def history(
    *, workspace: Workspace, name: str, page: Page, as_of: AsOf | None, json_: bool
) -> None:
    """List the newest evaluations of sensor NAME, with the reasons.

    Evaluations that find nothing new are recorded once an hour.
    """
    found = list_evaluations(workspace, name, page, as_of=as_of)
    if json_:
        emit_json(found)
        return
    _print_evaluations(found.items)
    tell_older(found.next_cursor)


@sensor.command("pause", short_help="Pause a sensor.")
@click.argument("name")
@json_option
@with_workspace
def pause(*, workspace: Workspace, name: str, json_: bool) -> int:
    """Pause sensor NAME. Messages for it wait until it is resumed."""
    return tell_change(pause_sensor(workspace, name), f"Paused {name}.", json_=json_)


@sensor.command("resume", short_help="Resume a sensor.")
@click.argument("name")
@json_option
@with_workspace
def resume(*, workspace: Workspace, name: str, json_: bool) -> int:
    """Resume sensor NAME from its cursor. Its failure count restarts at zero."""
    return tell_change(resume_sensor(workspace, name), f"Resumed {name}.", json_=json_)


@sensor.command("cursor", short_help="Show or set the cursor of a sensor.")
@click.argument("name")
@click.option("--set", "set_", metavar="TEXT", help="Set the cursor to this text.")
@click.option("--reset", is_flag=True, help="Clear the cursor; the sensor starts over.")
@at_a_moment
@json_option
@with_workspace
def cursor(
    *,
    workspace: Workspace,
    name: str,
    set_: str | None,
    reset: bool,
    as_of: AsOf | None,
    json_: bool,
) -> int:
    """Show the cursor of sensor NAME, or set it.

    If the cursor is set while an evaluation is running, its result is discarded.
    """
    if (set_ is not None) + reset + (as_of is not None) > 1:
        raise Invalid("--set, --reset and --as-of exclude each other", remedy="use only one")
    if set_ is not None or reset:
        moved = (
            f"Set the cursor of {name}." if set_ is not None else f"Cleared the cursor of {name}."
        )
        return tell_change(move_cursor(workspace, name, set_), moved, json_=json_)
    found = get_cursor(workspace, name, as_of=as_of)
    if json_:
        emit_json(found)
    else:
        console().print("no cursor" if found.cursor is None else found.cursor)
    return 0


@sensor.command("push", short_help="Send a message to a push sensor.")
@click.argument("name")
@click.option("--message-id", help="Idempotency key: repeating a message changes nothing.")
@_payload
@json_option
@with_workspace
def push(
    *, workspace: Workspace, name: str, message_id: str | None, payload: str, json_: bool
) -> int:
    """Send a message to push sensor NAME.

    The message is stored before the command returns. The leader evaluates it once; if none is
    running, it waits until one is, such as `servo dev`.
    """
    found = push_message(workspace, name, _read_payload(payload), message_id=message_id)
    return tell_change(found, f"Sent message {found.message_id} to {name}.", json_=json_)


@sensor.command("evaluate", short_help="Evaluate a sensor now, as a dry run.")
@click.argument("name")
@click.argument("code", required=False)
@_payload
@click.option("--cursor", "cursor_", help="Cursor to evaluate from. Default: the current one.")
@click.option("--commit", is_flag=True, help="Start the runs it requests, and move its cursor.")
@as_dagster_option
@json_option
@at_a_workspace
def evaluate(  # noqa: PLR0913 - the options of the command
    *,
    name: str,
    code: str | None,
    payload: str,
    cursor_: str | None,
    commit: bool,
    as_dagster: bool,
    where: Where,
    json_: bool,
) -> int:
    """Evaluate sensor NAME in CODE now, with a payload or a cursor, and show what it requests.

    Nothing is started or recorded unless --commit is given.
    """
    workspace, text = where.workspace_or_empty(), _read_payload(payload)
    location = one_location(code, as_dagster=as_dagster)
    with evaluator_process(where.setup(location), salt=run_id_salt(workspace)) as evaluator:
        found = evaluate_sensor(
            workspace, evaluator, name, cursor=cursor_, payload=text, commit=commit
        )
    return _tell_evaluation(found, json_=json_)


def _tell_evaluation(found: SensorEvaluation, *, json_: bool) -> int:
    """Print what a sensor requests; the exit code."""
    receipt = found.receipt
    if json_:
        emit_json(found)
        failed = found.status is SensorEvalStatus.FAILED
        return 1 if failed else QUEUED if receipt is not None and receipt.queued else 0
    _print_evaluation(found)
    return 0 if receipt is None else tell_receipt(receipt, "Committed.")


def _read_payload(given: str) -> str:
    """The payload of a message: the argument, a file, or standard input."""
    if given == "-":
        return read_standard_input().strip()
    if not given.startswith("@"):
        return given.strip()
    return read_text_file(Path(given[1:]), remedy="name a file that contains JSON").strip()


# --- words ----------------------------------------------------------------------------------------


def _print_evaluation(found: SensorEvaluation) -> None:
    if found.status is SensorEvalStatus.FAILED:
        raise Invalid(f"the sensor failed: {found.message}", remedy="fix the sensor's function")
    out = console()
    if not found.runs:
        out.print(f"No runs: {found.message or 'the sensor found nothing new'}")
    elif found.message:
        out.print(found.message)
    print_requests(found.runs)
    for change in found.partitions:
        added, removed = ", ".join(change.added), ", ".join(change.removed)
        out.print(f"Partitions of {change.set_name}: +[{added}] -[{removed}]")
    for event in found.reported:
        verb = "materialized" if isinstance(event, AssetReported) else "observed"
        out.print(f"Reports that {event.asset_key} was {verb}")
    if found.cursor is not None:
        out.print(f"Cursor: {found.cursor}")


def _print_evaluations(rows: Sequence[SensorEvalRow]) -> None:
    table = grid("when", "status", "trigger", "runs", "reason", whole=2)
    for row in rows:
        by = row.message_id if row.message_id is not None else row.trigger
        status = "STALE" if row.stale else row.status.value
        table.add_row(
            instant(row.evaluated_at), _coloured(status), by, str(len(row.run_keys)), row.message
        )
    console().print(table if rows else "No evaluations yet.")


def _coloured(word: str) -> Text:
    return Text(word, style=_COLOURS.get(word, ""))


def _interval(row: ListedSensor) -> str:
    return f"{timedelta(milliseconds=row.definition.min_interval_ms).total_seconds():g} s"


def _waiting(row: ListedSensor) -> str:
    count = row.state.messages_waiting
    return f"{plural(count, 'message')} waiting"
