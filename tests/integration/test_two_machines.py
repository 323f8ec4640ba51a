"""Several machines on one bucket: real processes and a real S3 server, and nothing else in common.

A healthy leader is asked and never fenced. A leader that was killed, or suspended for longer than
its lease, is replaced, and what it committed counts.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from servo.ledger.paths import Paths
from servo.ledger.reader import LedgerReader
from servo.testing.machines import Gates, Machine, Said
from servo.testing.seaweed import ACCESS_KEY, SECRET_KEY, Seaweed
from servo.workspace.system import SystemClock

pytestmark = [pytest.mark.slow, pytest.mark.s3]

LEASE = 30
MADE = "select run_id, asset_key from materializations"
ASSETS = ["first", "second", "third"]
CODE = (
    Gates.CODE
    + """
from servo import asset

@asset
def first():
    pass_gate("first")
    return 1

@asset
def second(first):
    pass_gate("second")
    return first + 1

@asset
def third(second):
    pass_gate("third")
    return second + 1
"""
)


class Bucket:
    """A workspace in a bucket, machines that reach it, and what its ledger says."""

    def __init__(self, folder: Path, server: Seaweed, prefix: str) -> None:
        self._folder = folder
        where = f"endpoint={server.endpoint}&region=us-east-1&allow_http=true"
        self._url = f"s3://machines/{prefix}?{where}"
        self._environ = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
        self._store = server.store("machines", prefix, clock=SystemClock())
        self.gates = Gates(folder / "gates")

    def machine(self, name: str, code: str = CODE) -> Machine:
        """A machine that has the code."""
        environ = {**self._environ, "GATES": str(self.gates.folder)}
        return Machine(self._folder / name, self._url, code, **environ)

    def terms(self) -> int:
        """How many leaders there were."""
        entries = LedgerReader(self._store, Paths("default", "default")).forward(0)
        return len({entry.owner for entry, _ in entries})


@pytest.fixture
def bucket(tmp_path: Path, seaweed_server: Seaweed) -> Bucket:
    return Bucket(tmp_path, seaweed_server, tmp_path.name)


def succeeded(said: Said) -> Any:
    """The run that a command made, which went well."""
    assert said.code == 0, said
    told = json.loads(said.out)
    assert told["run"]["state"] == "SUCCEEDED", said
    return told["run"]


def attempts(machine: Machine, run: str) -> dict[str, int]:
    """How many attempts each task of a run that succeeded took."""
    shown = machine.asked("run", "show", run)
    assert shown["run"]["state"] == "SUCCEEDED", shown
    return {task["asset_key"]: task["attempt"] for task in shown["tasks"]}


def verify(machine: Machine) -> None:
    """Ledger and tables agree."""
    verified = machine.servo("admin", "verify")
    assert (verified.code, "no problems found" in verified.out) == (0, True), verified


def test_a_second_machine_asks_the_leader_and_never_fences_it(bucket: Bucket) -> None:
    here, there, gates = bucket.machine("here"), bucket.machine("there"), bucket.gates
    with here.start("materialize", "--json") as leader:
        gates.wait_for("first")
        with there.start("materialize", "--json") as client:
            gates.wait_for("first", 2)  # the leader works for the other machine too
            assert bucket.terms() == 1
            gates.open(*ASSETS)
            runs = [succeeded(leader.ended())["run_id"], succeeded(client.ended())["run_id"]]
    for run in runs:
        assert attempts(there, run) == dict.fromkeys(ASSETS, 1)
    assert [gates.begun(name) for name in ASSETS] == [2, 2, 2], "once for each run"
    verify(there)


def test_a_leader_that_is_killed_is_replaced_within_its_lease(bucket: Bucket) -> None:
    here, there, gates = bucket.machine("here"), bucket.machine("there"), bucket.gates
    gates.open("first")
    with here.start("materialize") as leader:
        gates.wait_for("second")
        with there.start("materialize", "--json") as client:
            gates.wait_for("second", 2)
            leader.kill()
            gates.open(*ASSETS)
            clock = SystemClock()
            killed = clock.monotonic()
            mine = succeeded(client.ended(LEASE + 60))["run_id"]
            assert clock.monotonic() - killed < LEASE + 20
    runs = [run["run_id"] for run in there.listed("run", "list")]
    assert mine in runs
    assert len(runs) == 2
    for run in runs:
        assert attempts(there, run) == {"first": 1, "second": 2, "third": 1}
    assert [gates.begun(name) for name in ASSETS] == [2, 4, 2], "what was committed is kept"
    made = json.loads(there.servo("sql", MADE, "--format", "json").out)
    assert Counter((row["run_id"], row["asset_key"]) for row in made) == {
        (run, name): 1 for run in runs for name in ASSETS
    }
    verify(there)
