"""`servo logs`: print what a run logged, afterwards or while it runs."""

import sys
import threading

import click

from servo.cli.options.completing import asset_keys, run_ids
from servo.cli.options.moment import at_a_moment
from servo.cli.options.shared import json_option
from servo.cli.options.workspace import with_workspace
from servo.cli.rendering.output import console, emit_json
from servo.cli.rendering.run_rows import task_shown
from servo.errors import Invalid
from servo.operations.interface.moments import AsOf
from servo.operations.logs import LogChunk, LogQuery, follow_logs, get_logs
from servo.workspace.workspace import Workspace

LOOK_EVERY = 0.3


@click.command("logs")
@click.argument("run_id", required=False, shell_complete=run_ids)
@click.argument("asset", required=False, shell_complete=asset_keys)
@click.option("-f", "--follow", is_flag=True, help="Print new output until the run has finished.")
@at_a_moment
@json_option
@with_workspace
def logs(
    *,
    workspace: Workspace,
    run_id: str | None,
    asset: str | None,
    follow: bool,
    as_of: AsOf | None,
    json_: bool,
) -> None:
    """Print what the newest run logged, or the run RUN_ID, or one ASSET of it.

    ASSET alone means the newest run. With --follow, --json prints one JSON value per line.
    """
    query = LogQuery(run=run_id, asset=asset)
    if follow:
        _follow(workspace, query, as_of, json_=json_)
        return
    found = get_logs(workspace, query, as_of=as_of)
    if json_:
        emit_json(found)
        return
    printer = Printer()
    for chunk in found.items:
        printer.print(chunk)
    printer.end_line()
    if not found.items:
        console(stderr=True).print(f"{found.run_id} printed nothing.")


def _follow(workspace: Workspace, query: LogQuery, as_of: AsOf | None, *, json_: bool) -> None:
    if as_of is not None:
        raise Invalid(
            "--follow and --as-of exclude each other", remedy="leave out --follow or --as-of"
        )
    printer, waiting = Printer(), OutputWait()
    try:
        for chunk in follow_logs(workspace, query, wait=waiting.wait):
            waiting.is_over = True
            if json_:
                emit_json(chunk, indent=-1)
                sys.stdout.flush()
            else:
                printer.print(chunk)
        printer.end_line()
    except KeyboardInterrupt:  # the way to stop following, and no failure
        return
    if not waiting.is_over:
        console(stderr=True).print("The run printed nothing.")


class OutputWait:
    """Waits between two polls, and prints so until the first output."""

    def __init__(self) -> None:
        self.is_over = False
        self._said = False
        self._pause = threading.Event()

    def wait(self) -> None:
        """Wait for a moment."""
        if not self.is_over and not self._said:
            console(stderr=True).print("Waiting for output.", style="dim")
            self._said = True
        _ = self._pause.wait(LOOK_EVERY)


class Printer:
    """Prints output to standard output, and the task it belongs to on standard error."""

    def __init__(self) -> None:
        self._last: tuple[str, str] | None = None
        self._within_a_line = False

    def print(self, chunk: LogChunk) -> None:
        """Print the output of an execution, with a heading if it is another one than before."""
        whose = (chunk.task_key, chunk.exec_id)
        if whose != self._last:
            self._last = whose
            self.end_line()
            title = f"── {task_shown(chunk.task_key)}, attempt {chunk.attempt}"
            console(stderr=True).print(title, style="bold")
        sys.stdout.write(chunk.text)
        sys.stdout.flush()
        self._within_a_line = not chunk.text.endswith("\n")

    def end_line(self) -> None:
        """End a line that the code left unfinished."""
        if self._within_a_line:
            sys.stdout.write("\n")
            sys.stdout.flush()
            self._within_a_line = False
