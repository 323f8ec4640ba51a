"""`servo demo`: run a shop, kill a worker, kill everything, resume, hold back bad data, query it.

Everything in it is real: the commands are the ones people type, in separate processes, and the
processes are killed from outside. What it prints about the run is read from the store afterwards.
"""

import threading
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from servo.cli.demo.processes import DemoProcess, kill
from servo.cli.demo.shop import BAD_PAYMENT, CODE, PAYMENTS, spoil_payments, write_shop
from servo.cli.rendering.output import console, plural, progress
from servo.core.state.rows.execution import RunRow, TaskRow
from servo.core.state.states import TaskState
from servo.errors import NotFound, Unavailable
from servo.operations.interface.moments import PRESENT
from servo.operations.sql import SqlResult, run_sql
from servo.workspace.address import Address
from servo.workspace.composition import system_clock
from servo.workspace.workspace import open_workspace

PACE = 0.5
PACED = f'{{"resources": {{"duck": {{"config": {{"pace": {PACE}}}}}}}}}'
PATIENCE_S = 90
LOOK_EVERY = 0.1
KILL_A_WORKER_AFTER = 1
KILLS = 3
NOTICED_S = 1.0
KILL_ALL_AFTER = 5
WIDTH = 80


@click.command()
@click.argument("folder", default="servo-demo", type=click.Path(path_type=Path, file_okay=False))
def demo(folder: Path) -> None:
    """Run a guided example in FOLDER: kill workers, kill everything, resume, hold back bad data."""
    write_shop(folder)
    play = _Play(folder)
    play.introduce()
    play.run_and_kill()
    play.resume()
    play.refuse_bad_data()
    play.show_the_result()
    play.where_to_look()


class _Play:
    """The acts of the demo."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._clock = system_clock()
        self._root = folder / ".servo"
        self._stored = self._root / "default" / "default"
        self._root.mkdir(exist_ok=True)
        self._workspace = open_workspace(Address.of(str(self._root)))
        self._earlier = {run.run_id for run in self._runs()}
        self._out = _console()
        self._moment = threading.Event()
        self._run_id = ""
        self._seen: tuple[int, list[TaskRow]] = (0, [])
        self._act = 0

    # --- acts ---------------------------------------------------------------------------------

    def introduce(self) -> None:
        """Show the project before anything runs."""
        self._title("A project is a Python file; its only database is a folder")
        self._say(
            f"{self._folder / CODE} defines nine tables of a small shop, built with DuckDB. "
            f"Servo needs no server and no database. It keeps all state in {self._root}."
        )

    def run_and_kill(self) -> None:
        """Run it, kill a worker, then kill everything."""
        self._title("Start a run, then kill -9")
        self._command(f"servo materialize          (slowed down by {PACE} s per table, to watch)")
        running = DemoProcess(self._folder, "materialize", "--config", PACED)
        try:
            self._kill_a_worker(running)
            self._until(running, self._can_be_killed)
            if running.ended:  # refused, or quicker than we are
                self._tell_output(running, "materialize")
                return
        finally:
            running.kill()
        self._say("kill -9 everything else    the leader and its workers", "bold red")
        self._tell_what_is_left()

    def _kill_a_worker(self, running: DemoProcess) -> None:
        """Kill a worker in the middle of a task; the first choice may have been between two."""
        for _ in range(KILLS):
            self._until(running, lambda: self._is_busy(KILL_A_WORKER_AFTER, at_work=2))
            for victim in running.workers()[:1]:
                kill(victim)
                self._say(f"kill -9 {victim}    one of its two workers", "bold red")
            noticed = self._clock.monotonic() + NOTICED_S
            self._until(
                running, lambda until=noticed: self._has_lost() or self._clock.monotonic() > until
            )
            if running.ended or self._has_lost():
                return

    def _tell_what_is_left(self) -> None:
        """Show the state of the run according to the ledger."""
        tasks = self._workspace.read(lambda found: found.rows("tasks"), as_of=PRESENT)
        mine = [t for t in tasks if isinstance(t, TaskRow) and t.run_id == self._run_id]
        groups = {"finished": "green", "was running": "red", "not started": "dim"}
        for (what, style), chosen in zip(
            groups.items(),
            (
                [t for t in mine if t.state is TaskState.SUCCEEDED],
                [t for t in mine if t.state is TaskState.RUNNING],
                [t for t in mine if t.state not in (TaskState.SUCCEEDED, TaskState.RUNNING)],
            ),
            strict=True,
        ):
            names = ", ".join(sorted(t.asset_key for t in chosen)) or "nothing"
            self._out.print(Text.assemble(f"   {what:<13}", (names, style)))

    def resume(self) -> None:
        """Resume the run."""
        self._title("Resume in another process")
        self._run_command("resume")
        self._say("Tasks that ran more than once:")
        self._ask(
            "select asset_key, attempt as attempts, user_failures as lost_with_its_worker,\n"
            "  infra_losses as lost_with_everything\n"
            f"from tasks where run_id = '{self._run_id}' and attempt > 1 order by 1"
        )
        once = sum(task.attempt == 1 for task in self._tasks())
        self._say(f"The other {plural(once, 'task')} ran once: finished tasks are not repeated.")

    def refuse_bad_data(self) -> None:
        """Add bad data, and show that it is held back."""
        self._title("Bad data arrives and is held back")
        self._command(f"echo {BAD_PAYMENT.strip()} >> {PAYMENTS}       (-40.00 paid by card)")
        spoil_payments(self._folder)
        self._run_command("materialize")
        self._say("A blocking check ran before anything could read the new payments:")
        self._ask(
            "select check_name, passed, message from check_results\n"
            "where asset_key = 'payments' order by evaluated_at desc limit 2"
        )
        self._say("The new version is in quarantine; downstream assets read the last good one:")
        self._ask(
            "select asset_key, row_count, gating_decision, promoted as used\n"
            "from materializations where asset_key = 'payments'\n"
            "order by created_at desc limit 2"
        )

    def show_the_result(self) -> None:
        """Query an output in its Parquet file."""
        self._title("Outputs are Parquet files that any tool can read")
        uri = self._query("select last_output_uri from assets where asset_key = 'customer_value'")
        file = self._root / str(uri.rows[0][0]) / "data.parquet"
        self._out.print(Text(f"   …/{file.relative_to(self._stored)}", style="dim"), soft_wrap=True)
        with import_module("duckdb").connect() as db:
            relation = db.sql("select * from read_parquet($1)", params=[str(file)])
            self._show(relation.columns, relation.fetchall())
        self._say("With the rejected payment, Bob Ross would have spent -1.00.")

    def where_to_look(self) -> None:
        """Suggest what to try next."""
        self._title("Explore")
        for path, what in (
            (self._folder / CODE, "the project: edit it and run it"),
            (self._stored / "ledger", "every event, as JSON"),
            (self._stored / "assets", "every version of every output"),
        ):
            line = Text.assemble((f"   {path!s:<42}", "bold"), f" {what}")
            self._out.print(line, soft_wrap=True)
        self._out.print()
        for line in (
            f"cd {self._folder}",
            "servo run list",
            "servo quarantine list",
            'servo sql "select asset_key, max(wall_ms) from task_costs join tasks\n'
            '     using (run_id, task_key) group by 1 order by 2 desc"',
        ):
            self._out.print(Text(f"   {line}", style="green"), soft_wrap=True)

    # --- running ------------------------------------------------------------------------------

    def _run_command(self, name: str) -> None:
        self._command(f"servo {name}")
        running = DemoProcess(self._folder, name)
        try:
            self._tell_output(running, name)
        finally:
            running.kill()

    def _tell_output(self, running: DemoProcess, name: str) -> None:
        code, lines = running.output()
        for line in lines:
            self._say(line)
        if code:
            raise Unavailable(f"`servo {name}` exited with {code}", remedy="see its output above")

    def _until(self, running: DemoProcess, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds while a command runs, or until it exits."""
        deadline = self._clock.monotonic() + PATIENCE_S
        with progress() as bar:
            while not running.ended and not condition():
                tasks = self._tasks()
                bar("   tasks", sum(t.state is TaskState.SUCCEEDED for t in tasks), len(tasks))
                if self._clock.monotonic() > deadline:
                    raise Unavailable(
                        f"no progress for {PATIENCE_S} s",
                        remedy="try again on a machine with less load",
                    )
                self._moment.wait(LOOK_EVERY)

    def _is_busy(self, done: int, *, at_work: int) -> bool:
        """Whether so many tasks are done, and so many running."""
        states = [task.state for task in self._tasks()]
        return states.count(TaskState.SUCCEEDED) >= done and (
            states.count(TaskState.RUNNING) >= at_work
        )

    def _can_be_killed(self) -> bool:
        """Whether enough is done, and the task lost with the worker has run again."""
        lost = [task for task in self._tasks() if task.user_failures]
        made_up = all(task.state is TaskState.SUCCEEDED for task in lost)
        return made_up and self._is_busy(KILL_ALL_AFTER, at_work=1)

    def _has_lost(self) -> bool:
        return any(task.user_failures for task in self._tasks())

    # --- reading ------------------------------------------------------------------------------

    def _runs(self) -> list[RunRow]:
        try:
            rows = self._workspace.read(lambda snapshot: snapshot.rows("runs"))
        except NotFound:
            return []
        return [row for row in rows if isinstance(row, RunRow)]

    def _tasks(self) -> list[TaskRow]:
        """The published tasks of the demo's run, read again after each publication."""
        try:
            version = self._workspace.read(lambda found: found.manifest.v)
        except NotFound:
            return []
        if version != self._seen[0]:
            found = (run.run_id for run in self._runs() if run.run_id not in self._earlier)
            self._run_id = self._run_id or next(found, "")
            rows = self._workspace.read(lambda newest: newest.rows("tasks"))
            tasks = [row for row in rows if isinstance(row, TaskRow)]
            mine = [task for task in tasks if task.run_id == self._run_id]
            self._seen = (version, mine)
        return self._seen[1]

    def _query(self, sql: str) -> SqlResult:
        return run_sql(self._workspace, sql)

    # --- telling ------------------------------------------------------------------------------

    def _title(self, text: str) -> None:
        self._act += 1
        self._out.print(Text.assemble("\n", (f"{self._act}. ", "cyan"), (text, "bold")))

    def _say(self, text: str, style: str = "") -> None:
        lines = Text(text, style).wrap(self._out, WIDTH - 3)
        for line in lines:
            self._out.print(Text("   ") + line)

    def _command(self, line: str) -> None:
        self._out.print(Text.assemble("   $ ", (line, "green")), soft_wrap=True)

    def _ask(self, sql: str) -> None:
        shown = sql.replace(f" run_id = '{self._run_id}' and", "")
        for line in shown.splitlines():
            self._out.print(Text(f"   {line}", style="dim"))
        found = self._query(sql)
        self._show(found.columns, found.rows)

    def _show(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
        for name in columns:
            table.add_column(name)
        for row in rows:
            table.add_row(*(_cell(value) for value in row))
        self._out.print(Padding(table, (0, 0, 0, 3), expand=False))


def _cell(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _console() -> Console:
    """Lines of eighty columns, with and without a terminal."""
    made = console()
    made.width = min(made.width, WIDTH)
    return made
