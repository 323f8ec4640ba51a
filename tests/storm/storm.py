"""A storm: two machines work on one store while their processes are killed at random moments.

The machines have a project folder and a registry each, and only the store in common. Commands run
on both: `servo dev`, `tick`, `materialize`, `backfill create`, `resume`. Every moment a signal hits
one of them: SIGKILL to a whole process tree, to the process that leads, to one of its workers or
evaluators; or SIGSTOP, and SIGCONT a little later. Requests are repeated under their keys, as people
repeat what they got no answer to.

After the last signal one `servo dev` finishes what is left. Then `judge` compares what callers were
told with what the workspace holds.
"""

import json
import os
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

from servo.testing.machines import LIMIT, CommandOutput, Machine, RunningCommand

CODE = """
import time
from servo import DefaultScheduleStatus, ScheduleDefinition, StaticPartitionsDefinition, asset

def work():
    time.sleep(0.05)

@asset
def a():
    work()
    return 1

@asset
def b(a):
    work()
    return a + 1

@asset
def c(b):
    work()
    return b + 1

@asset(partitions_def=StaticPartitionsDefinition([f"p{n}" for n in range(6)]))
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

TERMINAL = ("SUCCEEDED", "FAILED", "CANCELLED", "COMPLETED", "TIMED_OUT")


class Sent:
    """A command of the storm, and the key under which its request may be repeated."""

    def __init__(self, kind: str, key: str, command: RunningCommand) -> None:
        self.kind = kind
        self.key = key
        self.command = command
        self.struck = False


class Storm:
    """Two machines on one store, and what their callers were told."""

    def __init__(self, folder: Path, store: str, seed: int, **environ: str) -> None:
        self._random = Random(seed)
        self._pause = threading.Event()
        self.machines = [
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
        self.last_signal = 0.0
        self.ended_at = datetime.now(UTC)
        self.waited = 0.0

    def rage(self, signals: int, say: Callable[[str], None] = lambda _: None) -> None:
        """Send so many signals, and finish everything afterwards."""
        while (sent := self.signals.total()) < signals:
            self._start()
            _ = self._pause.wait(self._random.uniform(0.05, 1.2))
            self._strike()
            self._collect()
            if sent and sent % 50 == 0 and sent != getattr(self, "_said", 0):
                self._said = sent
                say(f"{sent} signals, {self.ends.total()} commands ended, {len(self.broken)} broken")
        self.last_signal, self.ended_at = time.monotonic(), datetime.now(UTC)
        self._finish()

    # --- commands -----------------------------------------------------------------------------

    def _start(self) -> None:
        if self._dev is None and self._random.random() < 0.7:
            machine = self._random.choice(self.machines)
            self._dev = Sent("dev", "", machine.start("dev", "assets.py"))
        while len(self._running) < AT_ONCE:
            self._running.append(self._send(self._random.choice(self.machines)))

    def _send(self, machine: Machine) -> Sent:
        kind = self._random.choices(
            ["materialize", "chain", "tick", "backfill", "resume"], [40, 10, 20, 15, 15]
        )[0]
        if kind == "materialize":
            # Sometimes the last key again: its first request may have got no answer.
            self._keys += self._random.random() < 0.7
            key = f"key-{self._keys}"
            arguments = ["materialize", "assets.py", "a", "--run-key", key]
        elif kind == "chain":
            key, arguments = "", ["materialize", "assets.py", "a", "b", "c"]
        elif kind == "backfill":
            key = f"fill-{self._random.randrange(12)}"
            arguments = ["backfill", "create", "assets.py", "part", "--from", "p0", "--to", "p5"]
            arguments += ["--request-id", key]
        else:
            key, arguments = "", [kind]
        return Sent(kind, key, machine.start(*arguments, "--json"))

    def _collect(self) -> None:
        """Take the answers of the commands that have ended."""
        if self._dev is not None and not self._dev.command.runs:
            self._judge_end(self._dev)
            self._dev = None
        for sent in [sent for sent in self._running if not sent.command.runs]:
            self._running.remove(sent)
            self._judge_end(sent)

    def _judge_end(self, sent: Sent) -> None:
        said = sent.command.said()
        self.ends[f"{sent.kind} {'struck' if sent.struck else said.code}"] += 1
        if "Traceback" in said.err or said.code == 70:
            self.broken.append(f"{sent.kind} ended with a bug: {said}")
        if sent.struck:
            return
        if sent.kind == "dev":
            self.broken.append(f"servo dev ended by itself: {said}")
        elif said.code == 0 and sent.kind in ("materialize", "chain"):
            run = json.loads(said.out)["run"]
            self.runs.setdefault(sent.key or run["run_id"], set()).add(run["run_id"])
            if run["state"] != "SUCCEEDED":
                self.broken.append(f"exit code 0 and {run['state']}: {said}")
        elif said.code in (0, 1) and sent.kind == "backfill" and said.out:
            found = json.loads(said.out)
            name = found.get("backfill", found).get("backfill_id", "")
            self.backfills.setdefault(sent.key, set()).add(name)

    # --- signals ------------------------------------------------------------------------------

    def _strike(self) -> None:
        alive = [sent for sent in (*self._running, self._dev) if sent and sent.command.runs]
        if not alive:
            return
        victim = self._random.choice(alive)
        how = self._random.choices(["tree", "process", "child", "stop"], [40, 25, 15, 20])[0]
        pid = victim.command.process.pid
        try:
            if how == "tree":
                victim.struck = True
                victim.command.send_to_all(signal.SIGKILL)
            elif how == "process":
                victim.struck = True
                victim.command.send(signal.SIGKILL)
            elif how == "child":
                children = _children(pid)
                if not children:
                    return
                os.kill(self._random.choice(children), signal.SIGKILL)
            else:
                victim.command.send_to_all(signal.SIGSTOP)
                _ = self._pause.wait(self._random.uniform(0.1, 3))
                victim.command.send_to_all(signal.SIGCONT)
        except (ProcessLookupError, PermissionError):
            return  # it ended meanwhile
        self.signals[f"{victim.kind} {how}"] += 1

    # --- the end ------------------------------------------------------------------------------

    def _finish(self) -> None:
        """Let everything end that is left, and measure how long it takes after the last signal."""
        if self._dev is None:
            self._dev = Sent("dev", "", self.machines[1].start("dev", "assets.py"))
        for sent in self._running:
            try:
                _ = sent.command.ended()
            except AssertionError as error:
                self.broken.append(f"{sent.kind} does not end: {error}")
                sent.command.kill()
        self._collect()
        while open_ := self._open():
            if time.monotonic() - self.last_signal > LIMIT:
                self.broken.append(f"still open {LIMIT} s after the last signal: {open_}")
                break
            if self._dev is None or not self._dev.command.runs:
                self._collect()
                self._dev = Sent("dev", "", self.machines[1].start("dev", "assets.py"))
            _ = self._pause.wait(0.2)
        self.waited = time.monotonic() - self.last_signal
        if self._dev is not None:
            self._dev.command.send(signal.SIGINT)
            _ = self._dev.command.ended()

    def rows(self, statement: str) -> list[dict[str, Any]]:
        """The rows that a statement of `servo sql` finds."""
        said = self.machines[0].servo("sql", statement, "--format", "json")
        if said.code != 0:
            raise AssertionError(said)
        return json.loads(said.out)

    def _open(self) -> list[str]:
        """Runs and backfills from before the last signal that have not ended."""
        at = self.ended_at.isoformat()
        runs = self.rows(f"select run_id, state from runs where created_at < '{at}'")
        fills = self.rows("select backfill_id, state from backfills")
        found = [(row["run_id"], row["state"]) for row in runs]
        found += [(row["backfill_id"], row["state"]) for row in fills]
        return [f"{name} {state}" for name, state in found if state not in TERMINAL]

    def judge(self) -> list[str]:
        """What is not as it was promised; empty if everything is."""
        runs = {row["run_id"]: row for row in self.rows("select run_id, run_key, state from runs")}
        return [
            *self.broken,
            *self._lost(runs),
            *self._doubled(runs),
            *self._failed(runs),
            *self._skipped_ticks(),
            *self._unverified(),
        ]

    def _lost(self, runs: dict[str, Any]) -> list[str]:
        told = {run for ids in self.runs.values() for run in ids}
        fills = {row["backfill_id"] for row in self.rows("select backfill_id from backfills")}
        promised = {fill for ids in self.backfills.values() for fill in ids}
        return [f"{name} was acknowledged and is lost" for name in (told - {*runs}) | (promised - fills)]

    def _doubled(self, runs: dict[str, Any]) -> list[str]:
        keys = Counter(row["run_key"] for row in runs.values())
        made = self.rows(
            "select run_id, asset_key, partition_key, count(*) as n from materializations "
            "group by all having n > 1"
        )
        answered = {**self.runs, **self.backfills}
        return [
            *(f"{count} runs have the key {key}" for key, count in keys.items() if count > 1),
            *(f"{key} was answered with {sorted(ids)}" for key, ids in answered.items() if len(ids) > 1),
            *(f"made twice: {row}" for row in made),
        ]

    def _failed(self, runs: dict[str, Any]) -> list[str]:
        ended = [row for row in runs.values() if row["state"] != "SUCCEEDED"]
        return [f"a run that nothing made fail: {row}" for row in ended]

    def _skipped_ticks(self) -> list[str]:
        rows = self.rows("select epoch(scheduled_for) as at from schedule_ticks order by 1")
        times = [round(row["at"]) for row in rows]
        gaps = [(one, two) for one, two in zip(times, times[1:], strict=False) if not 4 <= two - one <= 7]
        return [f"no tick between {one} and {two}" for one, two in gaps]

    def _unverified(self) -> list[str]:
        said = self.machines[0].servo("admin", "verify")
        return [] if said.code == 0 else [f"verify: {said}"]

    def __enter__(self) -> "Storm":
        return self

    def __exit__(self, *error: object) -> None:
        for sent in (*self._running, self._dev):
            if sent is not None:
                sent.command.kill()


def _children(pid: int) -> list[int]:
    """The processes that a process has started."""
    done = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    )
    return [int(line) for line in done.stdout.split()]


__all__ = ["CommandOutput", "Storm"]
