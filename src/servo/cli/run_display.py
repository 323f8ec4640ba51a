"""How a run looks while it goes on, and what is said when it is over."""

from importlib import import_module

from rich.text import Text

from servo.cli.output import console, plural
from servo.core.state.rows.execution import RunRow, TaskRow
from servo.core.state.states import RunState, TaskState
from servo.worker.session import Session

_WORDS = (
    ("succeeded", "tasks_succeeded", "green"),
    ("failed", "tasks_failed", "red"),
    ("skipped", "tasks_skipped", "yellow"),
    ("cancelled", "tasks_cancelled", "yellow"),
)
_STYLE = {RunState.SUCCEEDED: "bold green", RunState.FAILED: "bold red"}
MAX_FAILURES = 10
MAX_NAMES = 4
LOOK_EVERY = 0.1


def wait_for(session: Session, run_id: str, *, shown: bool) -> RunRow:
    """Wait for the end of a run, with a bar where somebody is looking; its last row."""
    stderr = console(stderr=True)
    if not shown or not stderr.is_terminal:
        return session.wait(run_id)
    rich = import_module("rich.progress")
    columns = (
        rich.BarColumn(bar_width=32),
        rich.MofNCompleteColumn(),
        rich.TimeElapsedColumn(),
        rich.TextColumn("{task.description}", style="cyan"),
    )
    with rich.Progress(*columns, console=stderr, transient=True) as bars:
        bar = bars.add_task("", total=None)
        while (ended := session.wait(run_id, LOOK_EVERY)) is None:
            row = session.row(run_id)
            if row is not None:
                names = ", ".join(sorted(session.pool.at_work())[:MAX_NAMES])
                bars.update(bar, completed=_over(row), total=row.task_count, description=names)
    return ended


def _over(row: RunRow) -> int:
    return row.tasks_succeeded + row.tasks_failed + row.tasks_skipped + row.tasks_cancelled


def summary(run: RunRow, tasks: list[TaskRow], seconds: float) -> None:
    """What became of a run: one line, and one for each task that failed."""
    out = console()
    said = [
        Text(f"{getattr(run, field)} {word}", style)
        for word, field, style in _WORDS
        if getattr(run, field)
    ]
    told = Text(", ").join(said) if said else Text("nothing to do")
    state = (run.state.value, _STYLE.get(run.state, "bold yellow"))
    out.print(Text.assemble(state, f" {run.run_id}: ", told, f" in {seconds:.2f} s"))
    failed = [task for task in tasks if task.state is TaskState.FAILED]
    for task in failed[:MAX_FAILURES]:
        out.print(Text.assemble("  ", (task.asset_key, "red"), f" {task.error_message}"))
    if len(failed) > MAX_FAILURES:
        out.print(f"  and {plural(len(failed) - MAX_FAILURES, 'more')}")
    if failed:
        said = f"servo logs {run.run_id}, servo run show, and servo run retry once it is mended"
        console(stderr=True).print(Text(said, "dim"))
