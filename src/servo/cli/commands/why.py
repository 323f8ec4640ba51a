"""`servo why` and `servo why-not`: explain a state, and what to do about it."""

from collections.abc import Sequence

import click
from click.shell_completion import CompletionItem

from servo.cli.options.completing import asset_keys, run_ids
from servo.cli.options.moment import at_a_moment
from servo.cli.options.partitions import partition_option
from servo.cli.options.shared import json_option
from servo.cli.options.workspace import with_workspace
from servo.cli.rendering.findings import show, workspace_options
from servo.cli.rendering.output import console, emit_json, instant
from servo.errors import Invalid, NotFound
from servo.operations.explain import (
    Explanation,
    explain_asset,
    explain_missing,
    explain_run,
    explain_task,
)
from servo.operations.interface.moments import AsOf
from servo.workspace.workspace import Workspace

RUN = "run"
TASK = "task"
RUN_ID = "run_"
USAGE = "servo why ASSET[:PARTITION], servo why run RUN_ID, or servo why task RUN_ID TASK"

_all = click.option(
    "--all",
    "whole",
    is_flag=True,
    help="Show every part of a condition, not only the deciding ones.",
)


def _complete(context: click.Context, param: click.Parameter, typed: str) -> list[CompletionItem]:
    """Complete run ids after `run` and `task`, and asset keys otherwise."""
    given: Sequence[str] = context.params.get("about") or context.args or ()
    if given and given[0] in (RUN, TASK) and len(given) == 1:
        return run_ids(context, param, typed)
    words = [] if given else [word for word in (RUN, TASK) if word.startswith(typed)]
    return [*map(CompletionItem, words), *asset_keys(context, param, typed)]


@click.command("why", short_help="Explain an asset, a run or a task.")
@click.argument("about", nargs=-1, required=True, shell_complete=_complete)
@partition_option
@at_a_moment
@_all
@json_option
@with_workspace
def why(
    *,
    workspace: Workspace,
    about: Sequence[str],
    partition: str | None,
    as_of: AsOf | None,
    whole: bool,
    json_: bool,
) -> None:
    """Explain the state of an asset, a run or a task, and what happens next.

    \b
    servo why ASSET[:PARTITION]  its last output, later attempts, what starts it
    servo why run RUN_ID         what started it, its progress, what it waits for
    servo why task RUN_ID TASK   the same for one task, by its key or its asset

    RUN_ID can be abbreviated, and so can an asset key, as in `servo asset show`.
    """
    found = _asked(workspace, about, partition, as_of, whole=whole)
    _tell(workspace, found, as_of, json_=json_)


@click.command("why-not", short_help="Explain why an asset was not materialized.")
@click.argument("asset", shell_complete=asset_keys, metavar="ASSET[:PARTITION]")
@partition_option
@at_a_moment
@_all
@json_option
@with_workspace
def why_not(
    *,
    workspace: Workspace,
    asset: str,
    partition: str | None,
    as_of: AsOf | None,
    whole: bool,
    json_: bool,
) -> None:
    """Explain why an asset has no newer materialization.

    Looks at the last attempt, outputs in quarantine, upstream assets, and every schedule, sensor,
    backfill and automation condition that covers the asset.
    """
    found = explain_missing(workspace, asset, partition=partition, as_of=as_of, whole=whole)
    _tell(workspace, found, as_of, json_=json_)


def _asked(
    workspace: Workspace,
    about: Sequence[str],
    partition: str | None,
    as_of: AsOf | None,
    *,
    whole: bool,
) -> Explanation:
    """Parse the arguments. One word is an asset, even if it is `run` or `task`."""
    match about:
        case (name,):
            return _about_one(workspace, name, partition, as_of, whole=whole)
        case (word, run_id) if word == RUN and partition is None:
            return explain_run(workspace, run_id, as_of=as_of, whole=whole)
        case (word, run_id, task) if word == TASK:
            given = task if partition is None else f"{task}:{partition}"
            return explain_task(workspace, run_id, given, as_of=as_of, whole=whole)
        case _:
            raise Invalid(f"cannot interpret {' '.join(about)!r}", remedy=f"use {USAGE}")


def _about_one(
    workspace: Workspace, name: str, partition: str | None, as_of: AsOf | None, *, whole: bool
) -> Explanation:
    try:
        return explain_asset(workspace, name, partition=partition, as_of=as_of, whole=whole)
    except NotFound:
        if partition is None and name in (RUN, TASK):
            raise Invalid(f"which {name}?", remedy=f"use {USAGE}") from None
        if partition is not None or not name.startswith(RUN_ID):
            raise
    return explain_run(workspace, name, as_of=as_of, whole=whole)


def _tell(workspace: Workspace, found: Explanation, as_of: AsOf | None, *, json_: bool) -> None:
    if json_:
        emit_json(found)
        return
    show(found.findings, workspace_options(workspace.address))
    if as_of is not None:
        said = f"as of entry {found.applied_seq}, {instant(found.as_of)}"
        console(stderr=True).print(said, style="dim")
