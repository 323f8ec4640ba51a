"""`servo backfill`: make partitions in bulk, and see, stop and repeat it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from servo.cli.backfill_display import (
    tell_details,
    tell_list,
    tell_outline,
)
from servo.cli.backfill_rows import (
    find_backfill,
    newest_backfills,
    now_in,
    shown_key,
)
from servo.cli.backfill_steps import (
    begin,
    by_whom,
    change,
    follow_here,
    present,
    target_of,
    tell_end,
    watch,
)
from servo.cli.code import as_dagster_option, code_or_selection
from servo.cli.commands.materialize import CODE_LABEL, read_tags, with_workers
from servo.cli.completing import backfill_ids
from servo.cli.hosts import Code, open_host, read_code, who_works_in
from servo.cli.options import json_option, paged, tell_older
from servo.cli.output import console, emit_json, plural
from servo.cli.partitions import Dynamic
from servo.cli.selecting import selected
from servo.cli.telling import deploy_now
from servo.cli.workspace import Command, Target, Where, at_a_workspace, of_a_workspace
from servo.code.backfills.chunks import frozen_partitions
from servo.code.backfills.requests import (
    DEFAULT_CONCURRENCY,
    Asked,
    Choice,
    Outline,
    Which,
    again,
    created,
    outline,
    standing,
)
from servo.code.backfills.view import Backfill, partition_states
from servo.core.events.backfills import BackfillState
from servo.core.keys import AssetKey
from servo.errors import Conflict
from servo.planning.backfills import Backfilled
from servo.projection.read.lookup import Page
from servo.projection.read.reader import Reader, Snapshot
from servo.sdk.definitions.project import Project
from servo.sdk.partitions.mapping_resolution import Moment
from servo.workspace.system import SystemClock, SystemEntropy

_wait = click.option("--wait", "wait_", is_flag=True, help="Wait until it is over.")
_id = click.argument("backfill_id", shell_complete=backfill_ids)


def _what(command: Command) -> Command:
    """Give a command the options that say which partitions are meant, and how they are made."""
    options = (
        click.option("--from", "start", metavar="KEY", help="The first partition."),
        click.option("--to", "end", metavar="KEY", help="The last partition."),
        click.option(
            "--partition", "keys", multiple=True, metavar="KEY", help="A partition; repeatable."
        ),
        click.option("--all", "which", flag_value="all", help="Every partition there is."),
        click.option("--missing", "which", flag_value="missing", help="Those never made."),
        click.option("--failed", "which", flag_value="failed", help="Those that failed last."),
        click.option("--stale", "which", flag_value="stale", help="Those out of date, or missing."),
        click.option("--chunk-size", type=int, help="Partitions a run makes; 10 if not given."),
        click.option(
            "--concurrency",
            type=int,
            default=DEFAULT_CONCURRENCY,
            show_default=True,
            help="Runs at once.",
        ),
        click.option("--priority", type=int, default=0, help="Higher goes first."),
        click.option("--stop-on-failure", is_flag=True, help="Begin no run after one failed."),
        click.option("--max-failed", type=int, help="Begin no run after so many more failed."),
        click.option("--tag", "tags", multiple=True, metavar="KEY=VALUE", help="A tag of it."),
        click.option("--request-id", help="Your own name for it: asking twice makes one."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.group("backfill")
def backfill() -> None:
    """Make many partitions, in runs of some, and see how far it is."""


@backfill.command("create", short_help="Make many partitions.")
@click.argument("code", required=False)
@click.argument("select", nargs=-1)
@_what
@_wait
@with_workers
@as_dagster_option
@json_option
@at_a_workspace
def create(  # noqa: PLR0913 - the options of the command
    *,
    code: str | None,
    select: Sequence[str],
    where: Where,
    workers: int,
    as_dagster: bool,
    wait_: bool,
    json_: bool,
    **options: Any,
) -> int:
    """Make partitions of the assets of CODE, or of those of them that are SELECTed.

    Which: a range (--from, --to), some (--partition), or --all, --missing, --failed or --stale,
    also within a range. They are frozen now, and made in runs of --chunk-size, --concurrency of
    them at once. Whoever leads the workspace does the work: `servo dev`, or this command with
    --wait, or `servo resume` later.
    """
    code, select = code_or_selection(code, select, Path.cwd())
    found, project = read_code(code, as_dagster=as_dagster)
    asked = _asked(found, options)
    keys = _chosen(project, select)
    outlined = _outline(project, keys, asked, where)  # which refuses what cannot be
    if asked.choice.which == "stale":
        deploy_now(where, found)  # what is stale depends on the code, not on what it was
        outlined = _outline(project, keys, asked, where)
    del project
    if not outlined.typed:
        emit_json(None) if json_ else console().print(f"nothing is {asked.choice.which}")
        return 0
    target = target_of(where)
    event = created(target.store, target.paths, asked, outlined)
    return begin(event, found, where, workers, wait_=wait_, json_=json_)


@backfill.command("preview", short_help="What a backfill would do.")
@click.argument("code", required=False)
@click.argument("select", nargs=-1)
@_what
@as_dagster_option
@json_option
@at_a_workspace
def preview(
    *,
    code: str | None,
    select: Sequence[str],
    where: Where,
    as_dagster: bool,
    json_: bool,
    **options: Any,
) -> None:
    """Say what `servo backfill create` with the same options would do, and do nothing."""
    code, select = code_or_selection(code, select, Path.cwd())
    found, project = read_code(code, as_dagster=as_dagster)
    asked = _asked(found, options)
    outlined = _outline(project, _chosen(project, select), asked, where)
    if json_:
        emit_json({**_builtins(outlined), "chunks": outlined.chunks})
        return
    tell_outline(outlined)


@backfill.command("list", short_help="The newest backfills.")
@paged
@json_option
@of_a_workspace
def list_(*, target: Target, page: Page, json_: bool) -> None:
    """List the newest backfills."""
    found = Reader(target.store, target.paths).read(
        lambda snapshot: newest_backfills(snapshot, page)
    )
    if json_:
        emit_json(found.rows)
        return
    tell_list(found.rows)
    tell_older(found.older)


@backfill.command("show", short_help="One backfill and its runs.")
@_id
@click.option("--partitions", is_flag=True, help="Every partition instead of every run.")
@json_option
@of_a_workspace
def show(*, target: Target, backfill_id: str, partitions: bool, json_: bool) -> None:
    """Show how a backfill stands. The beginning of BACKFILL_ID is enough."""

    def read(snapshot: Snapshot) -> tuple[Backfill, dict[str, str]]:
        found = find_backfill(snapshot, backfill_id)
        keys = frozen_partitions(target.store, target.paths, found.row)
        return found, partition_states(snapshot, found, keys)

    found, states = Reader(target.store, target.paths).read(read)
    if json_:
        named = {shown_key(key): state for key, state in states.items()}
        emit_json({"backfill": found.row, "chunks": found.chunks, "partitions": named})
        return
    tell_details(found, states, partitions=partitions)


@backfill.command("pause", short_help="Begin no more runs of it.")
@_id
@at_a_workspace
def pause(*, where: Where, backfill_id: str) -> None:
    """Begin no more runs of a backfill; those under way end, with all of their partitions."""
    row = change(where, backfill_id, BackfillState.PAUSED)
    under_way = ""
    if row.active_chunks:
        most = min(row.active_chunks * row.chunk_size, row.total_partitions)
        runs, partitions = plural(row.active_chunks, "run"), plural(most, "partition")
        under_way = f"; {runs} under way, with at most {partitions}, will end first"
    console().print(f"{row.backfill_id} is paused{under_way}")


@backfill.command("resume", short_help="Go on with it.")
@_id
@at_a_workspace
def resume(*, where: Where, backfill_id: str) -> None:
    """Go on with a backfill that was paused."""
    row = change(where, backfill_id, BackfillState.RUNNING)
    console().print(f"{row.backfill_id} goes on{by_whom(where, row.backfill_id)}")


@backfill.command("cancel", short_help="Stop it.")
@_id
@at_a_workspace
def cancel(*, where: Where, backfill_id: str) -> None:
    """Stop a backfill: nothing of it starts any more, and its runs are cancelled."""
    row = change(where, backfill_id, BackfillState.CANCELLING)
    console().print(f"{row.backfill_id} is {row.state.value.lower()}")


@backfill.command("retry-failed", short_help="Make again what failed of it.")
@_id
@click.argument("code", required=False)
@click.option("--request-id", help="Your own name for it: asking twice makes one.")
@_wait
@with_workers
@as_dagster_option
@json_option
@at_a_workspace
def retry_failed(  # noqa: PLR0913 - the options of the command
    *,
    backfill_id: str,
    code: str | None,
    request_id: str | None,
    where: Where,
    workers: int,
    as_dagster: bool,
    wait_: bool,
    json_: bool,
) -> int:
    """Make the partitions of a backfill that failed in a new backfill, and no others."""
    target = where.open()
    found = find_backfill(present(where), backfill_id)
    if found.row.finished_at is None:
        raise Conflict(
            f"{found.row.backfill_id} is not over", remedy="wait for it, or cancel it first"
        )
    named = request_id or SystemEntropy().token_bytes(12).hex()
    event = again(target.store, target.paths, found.row, found.failed(), named)
    code_found = _code(code or found.row.labels.get(CODE_LABEL), as_dagster) if wait_ else None
    return begin(event, code_found, where, workers, wait_=wait_, json_=json_, again=found.row)


@backfill.command("wait", short_help="Wait until it is over.")
@_id
@click.argument("code", required=False)
@with_workers
@as_dagster_option
@json_option
@at_a_workspace
def wait(
    *,
    backfill_id: str,
    code: str | None,
    where: Where,
    workers: int,
    as_dagster: bool,
    json_: bool,
) -> int:
    """Wait until a backfill is over. If nobody leads the workspace, this process does the work."""
    target = where.open()
    row = find_backfill(present(where), backfill_id).row
    if row.finished_at is None and who_works_in(target) is None:
        found = _code(code or row.labels.get(CODE_LABEL), as_dagster)
        with open_host(found, where, workers, backfills=True) as host:
            return tell_end(follow_here(host, row.backfill_id, json_=json_), json_=json_)
    return tell_end(watch(where, row.backfill_id, json_=json_), json_=json_)


# --- what was asked for ---------------------------------------------------------------------------


def _asked(code: Code, options: dict[str, Any]) -> Asked:
    which: Which = options["which"] or ""
    choice = Choice(
        start=options["start"],
        end=options["end"],
        keys=tuple(options["keys"]),
        which=which,
    )
    return Asked(
        choice=choice,
        request_id=options["request_id"] or SystemEntropy().token_bytes(12).hex(),
        chunk_size=options["chunk_size"],
        concurrency=options["concurrency"],
        priority=options["priority"],
        stop_on_failure=options["stop_on_failure"],
        max_failed=options["max_failed"],
        labels={**read_tags(options["tags"]), CODE_LABEL: code.name},
        location=code.name,
    )


def _chosen(project: Project, select: Sequence[str]) -> list[AssetKey]:
    if not select:
        divided = [key for key in project.order if project.specs[key].partitions_def is not None]
        return divided or project.order
    return selected(project, select)


def _outline(project: Project, keys: list[AssetKey], asked: Asked, where: Where) -> Outline:
    snapshot = now_in(where)
    now = SystemClock().now()
    backfilled = Backfilled(project, keys, Moment(now, Dynamic(where)))
    return outline(backfilled, asked, standing(snapshot, now, backfilled))


def _code(given: str | None, as_dagster: bool) -> Code:
    found, _ = read_code(given, as_dagster=as_dagster)
    return found


def _builtins(value: Outline) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__struct_fields__}
