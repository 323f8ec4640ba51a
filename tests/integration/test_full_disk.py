"""A leader on a disk that is full: it refuses, loses nothing, and goes on when there is space."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from servo.core.events.envelope import Answer, Batch
from servo.core.events.runs import PlanCreated, RunRequested
from servo.errors import NotFound, Unavailable
from servo.leader.service import Service
from servo.ledger.paths import Paths
from servo.ledger.reader import LedgerReader
from servo.ports.world import World
from servo.projection.read.reader import Reader, Snapshot
from servo.projection.upkeep.verify import verify
from servo.storage.local import LocalStore
from servo.testing.eventually import eventually
from servo.workspace.system import SystemClock, SystemEntropy

PATHS = Paths("acme", "prod")


@pytest.fixture
def small_disk(mount_disk: Callable[[str], Path]) -> Path:
    """A filesystem of eight MiB."""
    return mount_disk("size=8m")


def service_in(root: Path) -> Service:
    return Service(World(LocalStore(root), SystemClock(), SystemEntropy()), PATHS)


def batch(number: int) -> Batch:
    run = f"run_{number}"
    request = RunRequested(run_id=run, run_key=f"key-{number}", request_fingerprint="fp")
    return Batch(id=f"b{number}", events=(request, PlanCreated(run_id=run, fingerprint="plan")))


class Ballast:
    """What else is on the disk."""

    def __init__(self, disk: Path) -> None:
        self._file = disk / "ballast"

    def fill(self) -> None:
        """Take all the space there is; what the leader frees meanwhile it may have."""
        for size in (1 << 20, 1 << 12, 1):
            with suppress(OSError), self._file.open("ab", buffering=0) as file:
                while True:
                    file.write(b"x" * size)

    def leave(self, size: int) -> None:
        """Give back so many bytes."""
        os.truncate(self._file, self._file.stat().st_size - size)

    def drop(self) -> None:
        self._file.unlink()


def commit_until_full(
    service: Service, ballast: Ballast, first: int
) -> tuple[list[Answer], Unavailable]:
    """What was acknowledged until the disk was full, and how the next one was refused."""
    answers: list[Answer] = []
    while len(answers) < 1_000:
        ballast.fill()
        try:
            answers.append(service.commit(batch(first + len(answers))))
        except Unavailable as full:
            return answers, full
    raise AssertionError("the disk never filled up")


def published(store: LocalStore, seq: int) -> Snapshot:
    """The snapshot that contains an entry, as soon as there is one."""
    reader = Reader(store, PATHS)

    def found() -> Snapshot | None:
        try:
            return reader.snapshot(min_seq=seq)
        except (Unavailable, NotFound):
            return None

    snapshot = eventually(found)
    assert snapshot is not None
    return snapshot


def test_a_leader_on_a_full_disk_refuses_keeps_what_it_has_and_goes_on_when_there_is_space(
    small_disk: Path,
) -> None:
    store, ballast = LocalStore(small_disk / "store"), Ballast(small_disk)
    with service_in(small_disk / "store") as service:
        leader = service.engine
        answers = [service.commit(batch(number)) for number in range(10)]
        more, full = commit_until_full(service, ballast, first=10)
        answers += more
        refused = len(answers)
        futures = [service.submit(batch(refused + n)) for n in range(20)]
        errors = [future.exception(timeout=30) for future in futures]

        assert not full.may_have_applied
        for error in errors:
            assert error is None or (isinstance(error, Unavailable) and not error.may_have_applied)
        answers += [future.result() for future in futures if future.exception() is None]

        ballast.drop()
        answers += [service.commit(batch(refused + n)) for n in range(20)]
        snapshot = published(store, max(answer.seq for answer in answers))

        assert service.engine is leader, "the leader gave up on account of a full disk"
        assert service.failure is None
        assert all(answer.applied for answer in answers)
        assert snapshot.table("runs").num_rows == refused + 20

    stored = [
        found.id
        for entry, _ in LedgerReader(store, PATHS).forward(0)
        for found in entry.batches
        if found.id.startswith("b")
    ]
    assert sorted(stored) == sorted(f"b{number}" for number in range(refused + 20))
    report = verify(store, PATHS)
    assert report.problems == ()
    assert report.compared


def test_a_commit_refused_by_a_full_disk_says_that_space_has_to_be_freed(small_disk: Path) -> None:
    ballast = Ballast(small_disk)
    with service_in(small_disk / "store") as service:
        _, full = commit_until_full(service, ballast, first=0)
        ballast.drop()

    assert "No space left on device" in str(full)
    assert f"free space on the filesystem of {small_disk / 'store'}" in full.remedy


def test_a_full_disk_keeps_nobody_from_leading_once_there_is_space(small_disk: Path) -> None:
    ballast = Ballast(small_disk)
    with service_in(small_disk / "store") as service:
        assert not service.commit(batch(0)).repeated
    ballast.fill()
    late = service_in(small_disk / "store")
    with pytest.raises(Unavailable) as full:
        late.start()
    assert not full.value.may_have_applied

    ballast.drop()
    late.stop()
    with service_in(small_disk / "store") as service:
        assert service.commit(batch(0)).repeated
        assert not service.commit(batch(1)).repeated


def test_a_leader_that_cannot_publish_its_last_tables_says_so(
    small_disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store, ballast = LocalStore(small_disk / "store"), Ballast(small_disk)
    with service_in(small_disk / "store") as service:
        answer = service.commit(batch(0))
        _ = published(store, answer.seq)
        ballast.fill()
        ballast.leave(8_192)
        answer = service.commit(batch(1))
    assert "the tables are behind the ledger" in caplog.text
    assert "No space left on device" in caplog.text
    ballast.drop()
    caplog.clear()
    with service_in(small_disk / "store"):
        assert published(store, answer.seq).table("runs").num_rows == 2
    assert caplog.text == ""
