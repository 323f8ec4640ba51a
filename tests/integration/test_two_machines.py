"""Several machines on one bucket: real processes and a real S3 server, and nothing else in common.

A healthy leader is asked and never fenced. A leader that was killed, or is suspended, does not
answer: it is replaced within seconds, and what it committed counts.
"""

import json
import signal
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from servo.ledger.paths import Paths
from servo.ledger.reader import LedgerReader
from servo.testing.eventually import eventually
from servo.testing.machines import CommandOutput, Gates, Machine
from servo.testing.seaweed import ACCESS_KEY, SECRET_KEY, Seaweed
from servo.workspace.system import SystemClock

pytestmark = [pytest.mark.slow, pytest.mark.s3]

FOUND_DEAD_WITHIN = 20
"""Seconds: long before the lease of a dead leader expires. `benchmarks` has the figure."""
MATERIALIZE = ("materialize", "assets.py", "third", "second", "first", "--json")
TICKS = "select scheduled_for from schedule_ticks"
MADE = "select run_id, asset_key from materializations"
ASSETS = ["first", "second", "third"]
CODE = (
    Gates.CODE
    + """
from servo import DefaultScheduleStatus, ScheduleDefinition, asset

@asset
def quick():
    return 0

every_second = ScheduleDefinition(
    name="every_second",
    cron_schedule="* * * * * *",
    target="quick",
    default_status=DefaultScheduleStatus.RUNNING,
    max_catchup_ticks=1_000,
)

@asset
def other():
    pass_gate("other")
    return 0

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


def succeeded(said: CommandOutput) -> Any:
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
    with here.start(*MATERIALIZE) as leader:
        gates.wait_for("first")
        with there.start(*MATERIALIZE) as client:
            gates.wait_for("first", 2)  # the leader works for the other machine too
            assert bucket.terms() == 1
            gates.open(*ASSETS)
            runs = [succeeded(leader.ended())["run_id"], succeeded(client.ended())["run_id"]]
    for run in runs:
        assert attempts(there, run) == dict.fromkeys(ASSETS, 1)
    assert [gates.begun(name) for name in ASSETS] == [2, 2, 2], "once for each run"
    verify(there)


def test_a_leader_that_is_killed_is_replaced_within_seconds(bucket: Bucket) -> None:
    here, there, gates = bucket.machine("here"), bucket.machine("there"), bucket.gates
    gates.open("first")
    with here.start(*MATERIALIZE) as leader:
        gates.wait_for("second")
        with there.start(*MATERIALIZE) as client:
            gates.wait_for("second", 2)
            leader.kill()
            clock = SystemClock()
            killed = clock.monotonic()
            gates.wait_for("second", 3)
            assert clock.monotonic() - killed < FOUND_DEAD_WITHIN
            gates.open(*ASSETS)
            said = client.ended()
            assert "already requested" not in said.err, said
            mine = succeeded(said)["run_id"]
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


def test_a_tick_elsewhere_continues_at_once_what_a_killed_machine_left(bucket: Bucket) -> None:
    here, there, gates = bucket.machine("here"), bucket.machine("there"), bucket.gates
    with here.start("materialize", "assets.py", "first") as leader:
        gates.wait_for("first")
        leader.kill()
    clock = SystemClock()
    killed = clock.monotonic()
    with there.start("tick", "--json") as tick:
        gates.wait_for("first", 2)
        assert clock.monotonic() - killed < FOUND_DEAD_WITHIN
        gates.open("first")
        assert tick.ended().code == 0
    assert gates.begun("first") == 2
    made = json.loads(there.servo("sql", MADE, "--format", "json").out)
    assert [row["asset_key"] for row in made].count("first") == 1


def test_a_tick_elsewhere_leaves_nothing_to_a_leader_that_was_killed(bucket: Bucket) -> None:
    here, there = bucket.machine("here"), bucket.machine("there")
    with here.start("dev") as leader:
        leader.says("Ctrl-C stops")
        eventually(lambda: scheduled(there))
        leader.kill()
    before = len(scheduled(there))
    told = there.asked("tick")
    assert not told["left_to"], told
    assert len(scheduled(there)) > before


def test_dev_elsewhere_is_refused_while_the_leader_lives_and_starts_when_it_was_killed(
    bucket: Bucket,
) -> None:
    here, there = bucket.machine("here"), bucket.machine("there")
    with here.start("dev") as leader:
        leader.says("Ctrl-C stops")
        refused = there.servo("dev")
        assert refused.code == 4, refused
        assert "leads this workspace" in refused.err, refused
        leader.kill()
        clock = SystemClock()
        killed = clock.monotonic()
        with there.start("dev") as successor:
            successor.says("Ctrl-C stops")
            assert clock.monotonic() - killed < FOUND_DEAD_WITHIN
            successor.send(signal.SIGINT)
            assert successor.ended().code == 0
    assert bucket.terms() == 2


def test_a_leader_finishes_what_others_wait_for_before_it_leaves(bucket: Bucket) -> None:
    here, there, gates = bucket.machine("here"), bucket.machine("there"), bucket.gates
    with here.start("materialize", "assets.py", "first") as leader:
        gates.wait_for("first")
        with there.start("materialize", "assets.py", "other", "--json") as client:
            gates.wait_for("other")
            gates.open("first")
            leader.says("finishing 1 task for other processes")
            assert leader.runs
            gates.open("other")
            assert leader.ended().code == 0
            run = succeeded(client.ended())["run_id"]
    assert attempts(there, run) == {"other": 1}
    assert gates.begun("other") == 1


def scheduled(machine: Machine) -> list[datetime]:
    """The instants that a schedule ticked for, oldest first."""
    rows = json.loads(machine.servo("sql", TICKS, "--format", "json").out)
    return sorted(datetime.fromisoformat(row["scheduled_for"]) for row in rows)


def test_a_tick_elsewhere_leaves_the_work_to_the_leader(bucket: Bucket) -> None:
    here, there = bucket.machine("here"), bucket.machine("there")
    with here.start("dev") as leader:
        leader.says("Ctrl-C stops")
        eventually(lambda: len(scheduled(there)) > 2)
        before = bucket.terms()
        for _ in range(3):
            told = there.asked("tick")
            assert "`servo dev`" in told["left_to"], told
            assert told["runs"] == []
        assert bucket.terms() == before
        leader.send(signal.SIGINT)
        assert leader.ended().code == 0
    first = scheduled(there)
    assert len(first) > 3
    seconds = [first[0] + timedelta(seconds=n) for n in range(len(first))]
    assert first == seconds, "no tick is lost or doubled"
    told = there.asked("tick")
    assert told["why"], told
    again = scheduled(there)
    assert len(set(again)) == len(again)
    verify(there)


@pytest.mark.parametrize("successor_stays", [True, False])
def test_a_leader_that_was_suspended_finds_itself_replaced(
    bucket: Bucket, successor_stays: bool
) -> None:
    here, there, gates = bucket.machine("here"), bucket.machine("there"), bucket.gates
    gates.open("first")
    with here.start(*MATERIALIZE) as leader:
        gates.wait_for("second")
        with there.start(*MATERIALIZE) as client:
            gates.wait_for("second", 2)
            leader.send_to_all(signal.SIGSTOP)
            gates.wait_for("second", 3)  # the other machine has taken over
            if successor_stays:
                leader.send_to_all(signal.SIGCONT)
                said = leader.ended()
                gates.open(*ASSETS)
                run = succeeded(client.ended())["run_id"]
            else:
                gates.open(*ASSETS)
                run = succeeded(client.ended())["run_id"]
                leader.send_to_all(signal.SIGCONT)
                said = leader.ended()
    assert said.code == 5, said
    assert said.out == ""
    assert "has taken over this workspace" in said.err, said
    assert ("`servo materialize`" in said.err) == successor_stays, said
    assert attempts(there, run) == {"first": 1, "second": 2, "third": 1}
    verify(there)


def test_requests_elsewhere_are_answered_by_the_fold(bucket: Bucket) -> None:
    here, there, gates = bucket.machine("here"), bucket.machine("there"), bucket.gates
    with here.start("dev") as leader:
        leader.says("Ctrl-C stops")
        eventually(lambda: there.listed("schedule", "list"))  # it has been published
        paused = there.servo("schedule", "pause", "every_second")
        assert paused.code == 0, paused
        (row,) = there.listed("schedule", "list")
        assert row["state"]["status"] == "PAUSED", row
        with there.start("materialize", "assets.py", "other", "--json") as client:
            gates.wait_for("other")
            (run,) = [row for row in there.listed("run", "list") if row["state"] == "RUNNING"]
            cancelled = there.servo("run", "cancel", run["run_id"])
            assert cancelled.code == 0, cancelled
            ended = client.ended()
            assert ended.code == 1, ended
            assert json.loads(ended.out)["run"]["state"] == "CANCELLED"
        refused = there.servo("run", "cancel", run["run_id"])
        assert refused.code == 4, refused
        assert bucket.terms() == 1
        leader.send(signal.SIGINT)
        assert leader.ended().code == 0
    verify(there)
