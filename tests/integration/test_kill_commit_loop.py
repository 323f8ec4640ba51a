"""A leader under real deaths: killed two hundred times while several threads commit.

Run as a program, this file is the nursery: it imports everything once, and forks, kills and buries
one leader after the other on the same folder. A life says what it is about to commit and what was
acknowledged; whatever it did not live to hear, the next one sends again. In the end the ledger must
hold everything that was acknowledged, where it was said to be, and nothing twice.

Half of the lives publish, close, collect and archive as fast as they can, so that kills hit those
too; the other half leave it to the next.
"""

import os
import random
import select
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow.parquet  # pyright: ignore[reportUnusedImport] # noqa: F401 - in every life at once
import pytest

from servo.config import Settings
from servo.core.events.dispatch import DispatchRequested, Handover
from servo.core.events.envelope import Batch
from servo.core.events.quotas import QuotaSet
from servo.core.events.runs import PlanCreated, RunRequested
from servo.core.events.tasks import Output, TaskFinished, TaskOutcome
from servo.core.ids import RunId, attempt_id
from servo.ledger.archive import segments_from
from servo.ledger.paths import Paths
from servo.ledger.reader import LedgerReader
from servo.projection.compare import differences, dump, dump_snapshot
from servo.projection.rebuild import rebuild
from servo.projection.time_travel import Overlaid
from servo.projection.verify import verify
from servo.runtime.service import Service, World
from servo.runtime.system import SystemClock, SystemEntropy
from servo.storage.local import LocalStore
from servo.testing.builders import specs, task_key

KILLS = 200
THREADS = 4
LIFE = (0.02, 0.25)
PATHS = Paths("acme", "prod")

CALM = Settings()
BUSY = Settings(
    publish_every=timedelta(milliseconds=10),
    close_after=timedelta(milliseconds=20),
    gc_every=timedelta(milliseconds=50),
    gc_min_age=timedelta(seconds=4),
    archive_after=timedelta(seconds=4),
    keep_all_for=timedelta(seconds=4),
)

Say = Callable[[str], None]


# --- what is committed ----------------------------------------------------------------------------


def batch_of(name: str) -> Batch:
    """The batch with this id: the same whoever sends it, and however often."""
    subject, _, step = name.rpartition("-")
    run, task = f"run_{subject}", task_key("a")
    attempt, execution = attempt_id(RunId(run), task, 1), f"x-{subject}"
    request = RunRequested(run_id=run, run_key=f"key-{subject}", request_fingerprint="fp")
    events = {
        "empty": (request, PlanCreated(run_id=run, fingerprint="plan")),
        "quota": (QuotaSet(max_concurrent_tasks=100_000 + len(name)),),
        "plan": (request, PlanCreated(run_id=run, fingerprint="plan", tasks=specs({"a": []}))),
        "start": (
            DispatchRequested(
                run_id=run, task_key=task, attempt=1, handover=Handover(exec_id=execution)
            ),
        ),
        "end": (
            TaskFinished(
                run_id=run,
                task_key=task,
                attempt_id=attempt,
                exec_id=execution,
                outcome=TaskOutcome.SUCCEEDED,
                output=Output(materialization_id=f"m-{subject}"),
            ),
        ),
    }
    return Batch(id=name, events=events[step], actor="worker")


def names(life: int, thread: int) -> Iterator[str]:
    """What one thread of one life commits, for as long as it lives."""
    number = 0
    while True:
        subject = f"{life}-{thread}-{number}"
        yield from [f"{subject}-{step}" for step in STEPS[number % len(STEPS)]]
        number += 1


STEPS = (("plan", "start", "end"), ("empty",), ("quota",))


# --- the nursery: one life after the other --------------------------------------------------------


def live(root: str, life: int, unheard: list[str], say: Say) -> None:
    """Lead, and commit from several threads until killed."""
    world = World(LocalStore(root), SystemClock(), SystemEntropy())
    service = Service(world, PATHS, BUSY if life % 2 else CALM).start()

    def commit(thread: int) -> None:
        for name in (*unheard[thread::THREADS], *names(life, thread)):
            say(f"try {name}")
            answer = service.commit(batch_of(name))
            how = "again" if answer.repeated else answer.status.value
            say(f"ack {name} {answer.seq} {how}")

    threads = [threading.Thread(target=commit, args=(n,), daemon=True) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    say("ready")
    for thread in threads:
        thread.join()


def fork_life(root: str, life: int, unheard: list[str]) -> tuple[int, int]:
    """Begin a life; its process and where to read what it says."""
    ear, mouth = os.pipe()
    child = os.fork()
    if child:
        os.close(mouth)
        return child, ear
    try:
        # One write of less than a page is never torn, and needs no lock that a thread could hold.
        live(root, life, unheard, lambda line: _ = os.write(mouth, f"{line}\n".encode()))
    finally:
        os._exit(1)


def listen(ear: int, until: float) -> bytes:
    """What is said until then, or to the end."""
    heard = b""
    while (left := until - time.monotonic()) > 0:
        if select.select([ear], [], [], left)[0]:
            part = os.read(ear, 65_536)
            if not part:
                break
            heard += part
    return heard


def until_ready(ear: int) -> bytes:
    heard = b""
    deadline = time.monotonic() + 60
    while b"ready\n" not in heard:
        part = listen(ear, min(deadline, time.monotonic() + 0.001))
        if time.monotonic() >= deadline:
            raise TimeoutError("a leader did not take over within a minute")
        heard += part
    return heard
