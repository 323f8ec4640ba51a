"""What a request for a run says: who wants it, of what, and in which words."""

from typing import Any

import pytest

from servo.core.events.runs import ManualSource, RerunSource
from servo.core.ids import TaskKeyStr
from servo.core.plan import Plan, TaskSpec
from servo.errors import Conflict
from servo.leader.service import Service, World
from servo.ledger.paths import Paths
from servo.storage.memory import MemoryStore
from servo.workspace.run_requests import (
    MOST_ASSETS,
    Requests,
    Wanted,
    assets_of,
)
from servo.workspace.system import SystemClock, SystemEntropy

ADA = "user:ada@laptop"
PATHS = Paths("t", "w")


def plan(*names: str) -> Plan:
    return Plan(
        tasks=tuple(
            TaskSpec(task_key=TaskKeyStr(f"{name}:materialize"), asset_key=name) for name in names
        )
    )


def world() -> World:
    clock = SystemClock()
    return World(MemoryStore(clock), clock, SystemEntropy(), identity=ADA)


def wanted(*names: str, key: str = "k", **fields: Any) -> Wanted:
    return Wanted(plan=plan(*names), run_key=key, tags={}, **fields)


def test_a_run_says_who_wants_what_and_in_which_words() -> None:
    here = world()
    with Service(here, PATHS) as service:
        requests = Requests(service, here, PATHS)
        name = requests.run(wanted("a", "b", text="a+", request_id="mine"))
        run = service.engine.state.runs.rows[name]
    assert run.source == ManualSource(user_id=ADA, request_id="mine")
    assert (run.requested_by, run.request_text) == (ADA, "a+")
    assert run.asset_selection == ("a", "b")


def test_a_repetition_follows_from_the_run_it_repeats() -> None:
    here = world()
    with Service(here, PATHS) as service:
        requests = Requests(service, here, PATHS)
        rows = service.engine.state.runs.rows
        first = rows[requests.run(wanted("a"))]
        again = rows[requests.run(wanted("a", key="k2"), again=first)]
    assert again.source == RerunSource(run_id=first.run_id, user_id=ADA)
    assert (again.parent_run_id, again.request_text) == (first.run_id, f"retry {first.run_id}")
    assert (again.cause, again.correlation) == (first.request_position, first.correlation)


def test_a_run_key_of_another_request_is_a_conflict_that_says_what_to_do() -> None:
    here = world()
    with Service(here, PATHS) as service:
        requests = Requests(service, here, PATHS)
        first = requests.run(wanted("a"))
        assert requests.run(wanted("a")) == first
        with pytest.raises(Conflict, match="or use another run key"):
            requests.run(wanted("b"))


def test_whoever_cancels_is_named() -> None:
    here = world()
    with Service(here, PATHS) as service:
        requests = Requests(service, here, PATHS)
        name = requests.run(wanted("a"))
        requests.cancel(name)
        assert service.engine.state.runs.rows[name].cancel_requested_by == ADA


def test_too_many_assets_are_not_told_by_name() -> None:
    names = [f"a{n}" for n in range(MOST_ASSETS + 1)]
    assert len(assets_of(plan(*names[:-1]))) == MOST_ASSETS
    assert assets_of(plan(*names)) == ()
    assert assets_of(plan(*(f"{n:03d}" + "x" * 900 for n in range(100)))) == ()


def test_tasks_of_no_asset_and_of_the_same_one_are_told_once() -> None:
    assert assets_of(plan("", "a", "a")) == ("a",)
