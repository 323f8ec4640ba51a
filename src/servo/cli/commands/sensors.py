"""`servo sensor`: what looks for what, what came of it, and telling it something."""

import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import click
import msgspec
from rich.text import Text

from servo.cli.code import as_dagster_option, find_code
from servo.cli.leaving import leave, refuse_active, refuse_paused, tell_left
from servo.cli.options import json_option, paged, tell_older
from servo.cli.output import console, emit_json, instant, plural
from servo.cli.sensor_rows import (
    ListedSensor,
    all_sensors,
    evaluations,
    one_sensor,
    pushed_sensor,
    waiting_messages,
)
from servo.cli.tables import facts, grid
from servo.cli.workspace import Target, Where, at_a_workspace, of_a_workspace
from servo.code.evaluator.messages import Evaluated, EvaluateSensor
from servo.code.evaluator.pool import EvaluatorPool
from servo.core.declared import KIND_LABEL
from servo.core.events.assets import AssetReported
from servo.core.events.sensors import (
    PollTrigger,
    SensorCursorReset,
    SensorEvalStatus,
    SensorPaused,
    SensorResumed,
)
from servo.core.ids import ulid
from servo.core.state.rows.automation import SensorEvalRow
from servo.core.state.states import SensorStatus
from servo.errors import Invalid, NotFound
from servo.host.leading import setting_for
from servo.projection.read.lookup import Page
from servo.projection.read.reader import Reader, Snapshot
from servo.sdk.triggers.sensors import TIMEOUT_S
from servo.triggers.sensors import Seen, epoch_of, evaluated, status_of
from servo.workspace.identity import this_process
from servo.workspace.push_messages import message
from servo.workspace.system import SystemEntropy

_payload = click.option(
    "--payload", default="null", help="What it says: JSON, @FILE with JSON, or - to read it."
)
_COLOURS = {
    SensorEvalStatus.TRIGGERED.value: "green",
    SensorEvalStatus.FAILED.value: "red",
    SensorStatus.ACTIVE.value: "green",
    SensorStatus.PAUSED.value: "yellow",
    SensorStatus.ERROR.value: "red",
}


@click.group("sensor")
def sensor() -> None:
    """See what sensors look for and what came of it; pause, push and try them."""


@sensor.command("list", short_help="Every sensor, and how it stands.")
@json_option
@of_a_workspace
def list_(*, target: Target, json_: bool) -> None:
    """List the sensors that were deployed."""
    rows = Reader(target.store, target.paths).read(all_sensors)
    if json_:
        emit_json(rows)
        return
    table = grid("sensor", "kind", "status", "makes", "looks every", "last looked", "", whole=3)
    for row in rows:
        definition, state = row.definition, row.state
        table.add_row(
            row.name,
            definition.labels.get(KIND_LABEL, definition.mode.value.lower()),
            _coloured(state.status.value),
            definition.target,
            "" if row.pushed else _interval(row),
            "" if state.last_evaluation_at is None else instant(state.last_evaluation_at),
            state.last_error or _waiting(row),
        )
    console().print(table if rows else "no sensors yet: deploy some with `servo dev`")


@sensor.command("show", short_help="One sensor and its newest evaluations.")
@click.argument("name")
@json_option
@of_a_workspace
def show(*, target: Target, name: str, json_: bool) -> None:
    """Show how the sensor NAME is defined, where it stands and what it said last."""
    row, evals, messages = Reader(target.store, target.paths).read(
        lambda found: (
            one_sensor(found, name),
            evaluations(found, name, Page(limit=10)).rows,
            waiting_messages(found, name)[:10],
        )
    )
    if json_:
        emit_json({"sensor": row, "evaluations": evals, "messages": messages})
        return
    definition, state = row.definition, row.state
    table = facts()
    table.add_row("status", _coloured(state.status.value))
    table.add_row("kind", definition.labels.get(KIND_LABEL, ""))
    table.add_row("makes", definition.target or "what its function says")
    if row.pushed:
        table.add_row("messages", f"{state.messages_received} received, {_waiting(row)}")
    else:
        table.add_row("looks every", _interval(row))
        table.add_row("cursor", "none" if state.cursor is None else state.cursor)
    table.add_row("may take", f"{definition.timeout_ms / 1000:g} s")
    if state.consecutive_failures:
        table.add_row("failed", plural(state.consecutive_failures, "time") + " in a row")
    console().print(table)
    _print_evaluations(evals)


@sensor.command("history", short_help="What came of its evaluations.")
@click.argument("name")
@paged
@json_option
@of_a_workspace
def history(*, target: Target, name: str, page: Page, json_: bool) -> None:
    """List the newest evaluations of the sensor NAME, each with its why.

    Looking and finding nothing, again and again, is recorded once an hour.
    """
    _, told = Reader(target.store, target.paths).read(
        lambda found: (one_sensor(found, name), evaluations(found, name, page))
    )
    if json_:
        emit_json(told.rows)
        return
    _print_evaluations(told.rows)
    tell_older(told.older)


@sensor.command("pause", short_help="Let it look no more.")
@click.argument("name")
@of_a_workspace
def pause(*, target: Target, name: str) -> None:
    """Pause the sensor NAME. Messages for it wait until it is resumed."""
    row = _read(target, name)
    refuse_paused(f"sensor {name}", paused=row.state.status is SensorStatus.PAUSED)
    leave(target, "sensor", SensorPaused(sensor_id=name, changed_by=this_process()))
    tell_left(target, name, "paused")


@sensor.command("resume", short_help="Let it look again.")
@click.argument("name")
@of_a_workspace
def resume(*, target: Target, name: str) -> None:
    """Resume the sensor NAME: it goes on from its cursor, and its failures are forgiven."""
    row = _read(target, name)
    refuse_active(f"sensor {name}", active=row.state.status is SensorStatus.ACTIVE)
    leave(target, "sensor", SensorResumed(sensor_id=name, changed_by=this_process()))
    tell_left(target, name, "resumed")


@sensor.command("cursor", short_help="See or move its cursor.")
@click.argument("name")
@click.option("--set", "set_", help="Move it to this text.")
@click.option("--reset", is_flag=True, help="Let it begin anew, without a cursor.")
@json_option
@of_a_workspace
def cursor(*, target: Target, name: str, set_: str | None, reset: bool, json_: bool) -> None:
    """Show the cursor of the sensor NAME, or move it. An evaluation under way is then dropped."""
    row = _read(target, name)
    if set_ is not None and reset:
        raise Invalid("--set and --reset exclude each other", remedy="give one of the two")
    if set_ is None and not reset:
        if json_:
            emit_json({"cursor": row.state.cursor, "state_version": row.state.state_version})
        else:
            console().print("no cursor" if row.state.cursor is None else row.state.cursor)
        return
    if row.pushed:
        raise Invalid(f"sensor {name} is pushed to and has no cursor", remedy="leave it as it is")
    event = SensorCursorReset(
        sensor_id=name,
        cursor=set_,
        expected_state_version=row.state.state_version,
        changed_by=this_process(),
    )
    leave(target, "sensor", event)
    if json_:
        emit_json({"cursor": set_, "state_version": row.state.state_version + 1})
        return
    tell_left(target, f"the cursor of {name}", "moved")


@sensor.command("push", short_help="Send it a message.")
@click.argument("name")
@click.option("--message-id", help="Its id: sent again under the same id, it changes nothing.")
@_payload
@json_option
@of_a_workspace
def push(*, target: Target, name: str, message_id: str | None, payload: str, json_: bool) -> None:
    """Send a message to the push sensor NAME.

    It is durable when this returns, and evaluated once, now or when somebody leads the workspace.
    """
    _ = Reader(target.store, target.paths).read(lambda found: pushed_sensor(found, name))
    made = message_id or ulid(target.clock.now(), SystemEntropy().token_bytes(10))
    leave(target, "push", message(target.store, target.paths, name, made, _read_payload(payload)))
    if json_:
        emit_json({"sensor": name, "message_id": made})
        return
    console().print(f"message {made} will be evaluated by {name}")


@sensor.command("evaluate", short_help="See what it would ask for.")
@click.argument("name")
@click.argument("code", required=False)
@_payload
@click.option("--cursor", "cursor_", help="Where it is to begin; where it stands if not given.")
@click.option("--commit", is_flag=True, help="Do what it asks for, and move its cursor.")
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
    """Evaluate the sensor NAME of CODE now, with a payload or a cursor, and say what it asks for.

    Nothing comes of it, unless --commit is given.
    """
    trial = Trial(where, name)
    if commit:
        trial.check_deployed()
    asked = trial.asked(cursor_, _read_payload(payload))
    answer = trial.evaluate(asked, find_code(code, Path.cwd()), as_dagster=as_dagster)
    if json_:
        emit_json(_shown(answer))
    else:
        _print_answer(answer)
    if commit and not answer.error:
        told = trial.commit(asked, answer)
        if not json_:
            console().print(told)
    return 1 if answer.error else 0


class Trial:
    """A sensor that is evaluated by hand, in a process of its own."""

    def __init__(self, where: Where, name: str) -> None:
        self._where = where
        self._name = name
        self._found = _published(where)
        known = [] if self._found is None else all_sensors(self._found)
        self._row = next((row for row in known if row.name == name), None)

    def check_deployed(self) -> None:
        """`NotFound` if nothing could come of it."""
        if self._row is None:
            raise NotFound(
                f"there is no sensor {self._name} in this workspace",
                remedy="deploy it with `servo dev`, or evaluate it without --commit",
            )

    def asked(self, cursor: str | None, payload: str) -> EvaluateSensor:
        """What an evaluator is asked."""
        state = None if self._row is None else self._row.state
        return EvaluateSensor(
            sensor_id=self._name,
            eval_id=f"{self._name}:manual:{SystemEntropy().token_bytes(8).hex()}",
            cursor=cursor if cursor is not None or state is None else state.cursor,
            seq=0 if self._found is None else self._found.applied_seq,
            since=0 if state is None else state.row_version,
            payload=payload,
        )

    def evaluate(self, asked: EvaluateSensor, code: str, *, as_dagster: bool) -> Evaluated:
        """What the sensor asks for, or what went wrong."""
        where = self._where
        setting = setting_for(
            code,
            Path.cwd(),
            where.url,
            tenant=where.tenant,
            workspace=where.workspace,
            as_dagster=as_dagster,
        )
        seconds = TIMEOUT_S if self._row is None else self._row.definition.timeout_ms / 1000
        evaluators = EvaluatorPool(setting, self._salt, size=1)
        try:
            return evaluators.ask(asked, seconds)
        finally:
            evaluators.close()

    def commit(self, asked: EvaluateSensor, answer: Evaluated) -> str:
        """Have done what the sensor asks for; what is to be said about it."""
        self.check_deployed()
        row, target = cast("ListedSensor", self._row), self._where.open()
        now = target.clock.now()
        if row.pushed:
            leave(
                target,
                "push",
                message(target.store, target.paths, row.name, asked.eval_id, asked.payload),
            )
            return f"message {asked.eval_id} will be evaluated by {row.name}"
        seen = Seen(definition=row.definition, row=row.state, seq=asked.seq, now=now)
        trigger = PollTrigger(poll_epoch=epoch_of(seen))
        leave(target, "look", *evaluated(seen, asked.eval_id, trigger, answer))
        return "this will be done by whoever leads the workspace"

    def _salt(self) -> bytes:
        return bytes(32) if self._found is None else bytes.fromhex(self._found.manifest.identity)


def _published(where: Where) -> Snapshot | None:
    """The workspace, if there is one."""
    try:
        target = where.open()
        return Reader(target.store, target.paths).snapshot()
    except NotFound:
        return None


def _read(target: Target, name: str) -> ListedSensor:
    return Reader(target.store, target.paths).read(lambda found: one_sensor(found, name))


def _read_payload(given: str) -> str:
    """What a message says, as JSON; `Invalid` if it is none."""
    text = given
    if given == "-":
        text = sys.stdin.read()
    elif given.startswith("@"):
        path = Path(given[1:])
        if not path.is_file():
            raise NotFound(f"there is no file {path}", remedy="name one that holds JSON")
        text = path.read_text()
    try:
        _ = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise Invalid(
            f"the payload is no JSON: {error}", remedy="write a text in quotes: '\"text\"'"
        ) from None
    return text.strip()


# --- words ----------------------------------------------------------------------------------------


def _shown(answer: Evaluated) -> dict[str, Any]:
    return {
        "status": status_of(answer).value,
        "message": answer.error or answer.skipped,
        "cursor": answer.cursor,
        "runs": [
            {
                "run_key": run.requested.run_key,
                "run_id": run.requested.run_id,
                "assets": [task.asset_key for task in run.planned.tasks],
                "labels": run.requested.labels,
            }
            for run in answer.runs
        ],
        "partitions": list(answer.dynamic),
        "reported": list(answer.reported),
    }


def _print_answer(answer: Evaluated) -> None:
    if answer.error:
        raise Invalid(f"it failed: {answer.error}", remedy="mend the function of the sensor")
    out = console()
    if answer.skipped or not answer.runs:
        out.print(f"it asks for nothing: {answer.skipped}" if not answer.runs else answer.skipped)
    for run in answer.runs:
        count = len(run.planned.tasks) + sum(part.count for part in run.planned.segments)
        out.print(f"it asks for {plural(count, 'task')}, under the key {run.requested.run_key}")
    for change in answer.dynamic:
        added, removed = ", ".join(change.added), ", ".join(change.removed)
        out.print(f"partitions of {change.set_name}: +[{added}] -[{removed}]")
    for event in answer.reported:
        made = "made" if isinstance(event, AssetReported) else "seen"
        out.print(f"{event.asset_key} was {made}, it says")
    if answer.cursor is not None:
        out.print(f"its cursor would be {answer.cursor}")


def _print_evaluations(rows: Sequence[SensorEvalRow]) -> None:
    table = grid("when", "status", "by", "runs", "why", whole=2)
    for row in rows:
        by = row.message_id if row.message_id is not None else row.trigger
        status = "STALE" if row.stale else row.status.value
        table.add_row(
            instant(row.evaluated_at), _coloured(status), by, str(len(row.run_keys)), row.message
        )
    console().print(table if rows else "no evaluations yet")


def _coloured(word: str) -> Text:
    return Text(word, style=_COLOURS.get(word, ""))


def _interval(row: ListedSensor) -> str:
    return f"{timedelta(milliseconds=row.definition.min_interval_ms).total_seconds():g} s"


def _waiting(row: ListedSensor) -> str:
    count = row.state.messages_waiting
    return f"{plural(count, 'message')} waiting" if row.pushed else ""
