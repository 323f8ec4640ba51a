"""What a batch asks for before it is folded, because it may have left memory."""

import pytest
from msgspec.structs import replace

from servo.core.events.envelope import Batch, Event
from servo.core.events.quotas import QuotaSet
from servo.core.events.runs import RunCancelRequested
from servo.core.events.tasks import TaskFinished, TaskOutcome, TaskStarted
from servo.core.fold.apply import missing, needs
from servo.testing.builders import Story, task_key

COMMAND = QuotaSet(max_concurrent_tasks=5)
FACT = RunCancelRequested(run_id="run_1")


@pytest.mark.parametrize(
    ("batch", "keys"),
    [
        (Batch(id="b", events=(COMMAND,)), ["b"]),
        (Batch(id="b", events=(COMMAND,), key="mine"), ["mine"]),
        (Batch(id="b", events=(FACT, COMMAND)), ["b"]),
        (Batch(id="b", events=(FACT,), key="mine"), ["mine"]),
        (Batch(id="b", events=(FACT,)), []),
    ],
)
def test_commands_and_whatever_has_a_key_look_up_the_answer_given_before(
    batch: Batch, keys: list[str]
) -> None:
    assert [key for table, key in needs(batch) if table == "idempotency_keys"] == keys


@pytest.mark.parametrize(
    ("fields", "letters"),
    [({"parkable": True}, ["b"]), ({"quarantined": "it failed"}, ["b"]), ({}, [])],
)
def test_whatever_may_be_buried_looks_up_its_dead_letter(
    fields: dict[str, object], letters: list[str]
) -> None:
    batch = replace(Batch(id="b", events=(FACT,)), **fields)
    assert [key for table, key in needs(batch) if table == "dead_letter"] == letters


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
    "fields", [{"key": "mine"}, {"parkable": True}, {"quarantined": "it failed"}]
)
def test_a_report_of_a_task_in_memory_asks_for_what_else_it_needs(
    fields: dict[str, object],
) -> None:
    story = Story()
    story.plan({"a": ()})
    batch = replace(Batch(id="b", events=reports("a")), **fields)
    (found,) = missing(story.state, batch)
    assert found in (("idempotency_keys", "mine"), ("dead_letter", "b"))


def test_a_report_of_a_task_that_is_not_in_memory_asks_for_it() -> None:
    story = Story()
    story.plan({"a": ()})
    mixed = Batch(id="b", events=(*reports("a"), *reports("other")))
    assert ("tasks", ("run_1", task_key("other"))) in missing(story.state, mixed)
    assert missing(Story().state, Batch(id="b", events=(FACT,))) == [("runs", "run_1")]
