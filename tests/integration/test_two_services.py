"""Two processes that both believe they lead one folder, and both commit.

Run as a program, this file is one of the rivals: it leads, commits from several threads until the
other takes over, and takes over again. Whatever was acknowledged must stand in the ledger once and
where it was said to be; whatever was refused must have been refused with a kind that says so.
"""

import random
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from servo.core.events.envelope import Batch
from servo.core.events.quotas import QuotaSet
from servo.core.events.runs import PlanCreated, RunRequested
from servo.errors import Fenced, Unavailable
from servo.leader.service import Service
from servo.ledger.paths import Paths
from servo.ledger.reader import LedgerReader
from servo.ports.world import World
from servo.projection.upkeep.verify import verify
from servo.storage.local import LocalStore
from servo.workspace.system import SystemClock, SystemEntropy

RIVALS = ("left", "right")
TERMS = 12
TERM = 3.0  # seconds, where the other does not end it before
THREADS = 3
PATHS = Paths("acme", "prod")


def batch_of(name: str) -> Batch:
    """The batch with this id: the same whoever sends it, and however often."""
    if name.endswith("0"):
        return Batch(id=name, events=(QuotaSet(max_concurrent_tasks=1_000 + len(name)),))
    request = RunRequested(run_id=f"run_{name}", run_key=name, request_fingerprint="fp")
    return Batch(id=name, events=(request, PlanCreated(run_id=f"run_{name}", fingerprint="plan")))


# --- one of the rivals ----------------------------------------------------------------------------


class Rival:
    """Leads, loses, and leads again."""

    def __init__(self, root: str, me: str, seed: str) -> None:
        self._root = root
        self._me = me
        self._seed = seed
        self._count = 0
        self._lock = threading.Lock()
        self._unheard: list[str] = []

    def fight(self, terms: int) -> None:
        chance = random.Random(f"{self._seed}-{self._me}")
        for _ in range(terms):
            self._lead()
            time.sleep(chance.uniform(0, 0.1))

    def _lead(self) -> None:
        world = World(LocalStore(self._root), SystemClock(), SystemEntropy())
        service = Service(world, PATHS)
        try:
            _ = service.start()
        except (Fenced, Unavailable) as error:
            self._say(f"start - {type(error).__name__}")
        else:
            self._commit_until_lost(service)
        service.stop()

    def _commit_until_lost(self, service: Service) -> None:
        end = time.monotonic() + TERM
        threads = [
            threading.Thread(target=self._commit, args=(service, end)) for _ in range(THREADS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _commit(self, service: Service, end: float) -> None:
        while time.monotonic() < end:
            name = self._next()
            try:
                answer = service.commit(batch_of(name))
            except (Fenced, Unavailable) as error:
                self._say(f"lost {name} {type(error).__name__}")
                with self._lock:
                    self._unheard.append(name)
                return
            how = "again" if answer.repeated else answer.status.value
            self._say(f"ack {name} {answer.seq} {how}")

    def _next(self) -> str:
        """A batch that was not acknowledged, or a new one."""
        with self._lock:
            if self._unheard:
                return self._unheard.pop()
            self._count += 1
            return f"{self._me}-{self._count}"

    def _say(self, line: str) -> None:
        with self._lock:
            sys.stdout.write(f"{line}\n")


# --- the test -------------------------------------------------------------------------------------


def places(store: LocalStore) -> dict[str, list[int]]:
    """Where in the ledger each batch stands."""
    found: dict[str, list[int]] = {}
    for entry, _ in LedgerReader(store, PATHS).forward(0):
        for batch in entry.batches:
            found.setdefault(batch.id, []).append(entry.seq)
    return found


@pytest.mark.slow
def test_two_services_on_one_folder_lose_nothing_and_never_both_win_a_place(
    tmp_path: Path, chance_seed: int
) -> None:
    rivals = [
        subprocess.Popen(
            [sys.executable, __file__, str(tmp_path), name, str(chance_seed), str(TERMS)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in RIVALS
    ]
    said = [rival.communicate(timeout=240) for rival in rivals]
    for rival, (_, complaints) in zip(rivals, said, strict=True):
        assert rival.returncode == 0, complaints[-4000:]
        assert complaints == ""

    stored = places(LocalStore(tmp_path))
    assert [name for name, seqs in stored.items() if len(seqs) > 1] == []
    winners: dict[int, set[str]] = {}
    ways: Counter[str] = Counter()
    for rival, (output, _) in zip(RIVALS, said, strict=True):
        for line in output.splitlines():
            verb, name, *rest = line.split(" ")
            ways[f"{verb} {rest[-1]}"] += 1
            if verb != "ack":
                continue
            if rest[1] == "applied":
                assert stored.get(name) == [int(rest[0])], line
                winners.setdefault(int(rest[0]), set()).add(rival)
            else:
                assert rest[1] == "again", line
                assert len(stored[name]) == 1
    assert [seq for seq, names in winners.items() if len(names) > 1] == []
    assert {name for names in winners.values() for name in names} == set(RIVALS)
    assert ways["lost Fenced"] > 0, f"nobody ever lost: {ways}"

    report = verify(LocalStore(tmp_path), PATHS)
    assert report.problems == ()
    assert report.compared


if __name__ == "__main__":
    Rival(sys.argv[1], sys.argv[2], sys.argv[3]).fight(int(sys.argv[4]))
