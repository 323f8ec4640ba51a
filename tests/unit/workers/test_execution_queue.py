"""Who gets what waits, and what becomes of it when nobody wants it or everything takes long."""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from servo.code.process_setup import ProcessSetup
from servo.config import WorkerSettings
from servo.core.lanes import BACKFILLS, INTERACTIVE, default_weight
from servo.leader.assignments import Assignment
from servo.testing.clock import ManualClock
from servo.testing.process_setups import setup_for
from servo.workers.local_pool.execution_queue import ExecutionQueue
from servo.workers.local_pool.permits import Drawing
from servo.workers.local_pool.process_table import ProcessTable
from servo.workers.local_pool.slots import DEEPEST, Slots
from servo.workers.local_pool.worker_process import WorkerProcess
from servo.workspace.system import SystemEntropy


class Played(WorkerProcess):
    """A process whose part the test plays: what it is sent, and what it may begin."""

    theirs: socket.socket
    drawing: Drawing

    def _start(self, setup: ProcessSetup, passed: tuple[int, ...]) -> "subprocess.Popen[bytes]":
        del setup
        self.theirs = socket.socket(fileno=os.dup(passed[0]))
        self.drawing = Drawing(passed[-1])
        return subprocess.Popen(["sleep", "600"], start_new_session=True)  # noqa: S607 - any

    def begins(self) -> bool:
        return self.drawing.may_begin()

    def over(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.close()
        self.theirs.close()


class World:
    """A pool's line, with processes that have all been short."""

    def __init__(self, folder: Path, size: int) -> None:
        setup = setup_for("assets.py", folder, str(folder))
        self.clock = ManualClock()
        self.processes = ProcessTable(size, WorkerSettings())
        self.places = Slots(size, SystemEntropy())
        self.queue = ExecutionQueue(self.processes, self.places, self.clock)
        self.children = [Played(setup, f"line-{n}") for n in range(size)]
        self.processes.children += self.children
        for child in self.children:
            child.ready = True
        for _ in range(100):
            self.places.took(0)

    def give(self, *names: str) -> list[Assignment]:
        given = [an(name) for name in names]
        self.queue.waiting.extend(given)
        assert not self.queue.feed()
        return given

    def waiting(self) -> list[str]:
        return [assignment.exec_id for assignment in self.queue.waiting]


def an(name: str, *, lane: str = "") -> Assignment:
    return Assignment(
        worker_id="pool", exec_id=name, run_id="r", task_key=f"{name}:materialize", attempt=1,
        attempt_id=f"a-{name}", fencing_token=1, asset_key=name,
        lane=lane, weight=default_weight(lane),
    )  # fmt: skip


@pytest.fixture
def one(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path, 1)
    yield world
    for child in world.children:
        child.over()


# --- nobody wants it ------------------------------------------------------------------------------


def test_what_is_withdrawn_while_it_lies_ready_is_never_begun(one: World) -> None:
    (child,) = one.children
    _, unwanted, _ = one.give("runs", "unwanted", "other")
    assert child.begins()
    assert one.queue.withdraw(unwanted)
    assert one.waiting() == ["other"]
    assert list(child.running) == ["runs"]
    assert [child.begins(), child.begins()] == [False, False]


def test_what_runs_is_not_withdrawn_and_nothing_is_left_behind_it(one: World) -> None:
    (child,) = one.children
    runs, *_ = one.give("runs", "second", "third")
    assert child.begins()
    assert not one.queue.withdraw(runs)
    assert one.queue.who_runs(runs) is child
    assert one.waiting() == ["second", "third"]


def test_one_that_ended_unnoticed_is_not_the_one_that_runs(one: World) -> None:
    (child,) = one.children
    ended, runs, _ = one.give("ended", "runs", "third")
    assert [child.begins(), child.begins()] == [True, True]
    assert not one.queue.withdraw(ended)
    assert one.queue.who_runs(ended) is None
    assert one.queue.who_runs(runs) is child


def test_one_that_waits_in_the_pool_is_withdrawn(one: World) -> None:
    one.places.take_long()
    runs, waits = one.give("runs", "waits")
    assert one.queue.withdraw(waits)
    assert not one.queue.withdraw(waits)
    assert one.queue.withdraw(runs)  # sent, and not begun
    assert not one.children[0].running


# --- a process that is to leave -------------------------------------------------------------------


def test_a_process_that_leaves_goes_also_if_all_it_had_was_taken_back(one: World) -> None:
    (child,) = one.children
    one.give("first", "second")
    child.leave()
    one.queue.take_back([child])
    assert one.waiting() == ["first", "second"]
    child.theirs.settimeout(5)
    while child.theirs.recv(1 << 16):
        pass  # and then the end


# --- a process that does not read -----------------------------------------------------------------


def test_a_process_that_reads_nothing_never_makes_the_pool_wait(one: World) -> None:
    (child,) = one.children
    child.socket.setblocking(False)
    sent = 0
    while child.accepts_backlog(0):
        child.give(b"x" * 50, an(f"x{sent}"), 0)
        child.flush()
        assert child.take_back()
        sent += 1
    assert sent > 32
    assert child.socket.send(b"there is room for more")


# --- lanes ----------------------------------------------------------------------------------------


def test_an_interactive_execution_goes_before_the_backlog_that_lies_ready(one: World) -> None:
    (child,) = one.children
    backlog = [an(f"b{n}", lane=BACKFILLS) for n in range(40)]
    one.queue.waiting.extend(backlog)
    assert not one.queue.feed()
    assert child.begins()
    assert len(child.running) == DEEPEST
    one.queue.waiting.extend([an("mine", lane=INTERACTIVE)])
    assert not one.queue.feed()
    assert list(child.running)[:3] == ["b0", "mine", "b1"]


def test_what_wants_a_process_of_its_own_sends_nothing_back(one: World) -> None:
    (child,) = one.children
    one.queue.waiting.extend([an("b0", lane=BACKFILLS), an("b1", lane=BACKFILLS)])
    assert not one.queue.feed()
    assert child.begins()
    one.queue.waiting.extend([replace(an("own", lane=INTERACTIVE), isolated=True)])
    sent = child.sent
    assert one.queue.feed()
    assert child.sent == sent
    assert one.waiting() == ["own"]


# --- all of them take long ------------------------------------------------------------------------


def test_those_that_came_last_are_given_back_in_their_order(one: World) -> None:
    one.give(*[f"x{n}" for n in range(40)])
    assert one.children[0].begins()
    one.clock.advance(timedelta(seconds=1))
    back = one.queue.shorten(40, one.clock.monotonic())
    assert [assignment.exec_id for assignment in back] == [f"x{n}" for n in range(1, 40)]


def test_what_would_wait_for_the_code_to_be_imported_is_given_back(one: World) -> None:
    one.children[0].leave()
    one.give("first", "second", "third")
    back = one.queue.shorten(3, one.clock.monotonic())
    assert [assignment.exec_id for assignment in back] == ["second", "third"]
    assert one.waiting() == ["first"]
