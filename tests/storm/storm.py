"""A storm: two machines work on one store while their processes are killed at random moments.

Each machine has a project folder and a registry; they have only the store in common. Commands run
on both: `servo dev`, `tick`, `materialize`, `backfill create`, `resume`. Signals hit one of them at
a time: SIGKILL to the whole process tree, to its first process or to one of its children; or
SIGSTOP, and SIGCONT a little later. Requests are repeated under their keys, as people repeat what
they got no answer to.

After the last signal, one `servo dev` finishes what is left. `judging` then compares what callers
were told with what the workspace holds.
"""

import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

from servo.testing.machines import LIMIT, Machine, RunningCommand
from servo.workspace.system import SystemClock

CODE = """
import time
from servo import (
    DefaultScheduleStatus, RetryPolicy, ScheduleDefinition, StaticPartitionsDefinition, asset
)

# A worker that is killed alone counts as a failed attempt: it may have run out of memory.
RETRIES = RetryPolicy(max_retries=20)

def work():
    time.sleep(0.05)

@asset(retry_policy=RETRIES)
def a():
    work()
    return 1

@asset(retry_policy=RETRIES)
def b(a):
    work()
    return a + 1

@asset(retry_policy=RETRIES)
def c(b):
    work()
    return b + 1

@asset(
    retry_policy=RETRIES,
    partitions_def=StaticPartitionsDefinition([f"p{n}" for n in range(6)]),
)
def part():
    work()
    return 1

often = ScheduleDefinition(
    name="often",
    cron_schedule="*/7 * * * * *",
    target="a",
    default_status=DefaultScheduleStatus.RUNNING,
    max_catchup_ticks=1_000,
)
"""

AT_ONCE = 3
"""How many commands run at a time, besides `servo dev`."""

ENDED = ("SUCCEEDED", "FAILED", "CANCELLED", "TIMED_OUT")
CRASHED = 70
SAY_EVERY = 50
MAY_END_DEV = (
    "the process that imports it ended with SIGKILL",
    "leads this workspace and is suspended",
)
"""What a signal to something else than `servo dev` does to it."""

COMMANDS = {"materialize": 40, "chain": 10, "tick": 20, "backfill": 15, "resume": 15}
BLOWS = {"tree": 40, "process": 25, "child": 15, "stop": 20}


class Sent:
    """A command of the storm, and the key under which its request may be repeated."""

    def __init__(self, kind: str, command: RunningCommand, key: str = "") -> None:
        self.kind = kind
        self.command = command
        self.key = key
        self.struck = False


class Storm:
    """Two machines on one store, and what their callers were told.

    `runs` and `backfills` are the ids that callers were answered with, by the key of the request.
    `broken` are promises that were broken already. `settled_after` is how many seconds after the
    last signal everything from before it had ended.
    """

    def __init__(self, folder: Path, store: str, seed: int, **environ: str) -> None:
        self._random = Random(seed)
        self._clock = SystemClock()
        self._pause = threading.Event()
        self._machines = [
            Machine(folder / name, store, CODE, **environ) for name in ("here", "there")
        ]
        self._dev: Sent | None = None
        self._running: list[Sent] = []
        self._keys = 0
        self.signals: Counter[str] = Counter()
        self.ends: Counter[str] = Counter()
        self.runs: dict[str, set[str]] = {}
        self.backfills: dict[str, set[str]] = {}
        self.broken: list[str] = []
        self.settled_after = 0.0

    def __enter__(self) -> "Storm":
        return self

    def __exit__(self, *error: object) -> None:
        for sent in (*self._running, self._dev):
            if sent is not None:
                sent.command.kill()

    def rage(self, signals: int, say: Callable[[str], None] = lambda _: None) -> None:
        """Send so many signals, and let everything end afterwards."""
        while (sent := self.signals.total()) < signals:
            told = len(self.broken)
            self._start()
            _ = self._pause.wait(self._random.uniform(0.05, 1.2))
            self._strike()
            self._collect()
            for problem in self.broken[told:]:
                say(problem)
            if self.signals.total() // SAY_EVERY > sent // SAY_EVERY:
                say(f"{sent} signals, {self.ends.total()} commands, {len(self.broken)} problems")
        self._settle()

    def servo(self, *arguments: str) -> str:
        """What a command prints that must not fail."""
        said = self._machines[0].servo(*arguments)
        if said.code != 0:
            raise AssertionError(said)
        return said.out

    def rows(self, statement: str) -> list[dict[str, Any]]:
        """The rows that a statement of `servo sql` finds."""
        return json.loads(self.servo("sql", statement, "--format", "json"))

    # --- commands -----------------------------------------------------------------------------

    def _start(self) -> None:
        """Keep as many commands running as there should be."""
        if self._dev is None and self._random.random() < 0.7:
            self._dev = self._start_dev(self._random.choice(self._machines))
        while len(self._running) < AT_ONCE:
            self._running.append(self._send(self._random.choice(self._machines)))

    def _start_dev(self, machine: Machine) -> Sent:
        return Sent("dev", machine.start("dev", "assets.py"))

    def _send(self, machine: Machine) -> Sent:
        [kind] = self._random.choices([*COMMANDS], [*COMMANDS.values()])
        key, arguments = "", (kind,)
        if kind == "materialize":
            # Sometimes the last key again: its first request may have got no answer.
            self._keys += self._random.random() < 0.7
            key = f"key-{self._keys}"
            arguments = ("materialize", "assets.py", "a", "--run-key", key)
        elif kind == "chain":
            arguments = ("materialize", "assets.py", "a", "b", "c")
        elif kind == "backfill":
            key = f"fill-{self._random.randrange(12)}"
            chosen = ("part", "--from", "p0", "--to", "p5", "--request-id", key)
            arguments = ("backfill", "create", "assets.py", *chosen)
        return Sent(kind, machine.start(*arguments, "--json"), key)

    def _collect(self) -> None:
        """Take the answers of the commands that have ended."""
        if self._dev is not None and not self._dev.command.runs:
            self._take(self._dev)
            self._dev = None
        for sent in [sent for sent in self._running if not sent.command.runs]:
            self._running.remove(sent)
            self._take(sent)

    def _take(self, sent: Sent) -> None:
        said = sent.command.said()
        self.ends[f"{sent.kind} {'struck' if sent.struck else said.code}"] += 1
        if "Traceback" in said.err or said.code == CRASHED:
            self.broken.append(f"a bug in {sent.kind}: {said}")
        if sent.struck:
            return
        if sent.kind == "dev" and not any(reason in said.err for reason in MAY_END_DEV):
            self.broken.append(f"servo dev ended by itself: {said}")
        elif said.code == 0 and sent.kind in ("materialize", "chain"):
            run = json.loads(said.out)["run"]
            self.runs.setdefault(sent.key or run["run_id"], set()).add(run["run_id"])
            if run["state"] != "SUCCEEDED":
                self.broken.append(f"exit code 0, and the run is {run['state']}: {said}")
        elif said.code == 0 and sent.kind == "backfill":
            told = json.loads(said.out)
            name = told.get("backfill", told)["backfill_id"]
            self.backfills.setdefault(sent.key, set()).add(name)

    # --- signals ------------------------------------------------------------------------------

    def _strike(self) -> None:
        alive = [sent for sent in (*self._running, self._dev) if sent and sent.command.runs]
        if not alive:
            return
        victim = self._random.choice(alive)
        [blow] = self._random.choices([*BLOWS], [*BLOWS.values()])
        try:
            if self._deal(victim, blow):
                self.signals[f"{victim.kind} {blow}"] += 1
        except ProcessLookupError:
            return  # it ended meanwhile

    def _deal(self, victim: Sent, blow: str) -> bool:
        """Send a signal; whether there was anything to send it to."""
        command = victim.command
        if blow == "stop":
            command.send_to_all(signal.SIGSTOP)
            _ = self._pause.wait(self._random.uniform(0.1, 3))
            command.send_to_all(signal.SIGCONT)
            return True
        if blow == "child":
            children = _children(command.process.pid)
            if children:
                os.kill(self._random.choice(children), signal.SIGKILL)
            return bool(children)
        victim.struck = True
        (command.send_to_all if blow == "tree" else command.send)(signal.SIGKILL)
        return True

    # --- the end ------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Let everything end that is left, and measure how long that takes."""
        since, at = self._clock.monotonic(), self._clock.now()
        while self._left(at):
            if self._clock.monotonic() - since > LIMIT:
                left = self._left(at)
                self.broken.append(f"not settled {LIMIT} s after the last signal: {left}")
                break
            self._collect()
            if self._dev is None:
                self._dev = self._start_dev(self._machines[1])
            _ = self._pause.wait(0.1)
        self.settled_after = self._clock.monotonic() - since
        if self._dev is not None:
            self._dev.command.send(signal.SIGTERM)  # SIGINT is ignored if the storm ignores it
            _ = self._dev.command.ended()

    def _left(self, at: datetime) -> list[str]:
        """Commands that run, and runs and backfills from before a time that have not ended."""
        self._collect()
        if self._running:
            return [sent.kind for sent in self._running]
        rows = self.rows(
            "select run_id as id, state, created_at from runs "
            "union all select backfill_id, state, created_at from backfills"
        )
        left = [row for row in rows if row["state"] not in ENDED]
        return [
            f"{row['id']} {row['state']}"
            for row in left
            if datetime.fromisoformat(row["created_at"]) < at
        ]


def _children(pid: int) -> Sequence[int]:
    """The processes that a process has started, as far as the system tells."""
    try:
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
