"""A backfill in the terminal: a progress bar while it runs, and a summary at the end."""

import threading
from collections.abc import Callable, Mapping, Sequence

from rich.text import Text

from servo.cli.hosts import Host
from servo.cli.rendering.output import console, instant, number, plural, progress
from servo.cli.rendering.tables import facts, grid
from servo.code.backfills.view import Backfill, BackfillStatus, status_of
from servo.core.events.backfills import BackfillState
from servo.core.partitions import shown_partition
from servo.core.state.rows.automation import BackfillChunkRow, BackfillRow
from servo.operations.backfill_requests import BackfillPreview
from servo.operations.backfills import BackfillDetail, errors_of, is_idle

LOOK_EVERY = 0.1
MAX_FAILURES = 5
FAILED = 1
_STYLES = {
    "SUCCEEDED": "green",
    "FAILED": "red",
    "CANCELLED": "yellow",
    "CANCELLING": "yellow",
    "PAUSED": "yellow",
    "PAUSED_WITH_FAILURES": "red",
    "RUNNING": "cyan",
}
Look = Callable[[], Backfill | None]


def follow(look: Look, check: Callable[[], None], *, shown: bool) -> Backfill:
    """Wait until a backfill has finished or is paused with no active runs, with a progress bar."""
    pause = threading.Event()
    with progress(shown=shown) as bar:
        while True:
            found = look()
            if found is not None and is_idle(found.row):
                return found
            if found is not None:
                bar("partitions", found.done(), found.row.total_partitions)
            check()
            pause.wait(LOOK_EVERY)


def finish_backfills(host: Host, *, json_: bool) -> list[Backfill]:
    """Wait for every unfinished backfill, until it has ended or is paused."""
    ended: list[Backfill] = []
    for row in host.open_backfills():
        if row.state is not BackfillState.PAUSED and not json_:
            console(stderr=True).print(f"resuming {row.backfill_id}")
        name = row.backfill_id
        found = follow(lambda name=name: host.backfill(name), host.check, shown=not json_)
        ended.append(found)
        if not json_:
            tell_backfill(found)
    return ended


def exit_code_of(row: BackfillRow) -> int:
    """The exit code of a command that waited for a backfill."""
    return 0 if row.state in (BackfillState.SUCCEEDED, BackfillState.PAUSED) else FAILED


def tell_preview(found: BackfillPreview) -> None:
    """What a backfill will do."""
    table = facts()
    table.add_row("assets", ", ".join(found.assets))
    table.add_row("partitions", number(len(found.typed)))
    if found.partitions:
        first, last = found.partitions[0], found.partitions[-1]
        table.add_row("from", first)
        table.add_row("to", last)
    standing = f"{number(found.materialized)} materialized, {number(found.missing)} missing"
    failed = f", {number(found.failed)} failed last" if found.failed else ""
    table.add_row("state", f"{standing}{failed}")
    runs = f"{plural(found.chunks, 'run')} of {plural(found.chunk_size, 'partition')}"
    linked = "one after the other: later partitions depend on earlier ones"
    at_once = linked if found.linked else f"{number(found.concurrency)} at once"
    table.add_row("runs", f"{runs}, {at_once}")
    console().print(table)


def tell_backfill(found: Backfill) -> None:
    """Print the state of a backfill: its numbers, what failed and why, and what to do next."""
    tell_outcome(found.row, found.chunks, errors_of(found))


def tell_outcome(
    row: BackfillRow, chunks: Sequence[BackfillChunkRow], errors: Mapping[str, str]
) -> None:
    """The same, of rows and the errors of runs."""
    out = console()
    out.print(Text.assemble(coloured(status_of(row)), f" {row.backfill_id}: {counted(row)}"))
    failed = [chunk for chunk in chunks if chunk.failed_partition_keys]
    for chunk in failed[:MAX_FAILURES]:
        keys = [_shown(key) for key in chunk.failed_partition_keys]
        more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
        error = errors.get(chunk.run_id or "", "")
        told = f" in {chunk.run_id}{': ' if error else ''}{error}"
        out.print(Text.assemble("  ", (f"{', '.join(keys[:3])}{more}", "red"), told))
    if len(failed) > MAX_FAILURES:
        out.print(f"  and {plural(len(failed) - MAX_FAILURES, 'run')} more")
    _tell_next(row)


def _tell_next(row: BackfillRow) -> None:
    name = row.backfill_id
    stderr = console(stderr=True)
    if row.finished_at is not None and row.partitions_failed:
        said = "See the runs with `servo run show`, fix the cause, and retry what failed with "
        stderr.print(Text(f"{said}`servo backfill retry-failed {name}`.", "dim"))
    elif row.state is BackfillState.PAUSED:
        stderr.print(Text(f"Paused. Resume it with `servo backfill resume {name}`.", "dim"))


def counted(row: BackfillRow) -> str:
    """The numbers of a backfill, in words."""
    parts = (
        (row.partitions_succeeded, "succeeded"),
        (row.partitions_failed, "failed"),
        (row.partitions_skipped, "skipped"),
    )
    told = [f"{number(count)} {word}" for count, word in parts if count]
    return f"{', '.join(told) or 'none finished'} of {plural(row.total_partitions, 'partition')}"


def coloured(state: BackfillStatus) -> Text:
    """A state in its colour."""
    return Text(state.value, style=_STYLES.get(state.value, ""))


def tell_list(rows: Sequence[BackfillRow]) -> None:
    """Backfills, one a line."""
    table = grid("backfill", "state", "done", "created", "assets", whole=2)
    for row in rows:
        done = f"{row.partitions_succeeded}/{row.total_partitions}"
        assets = ", ".join(row.asset_selection[:3]) + ("…" if len(row.asset_selection) > 3 else "")
        at = instant(row.created_at)
        table.add_row(row.backfill_id, coloured(status_of(row)), done, at, assets)
    console().print(table if rows else "No backfills yet. Create one with `servo backfill create`.")


def _failure_limits(row: BackfillRow) -> str:
    """The failures after which a backfill stops."""
    told = ["the first failure"] if row.stop_on_failure else []
    if row.max_failed_partitions is not None:
        told.append(f"more than {plural(row.max_failed_partitions, 'failed partition')}")
    if row.max_failed_percent is not None:
        told.append(f"more than {row.max_failed_percent} % failed partitions")
    return ", or ".join(told)


def tell_details(found: BackfillDetail, *, partitions: bool) -> None:
    """Everything about a backfill."""
    row = found.backfill
    tell_outcome(row, found.chunks, found.errors)
    table = facts()
    table.add_row("assets", ", ".join(row.asset_selection))
    table.add_row("runs", f"{row.planned_chunks} of {row.total_chunks}, {row.active_chunks} active")
    table.add_row("concurrency", str(row.max_concurrent_runs))
    if limits := _failure_limits(row):
        table.add_row("stops after", limits)
    if row.parent_backfill_id:
        table.add_row("retries", row.parent_backfill_id)
    console().print(table)
    if partitions:
        each = grid("partition", "state", whole=2)
        for key, state in found.partitions.items():
            each.add_row(key, Text(state, style=_STYLES.get(state.upper(), "")))
        console().print(each)
        return
    chunks = grid("chunk", "state", "partitions", "failed", "run", "error", whole=2)
    for chunk in found.chunks:
        chunks.add_row(
            str(chunk.chunk_index),
            Text(chunk.state.value, style=_STYLES.get(chunk.state.value, "")),
            _first_and_rest(chunk.partition_keys),
            str(len(chunk.failed_partition_keys)),
            chunk.run_id or "",
            found.errors.get(chunk.run_id or "", ""),
        )
    console().print(chunks)


def _first_and_rest(keys: Sequence[str]) -> str:
    rest = f" and {number(len(keys) - 1)} more" if len(keys) > 1 else ""
    return f"{_shown(keys[0])}{rest}"


def _shown(key: str) -> str:
    return shown_partition(key) or ""
