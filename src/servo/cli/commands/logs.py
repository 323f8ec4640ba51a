"""`servo logs`: what the executions of a run printed, when they have or while they do."""

import sys
import threading

import click

from servo.cli.completing import asset_keys, run_ids
from servo.cli.output import console
from servo.cli.run_rows import maker_in, task_shown
from servo.cli.workspace import Target, of_a_workspace
from servo.core.state.rows.execution import RunRow
from servo.core.state.states import TERMINAL_RUN_STATES
from servo.errors import NotFound, ServoError
from servo.ledger.paths import unquoted
from servo.operations.runs import find_run, newest_runs
from servo.ports.object_store import ObjectMeta
from servo.projection.read.lookup import Lookup, Page
from servo.projection.read.reader import Reader

LOOK_EVERY = 0.3
OVERLAP = 4096


@click.command("logs")
@click.argument("run_id", required=False, shell_complete=run_ids)
@click.argument("asset", required=False, shell_complete=asset_keys)
@click.option("-f", "--follow", is_flag=True, help="Go on until the run has ended.")
@of_a_workspace
def logs(*, target: Target, run_id: str | None, asset: str | None, follow: bool) -> None:
    """Print what the executions of a run printed: the newest run, or RUN_ID, or one ASSET of it.

    An ASSET alone is one of the newest run.
    """
    reader = Reader(target.store, target.paths)
    run_id, asset = _run_or_asset(reader, run_id, asset)
    try:
        run = _await_run(reader, run_id) if follow else _run(reader, run_id)
        printer = Printer(target, run.run_id, _maker(reader, run, asset))
        if follow:
            _follow(reader, run, printer)
        else:
            printer.look()
        printer.end_line()
    except KeyboardInterrupt:
        if not follow:
            raise
        return
    if not printer.found:
        console(stderr=True).print(f"{run.run_id} printed nothing")


class Printer:
    """Prints what is new in the logs of one run."""

    def __init__(self, target: Target, run_id: str, asset: str | None) -> None:
        self._store = target.store
        self._prefix = target.paths.logs_of(run_id)
        self._asset = asset
        self._seen: dict[str, str] = {}
        self._printed: dict[str, bytes] = {}
        self._last: str | None = None
        self._within_a_line = False

    @property
    def found(self) -> bool:
        """Whether anything was printed."""
        return bool(self._seen)

    def look(self) -> None:
        """Print what was stored since the last look."""
        for meta in self._store.list_after(self._prefix):
            if self._seen.get(meta.key) != meta.version and self._is_wanted(meta):
                self._seen[meta.key] = meta.version
                self._print(meta)

    def _is_wanted(self, meta: ObjectMeta) -> bool:
        task = unquoted(meta.key.removeprefix(self._prefix).split("/")[0])
        place = task.rpartition(":")[0]
        return self._asset is None or place.partition("[")[0] == self._asset

    def _print(self, meta: ObjectMeta) -> None:
        data = self._store.get(meta.key).data
        fresh = _behind(self._printed.get(meta.key, b""), data)
        self._printed[meta.key] = data
        if not fresh:
            return
        if meta.key != self._last:
            self._last = meta.key
            self.end_line()
            task, attempt, _ = meta.key.removeprefix(self._prefix).split("/")
            said = f"── {task_shown(unquoted(task))}, attempt {int(attempt)}"
            console(stderr=True).print(said, style="bold")
        sys.stdout.write(fresh.decode(errors="replace"))
        sys.stdout.flush()
        self._within_a_line = not fresh.endswith(b"\n")

    def end_line(self) -> None:
        """End the line that the code itself did not."""
        if self._within_a_line:
            sys.stdout.write("\n")
            sys.stdout.flush()
            self._within_a_line = False


def _behind(before: bytes, now: bytes) -> bytes:
    """What came after `before`, the beginning of which may be gone: long logs keep their end."""
    if now.startswith(before):
        return now[len(before) :]
    place = now.rfind(before[-OVERLAP:])
    return now if place < 0 else now[place + min(OVERLAP, len(before)) :]


def _follow(reader: Reader, run: RunRow, printer: Printer) -> None:
    """Print until the run has ended, and once more, because it ends after it printed."""
    pause = threading.Event()
    while run.state not in TERMINAL_RUN_STATES:
        printer.look()
        pause.wait(LOOK_EVERY)
        run = _run(reader, run.run_id)
    printer.look()


def _await_run(reader: Reader, run_id: str | None) -> RunRow:
    """The run that is named; the newest, or the first there will be."""
    if run_id is not None:
        return _run(reader, run_id)
    pause = threading.Event()
    said = False
    while True:
        try:
            return _run(reader, None)
        except NotFound:
            if not said:
                console(stderr=True).print("waiting for a run", style="dim")
            said = True
            pause.wait(LOOK_EVERY)


def _run_or_asset(
    reader: Reader, run_id: str | None, asset: str | None
) -> tuple[str | None, str | None]:
    """What was typed first is a run if there is such, otherwise an asset of the newest one."""
    if run_id is None or asset is not None:
        return run_id, asset
    try:
        return _run(reader, run_id).run_id, None
    except NotFound as no_run:
        try:
            _ = _maker(reader, _run(reader, None), run_id)
        except ServoError:
            raise no_run from None
        return None, run_id


def _maker(reader: Reader, run: RunRow, asset: str | None) -> str | None:
    """The asset in whose tasks it is made; of a run that goes on not all tasks may be known yet."""
    if asset is None:
        return None
    try:
        return reader.read(lambda snapshot: maker_in(snapshot, run.run_id, asset))
    except NotFound:
        if run.state in TERMINAL_RUN_STATES:
            raise
        return asset


def _run(reader: Reader, run_id: str | None) -> RunRow:
    if run_id is not None:
        return reader.read(lambda snapshot: find_run(Lookup(snapshot), run_id))
    newest = reader.read(lambda snapshot: newest_runs(snapshot, Page(limit=1))).items
    if not newest:
        raise NotFound("there is no run yet", remedy="`servo materialize` makes one")
    return newest[0]
