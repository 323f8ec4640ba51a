"""`servo why` and `servo why-not`: why something is as it is, and what to do about it."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import click
from click.shell_completion import CompletionItem

from servo.cli.completing import asset_keys, run_ids
from servo.cli.findings import show, workspace_options
from servo.cli.hosts import who_works_in
from servo.cli.moment import as_of_option, look
from servo.cli.options import json_option
from servo.cli.output import console, emit_json, instant
from servo.cli.why_subject import asset_in, run_in, task_in
from servo.cli.workspace import Target, of_a_workspace
from servo.core.explain import assets
from servo.core.explain.finding import Finding
from servo.core.explain.records import Records
from servo.core.explain.runs import explain_run, explain_unknown_run
from servo.core.explain.tasks import explain_attempt
from servo.errors import Invalid, NotFound
from servo.operations.moments import parse_moment
from servo.projection.read.lookup import Lookup
from servo.projection.read.reader import Snapshot

RUN = "run"
TASK = "task"
RUN_ID = "run_"
USAGE = "servo why ASSET[:PARTITION], servo why run RUN_ID, or servo why task RUN_ID TASK"

Question = Callable[[Snapshot, Records], list[Finding]]

_all = click.option(
    "--all", "whole", is_flag=True, help="Show every part of a condition, not what decided it."
)
_partition = click.option("--partition", help="The partition, if its key is hard to write after :.")


def _complete(context: click.Context, param: click.Parameter, typed: str) -> list[CompletionItem]:
    """After `run` and `task` ids of runs, otherwise keys of assets."""
    given: Sequence[str] = context.params.get("about") or context.args or ()
    if given and given[0] in (RUN, TASK) and len(given) == 1:
        return run_ids(context, param, typed)
    words = [] if given else [word for word in (RUN, TASK) if word.startswith(typed)]
    return [*map(CompletionItem, words), *asset_keys(context, param, typed)]


@click.command("why", short_help="Explain an asset, a run or a task.")
@click.argument("about", nargs=-1, required=True, shell_complete=_complete)
@_partition
@as_of_option
@_all
@json_option
@of_a_workspace
def why(
    *,
    target: Target,
    about: Sequence[str],
    partition: str | None,
    as_of: str | None,
    whole: bool,
    json_: bool,
) -> None:
    """Explain why something is as it is, and what would have to happen next.

    \b
    servo why ASSET[:PARTITION]      what made it, what was tried since, what makes it next
    servo why run RUN_ID             what asked for a run, how it stands, what holds it up
    servo why task RUN_ID TASK       the same of one task: its key, or the asset it makes

    The beginning of RUN_ID is enough. An asset is named as in `servo asset show`.
    """
    _answer(target, _question(about, partition), as_of, whole=whole, json_=json_)


@click.command("why-not", short_help="Explain why an asset was not made.")
@click.argument("asset", shell_complete=asset_keys, metavar="ASSET[:PARTITION]")
@_partition
@as_of_option
@_all
@json_option
@of_a_workspace
def why_not(
    *,
    target: Target,
    asset: str,
    partition: str | None,
    as_of: str | None,
    whole: bool,
    json_: bool,
) -> None:
    """Explain why nothing newer was made of an asset: what was tried, what could have started it.

    Looks at the last attempt, at outputs that were held back, at what the asset is made from, and
    at every schedule, sensor, backfill and condition that is about it.
    """

    def ask(snapshot: Snapshot, records: Records) -> list[Finding]:
        return assets.why_not(records, asset_in(snapshot, asset, partition, records.now))

    _answer(target, ask, as_of, whole=whole, json_=json_)


def _question(about: Sequence[str], partition: str | None) -> Question:
    """What is asked. One word is an asset, also if it is called run or task."""
    match about:
        case (name,):
            return lambda snapshot, records: _about_one(snapshot, records, name, partition)
        case (word, run_id) if word == RUN and partition is None:
            return lambda snapshot, records: _about_run(snapshot, records, run_id)
        case (word, run_id, task) if word == TASK:
            given = task if partition is None else f"{task}:{partition}"
            return lambda snapshot, records: [
                explain_attempt(records, task_in(records, run_in(snapshot, run_id), given))
            ]
        case _:
            raise Invalid(f"cannot tell what {' '.join(about)!r} is about", remedy=f"ask {USAGE}")


def _about_one(
    snapshot: Snapshot, records: Records, name: str, partition: str | None
) -> list[Finding]:
    try:
        return assets.why(records, asset_in(snapshot, name, partition, records.now))
    except NotFound:
        if partition is None and name in (RUN, TASK):
            raise Invalid(f"which {name}?", remedy=f"ask {USAGE}") from None
        if partition is not None or not name.startswith(RUN_ID):
            raise
    return _about_run(snapshot, records, name)


def _about_run(snapshot: Snapshot, records: Records, run_id: str) -> list[Finding]:
    try:
        return [explain_run(records, run_in(snapshot, run_id))]
    except NotFound:
        found = explain_unknown_run(records, run_id)
        if found is None:
            raise
    return [found]


def _answer(
    target: Target, question: Question, as_of: str | None, *, whole: bool, json_: bool
) -> None:
    def ask(snapshot: Snapshot) -> tuple[Snapshot, list[Finding]]:
        now = _now(target, snapshot, as_of)
        led = None if as_of is not None else _led(target)
        records = Records(Lookup(snapshot), now, led=led, whole=whole)
        return snapshot, question(snapshot, records)

    snapshot, findings = look(target, as_of, ask)
    if json_:
        told: dict[str, Any] = {
            "applied_seq": snapshot.applied_seq,
            "as_of": snapshot.as_of,
            "findings": findings,
        }
        emit_json(told)
        return
    show(findings, workspace_options(target))
    if as_of is not None:
        said = f"as of entry {snapshot.applied_seq}, {instant(snapshot.as_of)}"
        console(stderr=True).print(said, style="dim")


def _now(target: Target, snapshot: Snapshot, as_of: str | None) -> datetime:
    if as_of is None:
        return target.clock.now()
    moment = parse_moment(as_of)
    return snapshot.as_of if isinstance(moment, int) else moment


def _led(target: Target) -> bool | None:
    """Whether somebody leads the workspace; a store that others reach may be led by them."""
    if who_works_in(target) is not None:
        return True
    return None if "://" in target.url.removeprefix("file://") else False
