"""What edges say follows from the tasks above them, and stays what it was when they ended."""

from datetime import timedelta

from servo.core.events.dispatch import CancelGraceExpired
from servo.core.events.runs import RunCancelRequested
from servo.core.state import derived
from servo.core.state.rows.execution import DepSatisfactionRow
from servo.core.state.state import State
from servo.core.state.states import Resolution, TaskState
from servo.testing.builders import START, Story, dump, task_key

A, B, C = (task_key(name) for name in "abc")


def edges(story: Story) -> dict[tuple[str, str], DepSatisfactionRow]:
    rows = dump(story.state)["dep_satisfaction"]
    return {(above, below): row for (_, above, below), row in rows.items()}


def cancelled_while_it_ran() -> Story:
    """A chain whose first task never noticed that the run was cancelled."""
    story = Story()
    story.plan({"a": (), "b": ("a",), "c": ("b",)})
    story.start("a")
    story.tell(RunCancelRequested(run_id="run_1"))
    story.wait(hours=1)
    row = story.task("a")
    story.tell(
        CancelGraceExpired(
            run_id="run_1", task_key=A, attempt_id=row.attempt_id, exec_id=row.exec_id
        )
    )
    return story


def test_an_edge_says_how_and_when_the_task_above_it_ended() -> None:
    story = Story()
    story.plan({"a": (), "b": ("a",)})
    assert edges(story)[A, B].resolution is None
    story.wait(seconds=5)
    story.execute("a")
    assert edges(story)[A, B] == DepSatisfactionRow(
        run_id="run_1",
        upstream_task_key=A,
        downstream_task_key=B,
        satisfied=True,
        resolution=Resolution.SUCCESS,
        satisfied_at=START + timedelta(seconds=5, microseconds=1),
        satisfying_attempt=1,
        row_version=story.state.seq,
    )


def test_ending_a_task_writes_no_edge() -> None:
    story = Story()
    story.plan({"a": (), "b": ("a",)})
    story.state.edges.dirty.clear()
    story.execute("a")
    assert story.state.edges.dirty == {}
    assert list(derived.changed(story.state, "dep_satisfaction")) == [("run_1", A, B)]


def test_an_edge_below_a_task_that_is_told_late_of_its_upstream_stays_as_it_was() -> None:
    story = cancelled_while_it_ran()
    cancelled = story.run().cancel_requested_at
    assert story.task("b").row_version == story.state.seq
    assert edges(story)[B, C].satisfied_at == cancelled
    assert edges(story)[B, C].row_version < edges(story)[A, B].row_version == story.state.seq


def test_an_edge_below_a_task_that_reports_late_stays_as_it_was() -> None:
    story = cancelled_while_it_ran()
    before = edges(story)
    row = story.task("a")
    assert row.state is TaskState.CANCELLED
    assert story.finish("a").applied
    assert story.task("a").late_outcome is not None
    assert edges(story) == before


def test_an_edge_that_was_written_is_published_as_it_was_written() -> None:
    story = cancelled_while_it_ran()
    before = edges(story)[A, B]
    story.finish("a")
    written = story.state.edges.rows["run_1", A, B]
    assert derived.changed(story.state, "dep_satisfaction")["run_1", A, B] == written == before


def test_an_edge_whose_task_is_not_here_says_what_is_stored() -> None:
    state = State("acme", "prod")
    row = DepSatisfactionRow(
        run_id="run_1", upstream_task_key=A, downstream_task_key=B, row_version=1
    )
    assert derived.edge(state, row) is row
