"""How a run looks while it goes on, and what is said when it is over."""

from collections.abc import Sequence
from datetime import datetime
from importlib import import_module
from shlex import quote
from typing import TYPE_CHECKING, Any

import msgspec
from rich.table import Table
from rich.text import Text

from servo.cli.hosts import Host
from servo.cli.rendering.output import console, number, plural, size, wrapped
from servo.cli.rendering.run_rows import failure_shown, place_shown
from servo.cli.rendering.tables import facts
from servo.core.events.assets import Severity
from servo.core.explain.failures import failure_of
from servo.core.explain.held_up import held_up
from servo.core.state.rows.assets import CheckResultRow, MaterializationRow
from servo.core.state.rows.execution import RunRow, TaskRow
from servo.core.state.states import RunState, TaskState
from servo.workspace.composition import system_clock

if TYPE_CHECKING:
    from rich.console import Console

_WORDS = (
    ("succeeded", "tasks_succeeded", "green"),
    ("failed", "tasks_failed", "red"),
    ("skipped", "tasks_skipped", "yellow"),
    ("cancelled", "tasks_cancelled", "yellow"),
)
_STYLE = {RunState.SUCCEEDED: "bold green", RunState.FAILED: "bold red"}
_BAD = (Severity.ERROR, Severity.CRITICAL)
_ASKABLE = ("parquet", "json", "text")
MAX_CHECKS = 10
MAX_FAILURES = 10
MAX_OUTPUTS = 10
MAX_RUNNING = 8
MAX_TASKS = 2_000
LOOK_EVERY = 0.1


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is over, and how long it was waited for."""

    run: RunRow
    tasks: list[TaskRow]
    seconds: float


def wait_for(host: Host, run_id: str, *, shown: bool) -> Ended:
    """Wait for the end of a run, with a live table where somebody is looking."""
    clock = system_clock()
    began = clock.monotonic()
    stderr = console(stderr=True)
    seen = shown and stderr.is_terminal
    run = _watch(host, run_id, stderr) if seen else host.wait(run_id)
    seconds = clock.monotonic() - began
    return Ended(run=run, tasks=host.tasks(run_id), seconds=seconds)


# --- while it goes on -----------------------------------------------------------------------------


def _watch(host: Host, run_id: str, stderr: Any) -> RunRow:
    progress, live = import_module("rich.progress"), import_module("rich.live")
    columns = (
        progress.BarColumn(bar_width=32),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
    )
    bars = progress.Progress(*columns, console=stderr)
    bar = bars.add_task("", total=None)
    group = import_module("rich.console").Group
    with live.Live(bars, console=stderr, transient=True, refresh_per_second=10) as screen:
        while (ended := host.wait(run_id, LOOK_EVERY)) is None:
            row = host.row(run_id)
            if row is not None:
                bars.update(bar, completed=_over(row), total=row.task_count)
                screen.update(group(_now(host, row), bars))
    return ended


def _now(host: Host, run: RunRow) -> Table:
    """What is being done, what waits, to be done again or at all, and what failed."""
    table = facts()
    now = system_clock().now()
    tasks = host.tasks(run.run_id) if run.task_count <= MAX_TASKS else host.running()
    mine = [task for task in tasks if task.run_id == run.run_id]
    by_state = {state: [t for t in mine if t.state is state] for state in TaskState}
    for task in by_state[TaskState.FAILED][:MAX_RUNNING]:
        table.add_row(_place(task), Text(f"failed: {_first_line(failure_of(task))}", "red"))
    for task in by_state[TaskState.RETRY_WAIT][:MAX_RUNNING]:
        table.add_row(
            _place(task), Text(f"retrying soon: {_first_line(failure_of(task))}", "yellow")
        )
    running = by_state[TaskState.RUNNING]
    for task in running[:MAX_RUNNING]:
        again = f", attempt {task.attempt}" if task.attempt > 1 else ""
        table.add_row(_place(task), f"running {_since(task.started_at, now)}{again}")
    if len(running) > MAX_RUNNING:
        table.add_row("", f"and {number(len(running) - MAX_RUNNING)} more")
    if held := held_up(mine, now):
        why = f"waiting {_since(held.ready_at, now)}: see `servo why {run.run_id}`"
        table.add_row(_place(held), Text(why, "yellow"))
    return table


def _place(row: TaskRow | MaterializationRow | CheckResultRow) -> str:
    return place_shown(row.asset_key, row.partition_key)


def _since(when: datetime | None, now: datetime) -> str:
    return "" if when is None else f"{max((now - when).total_seconds(), 0):.0f} s"


def _first_line(text: str) -> str:
    return text.partition("\n")[0]


def _over(row: RunRow) -> int:
    return row.tasks_succeeded + row.tasks_failed + row.tasks_skipped + row.tasks_cancelled


# --- when it is over ------------------------------------------------------------------------------


def outcome(run: RunRow, seconds: float) -> Text:
    """What became of a run, in one line."""
    said = [
        Text(f"{number(getattr(run, field))} {word}", style)
        for word, field, style in _WORDS
        if getattr(run, field)
    ]
    told = Text(", ").join(said) if said else Text("nothing to do")
    state = (run.state.value, _STYLE.get(run.state, "bold yellow"))
    return Text.assemble(state, f" {run.run_id}: ", told, f" in {seconds:.2f} s")


def summary(
    ended: Ended,
    made: Sequence[MaterializationRow] = (),
    checks: Sequence[CheckResultRow] = (),
) -> None:
    """What became of a run, what it made, what failed, and what to do next."""
    out = console()
    out.print(outcome(ended.run, ended.seconds))
    _show_made(made)
    failed = [task for task in ended.tasks if task.state is TaskState.FAILED]
    for task in failed[:MAX_FAILURES]:
        _print_item(out, Text.assemble((_place(task), "red"), f": {failure_of(task)}"))
    if len(failed) > MAX_FAILURES:
        out.print(f"  and {number(len(failed) - MAX_FAILURES)} more")
    show_checks(checks)
    _show_next(ended.run, made)


def show_checks(failed: Sequence[CheckResultRow]) -> None:
    """The checks that failed, and what they say."""
    out = console()
    for row in failed[:MAX_CHECKS]:
        said = f": {_first_line(row.message)}" if row.message else ""
        fate = (failure_shown(row), "red" if row.severity in _BAD else "yellow")
        _print_item(out, Text.assemble(f"check {row.check_name} of {_place(row)} ", fate, said))
    if len(failed) > MAX_CHECKS:
        out.print(f"  and {plural(len(failed) - MAX_CHECKS, 'more check')} that failed")


def _print_item(out: "Console", text: Text) -> None:
    """Print an item of a list; its further lines are indented like the first."""
    out.print(import_module("rich.padding").Padding(text, (0, 0, 0, 2), expand=False))


def _show_made(made: Sequence[MaterializationRow]) -> None:
    known = [row for row in made if row.byte_size is not None or row.row_count is not None]
    if not known:
        return
    out = console()
    table = facts()
    for row in sorted(known, key=lambda row: row.created_seq)[:MAX_OUTPUTS]:
        rows = "" if row.row_count is None else f"{plural(row.row_count, 'row')}, "
        held = "" if row.promoted else ", in quarantine: see `servo quarantine list`"
        table.add_row(f"  {_place(row)}", f"{rows}{size(row.byte_size or 0)}{held}")
    out.print(table)
    if len(known) > MAX_OUTPUTS:
        total = sum(row.byte_size or 0 for row in known)
        rest = number(len(known) - MAX_OUTPUTS)
        out.print(f"  and {rest} more, {size(total)} in all")


def _show_next(run: RunRow, made: Sequence[MaterializationRow]) -> None:
    """What people do next, where people look."""
    stderr = console(stderr=True)
    if run.state in (RunState.FAILED, RunState.TIMED_OUT):
        said = f"next: see `servo logs {run.run_id}`, fix the cause, and retry with "
        said += f"`servo run retry {run.run_id}`"
    elif made and stderr.is_terminal:
        said = f"next: {to_look_at(made)}"
    else:
        return
    stderr.print(Text(wrapped(said, stderr.width), "dim"), soft_wrap=True)


def to_look_at(made: Sequence[MaterializationRow]) -> str:
    """The commands that show the last of these outputs, ready to be pasted into a shell."""
    askable = [row for row in made if row.output_format in _ASKABLE]
    last = max(askable or made, key=lambda row: row.created_seq)
    show = f"`servo asset show {quote(_place(last))}`"
    name = last.asset_key if last.asset_key.isidentifier() else f'"{last.asset_key}"'
    return f"{show} or `servo sql {quote(f'from data.{name}')}`" if askable else show
