"""A task that makes several partitions at once."""

from typing import Any

import pytest

from servo.core.events.envelope import Status
from servo.core.events.tasks import CommittedOutput, Gate, TaskFinished, TaskOutcome
from servo.core.fold.tasks import partitions_of
from servo.core.ids import TaskKeyStr
from servo.core.plan import TaskSpec, input_partitions, normalize
from servo.core.retry import RetryRules
from servo.errors import Invalid
from servo.testing.builders import Story

ONCE = RetryRules(max_attempts=1, max_infra_retries=0)
P = [f"n=i:{n}" for n in range(3)]


def several(**changes: Any) -> Story:
    """A run with one task that makes three partitions of ns/a, and is running."""
    story = Story()
    story.plan({"a": ()}, partition=P[0], also_partitions=tuple(P[1:]), retry=ONCE, **changes)
    story.start("a")
    return story


def latest(story: Story, asset: str = "ns/a") -> list[str | None]:
    rows = story.state.partitions.rows
    found = [rows.get((asset, key)) for key in P]
    return [None if row is None else row.last_materialization_id for row in found]


def made(
    name: str, partition: str = "", asset: str = "", gate: Gate = Gate.PROMOTED
) -> CommittedOutput:
    return CommittedOutput(
        materialization_id=name, partition_key=partition, asset_key=asset, gate=gate
    )


def test_one_output_is_recorded_for_every_partition() -> None:
    story = several()
    story.finish("a", output=CommittedOutput(materialization_id="m", uri="mem/", metadata="{}"))
    assert latest(story) == ["m", "m.1", "m.2"]
    rows = story.state.materializations.rows
    assert {(row.output_uri, row.metadata) for row in rows.values()} == {("mem/", "{}")}
    assert {row.partition_key for row in rows.values()} == set(P)
    assert story.state.assets.rows["ns/a"].last_partition_key == P[2]


def test_a_report_without_output_counts_for_all() -> None:
    story = several()
    story.finish("a")
    exec_id = story.task("a").exec_id
    assert latest(story) == [exec_id, f"{exec_id}.1", f"{exec_id}.2"]


def test_outputs_may_name_their_partitions() -> None:
    story = several(also_makes=("ns/b",))
    outputs = (made("m1", P[1]), made("m0", P[0]), made("b", "", "ns/b"))
    story.finish("a", outputs=outputs)
    assert latest(story) == ["m0", "m1", None]
    assert latest(story, "ns/b") == ["b", "b.1", "b.2"]


def test_what_is_held_back_is_held_for_each() -> None:
    story = several()
    story.finish("a", output=made("m", gate=Gate.QUARANTINED))
    assert latest(story) == [None, None, None]
    rows = story.state.partitions.rows
    assert {rows["ns/a", key].last_attempt_outcome for key in P} == {TaskOutcome.SUCCEEDED}


def test_a_failure_is_an_attempt_at_each() -> None:
    story = several()
    story.finish("a", TaskOutcome.FAILED)
    rows = story.state.partitions.rows
    assert {rows["ns/a", key].last_attempt_outcome for key in P} == {TaskOutcome.FAILED}
    assert latest(story) == [None, None, None]


@pytest.mark.parametrize(
    "outputs",
    [
        (made("m", "n=i:9"),),
        (made("m", P[0]), made("n", P[0])),
        (made("m"), made("n", P[0])),
        (made("m", P[0]), made("n", P[0], "ns/a")),
        (made("m", P[0], "ns/other"),),
        (made("", P[0]),),
    ],
)
def test_outputs_that_were_not_planned_are_refused_whole(
    outputs: tuple[CommittedOutput, ...],
) -> None:
    story = several()
    answer = story.finish("a", outputs=outputs)
    assert answer.status is Status.REJECTED
    assert answer.reason.startswith("unplanned_output")
    assert latest(story) == [None, None, None]


def test_one_output_of_a_partition_is_looked_at_as_several_are() -> None:
    story = several()
    assert story.finish("a", output=made("m", "n=i:9")).status is Status.REJECTED
    story.finish("a", output=made("m", P[2]))
    assert latest(story) == [None, None, "m"]


def test_a_task_of_one_partition_can_name_no_other() -> None:
    story = Story()
    story.plan({"a": ()}, partition=P[0], retry=ONCE)
    story.start("a")
    assert story.finish("a", outputs=(made("m", P[1]),)).status is Status.REJECTED
    story.finish("a", outputs=(made("m", P[0]),))
    assert latest(story) == ["m", None, None]


def spec(**changes: Any) -> TaskSpec:
    key = TaskKeyStr("a[n=i:0]:materialize")
    return TaskSpec(task_key=key, asset_key="a", partition="n=i:0", **changes)


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"also_partitions": ("n=i:0",)}, "one is repeated"),
        ({"also_partitions": ("n=i:1", "n=i:1")}, "one is repeated"),
        ({"also_partitions": tuple(f"n=i:{n}" for n in range(1, 10_001))}, "10001 partitions"),
    ],
)
def test_partitions_that_cannot_be_made_together_are_not_planned(
    changes: dict[str, Any], wrong: str
) -> None:
    with pytest.raises(Invalid, match=wrong):
        _ = normalize([spec(**changes)])
    assert normalize([spec(also_partitions=("n=i:1",))]).tasks[0].also_partitions == ("n=i:1",)


def test_the_partitions_a_task_loads_are_read_from_its_tags() -> None:
    tag = "servo/input_partitions"
    assert input_partitions({}) == {}
    assert input_partitions({tag: '{"a":["x"],"b":null}'}) == {"a": ("x",), "b": None}
    assert input_partitions({tag: "nonsense"}) == {}


def test_every_partition_is_brought_back_before_a_report_is_folded() -> None:
    story = several(also_makes=("ns/b",))
    task = story.task("a")
    event = TaskFinished(
        run_id=task.run_id,
        task_key=task.task_key,
        attempt_id="a",
        exec_id="e",
        outcome=TaskOutcome.SUCCEEDED,
    )
    names = (task.partition_key, *task.also_partitions)
    expected = [("partition_status", (key, name)) for key in ("ns/a", "ns/b") for name in names]
    assert len(names) == 3
    assert list(partitions_of(story.state, event)) == expected
