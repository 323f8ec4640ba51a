"""Partitions leave memory after every entry, and the fold says the same as if they stayed."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from servo.core.events.assets import (
    AssetObserved,
    AssetReported,
    AssetWiped,
    DynamicPartitionsChanged,
    OutputsExpired,
    QuarantineDecided,
)
from servo.core.events.dispatch import Handover, LeaseExpired
from servo.core.events.envelope import Event
from servo.core.events.tasks import CommittedOutput, Gate, TaskOutcome
from servo.core.fold.apply import apply_entry, needs_now
from servo.core.state.state import State
from servo.core.state.tables import TABLES, Residency
from servo.testing.builders import Story, dump, task_key

DAYS = ("day=d:2025-01-01", "day=d:2025-01-02")
ASSETS = ("ns/a", "ns/b")

days = st.sampled_from(DAYS)
assets = st.sampled_from(ASSETS)


def say(story: Story, draw: DataObject, number: int) -> Event:
    """Something about a partition that is no run."""
    made = story.state.materializations.rows
    held = [name for name, row in made.items() if not row.promoted and not row.decided_at]
    chosen = draw.draw(st.sampled_from(list(made) or ["none"]))
    day, asset = draw.draw(days), draw.draw(assets)
    keys = draw.draw(st.sampled_from([(), (day,)]))
    moves: list[Event] = [
        AssetReported(asset_key=asset, partition_key=day, materialization_id=f"r{number}"),
        AssetObserved(asset_key=asset, partition_key=day, data_version=f"v{number}"),
        AssetWiped(asset_key=asset, partition_keys=keys),
        *[OutputsExpired(materialization_ids=(chosen,))] * 3,
        *[QuarantineDecided(materialization_id=name, approved=True) for name in held[:3]],
        DynamicPartitionsChanged(set_name="s", added=(day,)),
        DynamicPartitionsChanged(set_name="s", removed=(day,)),
    ]
    return draw.draw(st.sampled_from(moves))


def attempt(story: Story, draw: DataObject, number: int) -> None:
    """A run of one task that makes a partition of both assets, and how it ends."""
    run, day = f"run_{number}", draw.draw(days)
    story.plan({"a": ()}, run_id=run, partition=day, also_makes=("ns/b",))
    handover = Handover(exec_id=f"e{number}", worker_id="w")
    story.dispatch("a", run, handover=handover)
    outcome = draw.draw(st.sampled_from([*TaskOutcome, None]))
    if outcome is None:
        story.wait(hours=1)
        row = story.task("a", run)
        story.tell(
            LeaseExpired(
                run_id=run, task_key=task_key("a"), attempt_id=row.attempt_id, exec_id=row.exec_id
            )
        )
    elif outcome is TaskOutcome.SUCCEEDED:
        gates = [draw.draw(st.sampled_from([Gate.PROMOTED, Gate.QUARANTINED])) for _ in ASSETS]
        outputs = tuple(
            CommittedOutput(
                asset_key=key, materialization_id=f"{key}{number}", uri="mem", gate=gate
            )
            for key, gate in zip(ASSETS, gates, strict=True)
        )
        story.finish("a", outcome, run, output=None, outputs=outputs)
    else:
        story.finish("a", outcome, run)


def evict(state: State, archive: dict[str, dict[Any, Any]]) -> None:
    for name, table in state.tables.items():
        for key in [key for key, row in table.dirty.items() if row is None]:
            archive[name].pop(key, None)
        table.dirty.clear()
        if TABLES[name].residency is Residency.HISTORY:
            for key, row in list(table.rows.items()):
                archive[name][key] = row
                table.evict(key)


@given(st.data())
def test_partitions_that_leave_and_come_back_are_the_same_partitions(data: DataObject) -> None:
    story = Story()
    for number in range(data.draw(st.integers(3, 20))):
        story.wait(seconds=1)
        if data.draw(st.booleans()):
            attempt(story, data, number)
        else:
            story.tell(say(story, data, number))
    state = State("acme", "prod")
    archive: dict[str, dict[Any, Any]] = {name: {} for name in TABLES}
    for entry, _, digest in story.entries:
        for batch in entry.batches:
            while away := [item for item in needs_now(state, batch) if item[1] in archive[item[0]]]:
                for table, key in dict.fromkeys(away):
                    state.hydrate(table, [archive[table].pop(key)])
        apply_entry(state, entry, digest)
        evict(state, archive)
    assert not story.state.dead_letter.rows
    for name, rows in archive.items():
        state.hydrate(name, rows.values())
    assert dump(state) == dump(story.state)
