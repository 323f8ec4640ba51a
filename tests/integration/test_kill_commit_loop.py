"""A leader under real deaths: killed two hundred times while several threads commit.

Run as a program, this file is the nursery: it imports everything once, and forks, kills and buries
one leader after the other on the same folder. A life says what it is about to commit and what was
acknowledged; whatever it did not live to hear, the next one sends again. In the end the ledger must
hold everything that was acknowledged, where it was said to be, and nothing twice.

Some lives publish and close as fast as they can, so that kills hit that too; a few live longer and
merge and collect what the others left.
"""

import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import chain
from pathlib import Path

import pytest

from servo.config import Settings
from servo.core.events.dispatch import DispatchRequested, Handover
from servo.core.events.envelope import Answer, Batch
from servo.core.events.quotas import QuotaSet
from servo.core.events.runs import PlanCreated, RunRequested
from servo.core.events.tasks import CommittedOutput, TaskFinished, TaskOutcome
from servo.core.ids import RunId, attempt_id
from servo.errors import Unavailable
from servo.leader.service import Service
from servo.ledger.paths import Paths
from servo.ledger.reader import LedgerReader
from servo.ports.world import World
from servo.projection.read.time_travel import Overlaid
from servo.projection.upkeep.compare import differences, dump
from servo.projection.upkeep.rebuild import rebuild
from servo.projection.upkeep.verify import verify
from servo.storage.local import LocalStore
from servo.testing.builders import specs, task_key
from servo.testing.dumps import dump_snapshot
from servo.testing.workspaces import StoredStory
from servo.workspace.system import SystemClock, SystemEntropy

KILLS = 200
THREADS = 3
LIFE = (0.02, 0.15)  # seconds
LONG_LIFE = (0.5, 1.5)  # long enough to merge and collect what the others left
EARLY = 0.2  # of the lives, counted from birth: they die taking over
MEMORY = Path("/dev/shm")  # noqa: S108 - a private folder is made in it
PATHS = Paths("acme", "prod")

CALM = Settings()
BUSY = Settings(
    publish_every=timedelta(milliseconds=20),
    close_after=timedelta(milliseconds=20),
)
TIDY = Settings(
    close_after=timedelta(milliseconds=20),
    gc_every=timedelta(milliseconds=1),
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
                output=CommittedOutput(materialization_id=f"m-{subject}"),
            ),
        ),
    }
    return Batch(id=name, events=events[step], actor="worker:test")


def names(life: int, thread: int) -> Iterator[str]:
    """What one thread of one life commits, for as long as it lives."""
    number = 0
    while True:
        subject = f"{life}-{thread}-{number}"
        yield from [f"{subject}-{step}" for step in STEPS[number % len(STEPS)]]
        number += 1


STEPS = (("plan", "start", "end"), ("empty",), ("quota",))


# --- the nursery: one life after the other --------------------------------------------------------


def settings_of(life: int) -> Settings:
    if life % 20 == 19:
        return TIDY
    return BUSY if life % 2 else CALM


def insist(service: Service, batch: Batch) -> Answer:
    """Commit a batch, however often the leader asks to come back: lives are too short to merge."""
    while True:
        try:
            return service.commit(batch)
        except Unavailable as error:
            if error.may_have_applied:
                raise
            time.sleep(0.01)


def live(root: str, life: int, unheard: list[str], say: Say) -> None:
    """Lead, and commit from several threads until killed."""
    world = World(LocalStore(root), SystemClock(), SystemEntropy())
    service = Service(world, PATHS, settings_of(life)).start()

    def commit(thread: int) -> None:
        for name in chain(unheard[thread::THREADS], names(life, thread)):
            say(f"try {name}")
            answer = insist(service, batch_of(name))
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

    def say(line: str) -> None:
        # One write of less than a page is never torn, and needs no lock.
        os.write(mouth, f"{line}\n".encode())

    try:
        os.close(ear)
        live(root, life, unheard, say)
    finally:
        os._exit(1)


def listen(ear: int, moment: float, *, early: bool) -> bytes:
    """What a life says until it is to die: so long after it was ready, or after its birth."""
    heard = b""
    waiting = not early
    end = time.monotonic() + (60 if waiting else moment)
    while (left := end - time.monotonic()) > 0:
        if select.select([ear], [], [], left)[0]:
            part = os.read(ear, 65_536)
            if not part:
                break
            heard += part
        if waiting and b"ready\n" in heard:
            waiting, end = False, time.monotonic() + moment
    if waiting:
        raise TimeoutError(f"a leader died or did not take over; it said {heard[-500:]!r}")
    return heard


def live_and_die(life: tuple[int, int], moment: float, *, early: bool) -> list[str]:
    """Kill a life at its moment; all it ever said."""
    child, ear = life
    with open(ear, "rb", buffering=0) as rest:  # noqa: PTH123 - a descriptor, not a path
        try:
            heard = listen(ear, moment, early=early)
        finally:
            os.kill(child, signal.SIGKILL)
        heard += rest.readall() or b""
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status):
        raise ChildProcessError(f"a leader ended by itself; it said {heard[-500:]!r}")
    # The last line may have been cut off by the kill.
    return heard.decode().split("\n")[:-1]


def warm_up() -> None:
    """Publish, close and merge once, so that no life spends itself on imports."""
    story = StoredStory()
    for number in range(3):
        run = f"run_{number}"
        _ = story.plan({"a": []}, run_id=run)
        _ = story.execute("a", run_id=run)
        story.wait(hours=2)
        _ = story.publish(close_after=timedelta(hours=1))
    _ = story.merge()


def nursery(root: str, seed: int, kills: int) -> None:
    """One life after the other; everything they said goes to standard output."""
    warm_up()
    chance = random.Random(seed)
    unheard: dict[str, None] = {}
    for number in range(kills):
        early = chance.random() < EARLY
        moment = chance.uniform(*(LONG_LIFE if settings_of(number) is TIDY else LIFE))
        life = fork_life(root, number, list(unheard))
        for line in live_and_die(life, moment, early=early):
            verb, _, rest = line.partition(" ")
            if verb == "try":
                unheard[rest] = None
            elif verb == "ack":
                del unheard[rest.split(" ")[0]]
            sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


# --- the test -------------------------------------------------------------------------------------


def told(lines: list[str]) -> dict[str, tuple[int, str]]:
    """What was acknowledged: the place and the way, by the id of the batch."""
    heard: dict[str, tuple[int, str]] = {}
    for line in lines:
        verb, *rest = line.split(" ")
        if verb == "ack":
            name, seq, how = rest
            assert name not in heard, f"{name} was sent again although its answer was heard"
            heard[name] = int(seq), how
    return heard


def places(store: LocalStore) -> dict[str, list[int]]:
    """Where in the ledger each batch stands."""
    found: dict[str, list[int]] = {}
    for entry, _ in LedgerReader(store, PATHS).forward(0):
        for batch in entry.batches:
            found.setdefault(batch.id, []).append(entry.seq)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """In memory where possible: a kill spares the kernel's cache, and a busy disk only slows."""
    if not os.access(MEMORY, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="servo-kill-") as made:
        yield Path(made)


@pytest.mark.kill
@pytest.mark.slow
def test_nothing_acknowledged_is_lost_or_applied_twice_however_often_the_leader_is_killed(
    folder: Path, chance_seed: int
) -> None:
    done = subprocess.run(
        [sys.executable, __file__, str(folder), str(chance_seed), str(KILLS)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    lines = done.stdout.splitlines()
    acknowledged = told(lines)
    store = LocalStore(folder)
    stored = places(store)

    assert [name for name, seqs in stored.items() if len(seqs) > 1] == []
    for name, (seq, how) in acknowledged.items():
        if how == "applied":
            assert stored.get(name) == [seq], name
        elif how == "again":
            assert len(stored[name]) == 1, f"{name} was never committed and answered as repeated"
        else:
            # Only an intent that found its own work done when it was sent again is refused.
            assert name.endswith("-start"), f"{name}: {how}"
            assert stored[name][0] < seq

    report = verify(store, PATHS)
    assert report.problems == ()
    assert report.compared
    everything = dump(rebuild(store, PATHS, from_genesis=True).state)
    restarted = Overlaid(store, PATHS, rebuild(store, PATHS, from_genesis=False))
    assert differences(everything, dump_snapshot(restarted)) == []

    ways = Counter(how for _, how in acknowledged.values())
    assert ways["applied"] > KILLS
    assert ways["again"] > 0, "no answer was ever lost by a kill: the test has become blind"


if __name__ == "__main__":
    nursery(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
