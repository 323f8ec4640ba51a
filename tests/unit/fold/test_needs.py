"""What a batch asks for before it is folded, because it may have left memory."""

from typing import Any

import pytest
from msgspec.structs import replace

from servo.core.events.assets import (
    AssetObserved,
    AssetReported,
    AssetWiped,
    DynamicPartitionsChanged,
    OutputsExpired,
    QuarantineDecided,
)
from servo.core.events.dispatch import (
    CancelGraceExpired,
    DispatchAckTimedOut,
    ExecutionTimedOut,
    LeaseExpired,
)
from servo.core.events.envelope import Batch, Event, Status, Verdict
from servo.core.events.quotas import QuotaSet
from servo.core.events.runs import PlanCreated, RunCancelRequested
from servo.core.events.tasks import TaskFinished, TaskOutcome, TaskStarted
from servo.core.fold.apply import missing, needs, needs_now
from servo.core.fold.letters import letter_key
from servo.testing.builders import Story, task_key

COMMAND = QuotaSet(max_concurrent_tasks=5)
FACT = RunCancelRequested(run_id="run_1")
FAILED = Verdict(status=Status.QUARANTINED, code="rule_failed", reason="it failed")


@pytest.mark.parametrize(
    ("batch", "keys"),
    [
        (Batch(id="b", events=(COMMAND,)), ["b"]),
        (Batch(id="b", events=(COMMAND,), request_id="mine"), ["mine"]),
        (Batch(id="b", events=(FACT, COMMAND)), ["b"]),
        (Batch(id="b", events=(FACT,), request_id="mine"), ["mine"]),
        (Batch(id="b", events=(FACT,)), []),
    ],
)
def test_commands_and_whatever_has_a_key_look_up_the_answer_given_before(
    batch: Batch, keys: list[str]
) -> None:
    assert [key for table, key in needs(batch) if table == "idempotency_keys"] == keys


@pytest.mark.parametrize(
    ("fields", "letters"),
    [({"parkable": True}, ["b"]), ({"verdict": FAILED}, ["b"]), ({}, [])],
)
def test_whatever_may_be_buried_looks_up_its_dead_letter(
    fields: dict[str, object], letters: list[str]
) -> None:
    batch = replace(Batch(id="b", events=(FACT,)), **fields)
    found = [key for table, key in needs(batch) if table == "dead_letter"]
    assert found == [letter_key(batch) for _ in letters]


def reports(name: str) -> tuple[Event, ...]:
    """What a worker says about a task: that it took it, and that it is done."""
    key = task_key(name)
    return (
        TaskStarted(run_id="run_1", task_key=key, attempt_id="a", exec_id="e"),
        TaskFinished(
            run_id="run_1",
            task_key=key,
            attempt_id="a",
            exec_id="e",
            outcome=TaskOutcome.SUCCEEDED,
        ),
    )


def test_nothing_is_asked_for_that_is_in_memory() -> None:
    story = Story()
    story.plan({"a": ()})
    assert missing(story.state, Batch(id="b", events=reports("a"))) == []
    assert missing(story.state, Batch(id="b", events=(FACT,))) == []


@pytest.mark.parametrize(
    "fields", [{"request_id": "mine"}, {"parkable": True}, {"verdict": FAILED}]
)
def test_a_report_of_a_task_in_memory_asks_for_what_else_it_needs(
    fields: dict[str, object],
) -> None:
    story = Story()
    story.plan({"a": ()})
    batch = replace(Batch(id="b", events=reports("a")), **fields)
    (found,) = missing(story.state, batch)
    assert found in (("idempotency_keys", "mine"), ("dead_letter", letter_key(batch)))


def test_a_report_of_a_task_that_is_not_in_memory_asks_for_it() -> None:
    story = Story()
    story.plan({"a": ()})
    mixed = Batch(id="b", events=(*reports("a"), *reports("other")))
    assert ("tasks", ("run_1", task_key("other"))) in missing(story.state, mixed)
    assert missing(Story().state, Batch(id="b", events=(FACT,))) == [("runs", "run_1")]


DAY = "day=d:2025-01-15"
MARK = ("partition_status", ("ns/a", DAY))


def with_partition() -> Story:
    story = Story()
    story.plan({"a": ()}, partition=DAY)
    return story


def gave_up(kind: type[Any], **fields: object) -> Event:
    return kind(run_id="run_1", task_key=task_key("a"), attempt_id="a", **fields)


@pytest.mark.parametrize(
    "event",
    [
        reports("a")[1],
        gave_up(DispatchAckTimedOut, delivery=1),
        gave_up(LeaseExpired, exec_id="e"),
        gave_up(ExecutionTimedOut, exec_id="e"),
        gave_up(CancelGraceExpired, exec_id="e"),
    ],
    ids=lambda event: type(event).__name__,
)
def test_whatever_ends_an_attempt_asks_for_the_partition_of_its_task(event: Event) -> None:
    story = with_partition()
    assert missing(story.state, Batch(id="b", events=(event,))) == [MARK]
    story.tell(AssetObserved(asset_key="ns/a", partition_key=DAY))
    assert missing(story.state, Batch(id="b", events=(event,))) == []


def test_a_task_that_makes_several_assets_asks_for_the_partition_of_each() -> None:
    story = Story()
    story.plan({"a": ()}, partition=DAY, also_makes=("ns/b",))
    found = missing(story.state, Batch(id="b", events=(reports("a")[1],)))
    assert found == [MARK, ("partition_status", ("ns/b", DAY))]


@pytest.mark.parametrize(
    ("event", "found"),
    [
        (AssetObserved(asset_key="ns/a"), []),
        (AssetObserved(asset_key="ns/a", partition_key=DAY), [MARK]),
        (AssetWiped(asset_key="ns/a"), []),
        (AssetWiped(asset_key="ns/a", partition_keys=(DAY,)), [MARK]),
        (
            AssetReported(asset_key="ns/a", partition_key=DAY, materialization_id="m"),
            [("materializations", "m"), MARK],
        ),
        (
            DynamicPartitionsChanged(set_name="s", added=("x",), removed=("y",)),
            [("dynamic_partitions", ("s", "x")), ("dynamic_partitions", ("s", "y"))],
        ),
    ],
)
def test_what_is_said_of_partitions_asks_for_them(event: Event, found: list[object]) -> None:
    story = Story()
    asked = missing(story.state, Batch(id="b", events=(event,)))
    assert [item for item in asked if item[0] != "idempotency_keys"] == found


@pytest.mark.parametrize(
    "event",
    [
        QuarantineDecided(materialization_id="m", approved=True),
        OutputsExpired(materialization_ids=("m",)),
    ],
)
def test_what_is_said_of_an_output_asks_for_its_partition_once_the_output_is_known(
    event: Event,
) -> None:
    story = Story()
    batch = Batch(id="b", events=(event,))
    assert ("materializations", "m") in missing(story.state, batch)
    assert MARK not in missing(story.state, batch)
    story.tell(AssetReported(asset_key="ns/a", partition_key=DAY, materialization_id="m"))
    story.state.partitions.dirty.clear()
    story.state.partitions.evict(("ns/a", DAY))
    assert MARK in missing(story.state, batch)


def test_a_plan_asks_for_what_the_batches_need_that_wait_for_it() -> None:
    """Also if they plan each other's runs, so that each waits for the other."""
    story = Story()
    for one, other in (("run_1", "run_2"), ("run_2", "run_1")):
        seen = AssetObserved(asset_key="ns/a", partition_key=f"{DAY} of {one}")
        plan = PlanCreated(run_id=one, fingerprint="f")
        start = replace(reports("a")[0], run_id=other)
        story.tell(seen, start, plan, parkable=True)
    assert len(story.state.parked) == 2
    asked = needs_now(
        story.state, Batch(id="b", events=(PlanCreated(run_id="run_1", fingerprint="f"),))
    )
    for run in ("run_1", "run_2"):
        assert ("partition_status", ("ns/a", f"{DAY} of {run}")) in asked


def test_what_was_dropped_is_not_asked_for_until_that_is_published() -> None:
    story = Story()
    story.tell(DynamicPartitionsChanged(set_name="s", added=("x",)))
    story.tell(DynamicPartitionsChanged(set_name="s", removed=("x",)))
    table = story.state.dynamic_partitions
    assert not table.lacks(("s", "x"))
    table.publishing, table.dirty = table.dirty, {}
    assert not table.lacks(("s", "x"))
    table.publishing = {}
    assert table.lacks(("s", "x"))
