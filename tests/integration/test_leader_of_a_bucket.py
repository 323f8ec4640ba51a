"""A healthy leader of a bucket stays, whatever happens to the names and files that point to it.

Real processes and a real S3 server. Another name of the bucket, a damaged or deleted lease and a
deleted lock file do not fence the leader, and no request reaches another store than its sender's.
"""

import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from servo.leader.leases.lease import read_lease
from servo.ledger.paths import Paths
from servo.ledger.reader import LedgerReader
from servo.storage.s3 import S3Store
from servo.testing.eventually import eventually
from servo.testing.machines import Machine, RunningCommand
from servo.testing.seaweed import ACCESS_KEY, SECRET_KEY, Seaweed, seaweed
from servo.workspace.system import SystemClock

pytestmark = [pytest.mark.slow, pytest.mark.s3]

PATHS = Paths("default", "default")
RENEWAL = 10
CODE = """
from servo import asset

@asset
def quick():
    return 0
"""
KEYS = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}


class Bucket:
    """A workspace in a bucket, and what is stored there."""

    def __init__(self, folder: Path, server: Seaweed) -> None:
        self.folder = folder
        self.prefix = folder.name
        self.endpoint = server.endpoint
        self.store = server.store("machines", self.prefix, clock=SystemClock())

    def url(self, path: str = "", *, endpoint: str = "", region: str = "us-east-1") -> str:
        """The URL of the store, spelled as one likes."""
        where = f"endpoint={endpoint or self.endpoint}&region={region}&allow_http=true"
        return f"s3://machines/{path or self.prefix}?{where}"

    def machine(self, name: str) -> Machine:
        return Machine(self.folder / name, self.url(), CODE, **KEYS)

    def holder(self) -> str:
        """The holder that the lease names; empty if it is damaged or missing."""
        lease = read_lease(self.store, PATHS)
        return "" if lease is None else lease.holder


def terms(store: S3Store) -> int:
    """How many leaders a workspace had."""
    return len({entry.owner for entry, _ in LedgerReader(store, PATHS).forward(0)})


@pytest.fixture
def bucket(tmp_path: Path, seaweed_server: Seaweed) -> Bucket:
    return Bucket(tmp_path, seaweed_server)


@contextmanager
def dev(machine: Machine) -> Generator[RunningCommand]:
    """A `servo dev` that is healthy from here to there, and ends when it is told to."""
    with machine.start("dev") as leader:
        leader.says("Ctrl-C stops")
        yield leader
        assert leader.runs, leader.said()
        leader.send(signal.SIGINT)
        assert leader.ended().code == 0


def set_limit(machine: Machine, number: int) -> None:
    said = machine.servo("admin", "quota", "--max-parallel", str(number), "--json")
    assert (said.code, '"APPLIED"' in said.out.upper()) == (0, True), said


def limit(machine: Machine) -> str:
    return machine.servo("admin", "quota").out


def test_a_leader_is_asked_under_every_name_of_its_bucket(bucket: Bucket) -> None:
    here = bucket.machine("here")
    port = bucket.endpoint.rpartition(":")[2]
    spellings = (
        bucket.url(endpoint=f"{bucket.endpoint}/"),
        bucket.url(endpoint=f"http://localhost:{port}"),
        bucket.url(endpoint=f"http://127.1:{port}"),
        bucket.url(region="eu-west-1"),
        bucket.url(f"/{bucket.prefix}"),
        bucket.url(f"%{ord(bucket.prefix[0]):x}{bucket.prefix[1:]}"),
    )
    with dev(here):
        for number, url in enumerate(spellings, 10):
            spelled = here.with_environment(SERVO_STORE=url)
            assert "`servo dev`" in spelled.servo("status").out, url
            set_limit(spelled, number)
        assert terms(bucket.store) == 1


def test_a_request_goes_to_the_store_of_its_sender_although_two_have_one_url(
    bucket: Bucket,
) -> None:
    with seaweed() as another:
        other = Bucket(bucket.folder, another)
        _ = other.store.put("made", b"")
        here = bucket.machine("here")
        url = f"s3://machines/{bucket.prefix}?region=us-east-1&allow_http=true"
        first = here.with_environment(SERVO_STORE=url, AWS_ENDPOINT_URL=bucket.endpoint)
        second = here.with_environment(SERVO_STORE=url, AWS_ENDPOINT_URL=another.endpoint)
        with dev(first):
            set_limit(first, 5)
            set_limit(second, 7)
            assert (terms(bucket.store), terms(other.store)) == (1, 1)
            assert ("5" in limit(first), "7" in limit(first)) == (True, False)
            assert "7" in limit(second)
            # The URL counts more than any variable.
            said = here.with_environment(AWS_ENDPOINT_URL_S3=another.endpoint).servo("status")
            assert "`servo dev`" in said.out, said


@pytest.mark.parametrize("damage", ["damaged", "deleted"])
def test_a_leader_writes_a_lease_again_that_was_damaged_or_deleted(
    bucket: Bucket, damage: str
) -> None:
    here, there = bucket.machine("here"), bucket.machine("there")
    with dev(here):
        holder = bucket.holder()
        for number, machine in enumerate((here, there), 10):
            if damage == "damaged":
                _ = bucket.store.put(PATHS.lease, b"garbage")
            else:
                bucket.store.delete(PATHS.lease)
                if machine is there:  # nothing would tell it that there is a leader
                    eventually(bucket.holder, RENEWAL * 2)
            set_limit(machine, number)
            eventually(lambda: bucket.holder() == holder, RENEWAL * 2)
        assert terms(bucket.store) == 1


def test_a_damaged_lease_of_nobody_is_taken_over_when_nobody_mends_it(
    bucket: Bucket,
) -> None:
    _ = bucket.store.put(PATHS.lease, b"garbage")
    assert bucket.machine("here").servo("materialize", "assets.py", "quick").code == 0
    assert bucket.holder()


def test_a_leader_is_asked_although_its_lock_file_was_deleted_and_makes_a_new_one(
    bucket: Bucket,
) -> None:
    here = bucket.machine("here")
    with dev(here):
        for number in (10, 11):
            (lock,) = here.registry.glob("*.leader")
            lock.unlink()
            set_limit(here, number)
            eventually(lambda: [*here.registry.glob("*.leader")])
        assert terms(bucket.store) == 1


def test_a_leader_that_is_replaced_while_its_lease_is_missing_is_fenced_and_loses_nothing(
    bucket: Bucket,
) -> None:
    here, there = bucket.machine("here"), bucket.machine("there")
    with here.start("dev") as leader:
        leader.says("Ctrl-C stops")
        set_limit(here, 5)
        leader.send_to_all(signal.SIGSTOP)  # so that it does not write the lease again first
        bucket.store.delete(PATHS.lease)
        said = there.servo("materialize", "assets.py", "quick")
        assert (said.code, terms(bucket.store)) == (0, 2), said
        leader.send_to_all(signal.SIGCONT)
        ended = leader.ended()
        assert (ended.code, "was deleted" in ended.err) == (5, True), ended
    assert "5" in limit(there)
    assert "no problems found" in there.servo("admin", "verify").out
