"""The task, the success and the output of one asset, `ns/a`, for tests of the rules of assets."""

from datetime import timedelta

from msgspec.structs import replace

from servo.core.events.tasks import CommittedOutput, Gate, TaskFinished, TaskOutcome
from servo.core.fold.assets import promote
from servo.core.keys import TaskOperation, task_key_text
from servo.core.state import derived
from servo.core.state.rows.assets import AssetRow, PartitionStatusRow
from servo.core.state.rows.execution import TaskRow
from servo.core.state.states import TaskState, TransitionReason
from servo.testing.builders import START, Story

DAY = "day=d:2025-01-15"
DAY_TASK = task_key_text("ns/a", DAY, TaskOperation.MATERIALIZE)


def running_task(**changes: object) -> TaskRow:
    """The row of the task, in its second attempt."""
    row = TaskRow(
        run_id="run_1",
        task_key="ns/a:materialize",
        state=TaskState.RUNNING,
        reason=TransitionReason.EXECUTION_STARTED,
        transitioned_at=START,
        asset_key="ns/a",
        attempt=2,
        code_version="planned",
        row_version=1,
    )
    return replace(row, **changes)


def success(exec_id: str = "exec", **changes: object) -> TaskFinished:
    """That an execution of the task succeeded."""
    event = TaskFinished(
        run_id="run_1",
        task_key="ns/a:materialize",
        attempt_id="att",
        exec_id=exec_id,
        outcome=TaskOutcome.SUCCEEDED,
    )
    return replace(event, **changes)


def output(gate: Gate = Gate.PROMOTED, name: str = "mat") -> CommittedOutput:
    """What an execution wrote."""
    return CommittedOutput(
        materialization_id=name,
        uri="mem://x",
        format="parquet",
        row_count=3,
        byte_size=40,
        schema_hash="s",
        content_hash="c",
        data_version="d1",
        gate=gate,
        metadata="{}",
    )


def at_entry(story: Story, seq: int) -> Story:
    """Let the next rows be written as entry `seq`, that many minutes after the start."""
    story.state.seq = seq
    story.state.ts = START + timedelta(minutes=seq)
    return story


def promoted(story: Story, seq: int, name: str, day: str | None = None) -> None:
    """Tell a success at entry `seq` whose output becomes the latest."""
    made = success(exec_id=name, output=output(name=name))
    promote(at_entry(story, seq).state, running_task(partition_key=day), made)
    story.state.seal()
    story.now = story.state.ts


def asset_row(story: Story, key: str = "ns/a") -> AssetRow:
    """What the story knows of an asset."""
    return story.state.assets.rows[key]


def partition_row(story: Story, key: str = DAY) -> PartitionStatusRow:
    """What the story knows of a partition of `ns/a`, wipes included."""
    row = story.state.partitions.rows["ns/a", key]
    return derived.partition_status(story.state, row)
