"""`servo demo`: a run, a kill, a recovery, and what the bucket says about it."""

import multiprocessing
import os
import signal
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from servo.cli.demo_leader import FLAKY, demo_service, lead_for_ever
from servo.core.events.codec import encode_batch
from servo.core.events.envelope import Batch
from servo.core.events.runs import PlanCreated, RunRequested
from servo.core.ids import TaskKeyStr, ulid
from servo.core.plan import TaskSpec, normalize
from servo.core.retry import RetryPolicy
from servo.core.state.states import TERMINAL_RUN_STATES
from servo.errors import NotFound, Unavailable
from servo.ledger.paths import Paths
from servo.projection.reader import Reader, Snapshot
from servo.projection.sql import query
from servo.runtime.system import SystemClock, SystemEntropy
from servo.storage.from_url import store_from_url

WORKSPACE = "demo"
PACE = 0.4
SOURCES = ("orders", "customers", "payments", "products", "regions", "returns")
LEASE_MS = 5_000
PATIENCE_S = 90
RETRY = RetryPolicy(delay_ms=1_000)


@click.command()
@click.option("--store", default=".servo", show_default=True, help="The folder or bucket to use.")
def demo(store: str) -> None:
    """Play a small workspace through the real engine: a run, a kill -9, a recovery, SQL."""
    console = Console()
    play = _Play(console, store)
    play.tell(f"A workspace is a folder: [bold]{store}/default/{WORKSPACE}[/]. There is no server.")
    run_id = play.request()
    play.tell(
        f"Asked for run [bold]{run_id}[/] of {len(_tasks())} tasks, by leaving a file in the inbox."
    )
    play.lead_and_die(run_id)
    play.recover(run_id)
    play.show(run_id)
    play.where_to_look(run_id)


def _tasks() -> tuple[TaskSpec, ...]:
    """Six sources, each cleaned, joined in pairs, and one report on top."""
    raw = {f"{name}_raw": () for name in SOURCES}
    clean = {f"{name}_clean": (f"{name}_raw",) for name in SOURCES}
    pairs = list(zip(SOURCES, (*SOURCES[1:], SOURCES[0]), strict=True))
    joined = {f"{a}_{b}": (f"{a}_clean", f"{b}_clean") for a, b in pairs}
    report = {"report": tuple(joined)}
    graph: dict[str, tuple[str, ...]] = {**raw, **clean, **joined, **report}
    return normalize(
        TaskSpec(
            task_key=_key(name),
            asset_key=f"demo/{name}",
            upstream=tuple(_key(above) for above in upstream),
            heartbeat_timeout_ms=LEASE_MS,
            retry=RETRY,
        )
        for name, upstream in graph.items()
    ).tasks


def _key(name: str) -> TaskKeyStr:
    return TaskKeyStr(f"demo/{name}:materialize")


class _Play:
    """The acts of the demo."""

    def __init__(self, console: Console, url: str) -> None:
        self._console = console
        self._url = url
        self._paths = Paths("default", WORKSPACE)
        self._clock = SystemClock()
        self._entropy = SystemEntropy()
        Path(url).mkdir(parents=True, exist_ok=True)
        self._store = store_from_url(url, clock=self._clock)
        self._reader = Reader(self._store, self._paths)
        self._moment = threading.Event()
        self._act = 0

    def tell(self, text: str) -> None:
        self._act += 1
        self._console.print(f"[cyan]{self._act}.[/] {text}", soft_wrap=True, markup=True)

    def request(self) -> str:
        """Ask for a run without talking to anybody: drop a batch into the inbox."""
        name = ulid(self._clock.now(), self._entropy.token_bytes(10))
        run_id = f"run_{name.lower()}"
        request = RunRequested(run_id=run_id, run_key=f"demo:{name}", request_fingerprint="demo")
        plan = PlanCreated(run_id=run_id, fingerprint="demo", tasks=_tasks())
        data = encode_batch(Batch(id=f"demo-{name}", events=(request, plan), actor="demo"))
        self._store.create(self._paths.inbox_item(name), data)
        return run_id

    def lead_and_die(self, run_id: str) -> None:
        """Let a process lead, and kill it in the middle of the run."""
        with tempfile.TemporaryDirectory() as folder:
            ready = Path(folder) / "ready"
            context = multiprocessing.get_context("spawn")
            arguments = (self._url, WORKSPACE, PACE, str(ready))
            child = context.Process(target=lead_for_ever, args=arguments, daemon=True)
            child.start()
            self._wait_until(lambda: self._succeeded(run_id) >= len(SOURCES), "the run to begin")
            os.kill(child.pid or 0, signal.SIGKILL)
            child.join()
        done = self._succeeded(run_id)
        self.tell(
            f"A leader started, ran tasks with four workers, and was killed with "
            f"[bold red]kill -9[/] after at least {done} of {len(_tasks())} tasks."
        )

    def recover(self, run_id: str) -> None:
        """Take over and finish what the dead leader left."""
        self.tell(
            "Another leader takes over from what is in the bucket. What the dead one was running "
            f"is given up when its lease of {LEASE_MS // 1000} s runs out, and tried again."
        )
        total = len(_tasks())
        columns = (TextColumn("   tasks done"), BarColumn(), MofNCompleteColumn())
        with (
            demo_service(self._url, self._paths, PACE),
            Progress(*columns, console=self._console) as progress,
        ):
            bar = progress.add_task("tasks", total=total)

            def over() -> bool:
                progress.update(bar, completed=self._succeeded(run_id))
                return self._run_state(run_id) in TERMINAL_RUN_STATES

            self._wait_until(over, "the run to end")
            progress.update(bar, completed=self._succeeded(run_id))

    def show(self, run_id: str) -> None:
        """Ask the projections with SQL."""
        self.tell(f"The run is [bold green]{self._run_state(run_id)}[/]. In SQL, from Parquet:")
        where = f"WHERE run_id = '{run_id}'"
        self._query(
            "attempts per task and what became of them",
            f"SELECT attempt, infra_losses AS workers_lost, user_failures AS failures, "
            f"state, count(*) AS tasks FROM tasks {where} GROUP BY ALL ORDER BY ALL",
        )
        self._query(
            "tasks that needed more than one attempt",
            f"SELECT task_key, attempt, user_failures AS failures, infra_losses AS workers_lost "
            f"FROM tasks {where} AND attempt > 1 ORDER BY task_key LIMIT 6",
        )
        self._query(
            "leaders of this workspace, by epoch",
            "SELECT epoch, min(seq) AS first_entry, max(seq) AS last_entry, "
            "sum(event_count) AS events FROM ledger_index GROUP BY epoch "
            "ORDER BY epoch DESC LIMIT 3",
        )

    def where_to_look(self, run_id: str) -> None:
        """What to try next."""
        options = f"--store {self._url} --workspace {WORKSPACE}"
        self.tell("Look around:")
        for line in (
            f"ls {self._url}/default/{WORKSPACE}/*/orchestration",
            f"servo sql {options} \"SELECT * FROM runs WHERE run_id = '{run_id}'\"",
            f"servo admin inspect {options}",
            f"servo admin verify {options}",
        ):
            self._console.print(
                f"   [green]{line}[/]", soft_wrap=True, highlight=False, markup=True
            )
        self._console.print(f"   (the task that failed once is {FLAKY})", highlight=False)

    # --- reading ----------------------------------------------------------------------------

    def _query(self, title: str, sql: str) -> None:
        answer = query(self._reader.snapshot(), sql)
        table = Table(title=title, title_justify="left", title_style="italic")
        for column in answer.columns:
            table.add_column(column)
        for row in answer.rows:
            table.add_row(*(str(value) for value in row))
        self._console.print(table)

    def _snapshot(self) -> Snapshot | None:
        try:
            return self._reader.snapshot()
        except NotFound:
            return None

    def _succeeded(self, run_id: str) -> int:
        snapshot = self._snapshot()
        rows = (
            []
            if snapshot is None
            else query(
                snapshot,
                f"SELECT tasks_succeeded FROM runs WHERE run_id = '{run_id}'",
            ).rows
        )
        return int(rows[0][0]) if rows else 0

    def _run_state(self, run_id: str) -> str:
        snapshot = self._snapshot()
        rows = (
            []
            if snapshot is None
            else query(
                snapshot,
                f"SELECT state FROM runs WHERE run_id = '{run_id}'",
            ).rows
        )
        return str(rows[0][0]) if rows else "unknown"

    def _wait_until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = self._clock.monotonic() + PATIENCE_S
        while not condition():
            if self._clock.monotonic() > deadline:
                raise Unavailable(
                    f"waited {PATIENCE_S} s for {what}",
                    remedy="try again on a machine with less load",
                )
            self._moment.wait(0.1)
