"""The inputs of a task: the latest outputs at the time of its grant.

An asset without partitions gives its latest output. An asset with partitions gives the partitions
with the keys of the task, or those that its plan lists; none if the plan leaves that to the worker.

Rows of partitions leave memory once they are published, so a grant fetches the missing ones.
"""

from collections.abc import Iterable, Iterator, Mapping

from servo.core.fold.latest import partitions_of
from servo.core.keys import place_of
from servo.core.plan import INPUTS_TAG, input_partitions
from servo.core.state.derived import partition_status
from servo.core.state.rows.assets import AssetRow, PartitionStatusRow
from servo.core.state.rows.execution import TaskRow
from servo.core.state.state import State
from servo.leader.assignments import PinnedInput

Pins = dict[str, PinnedInput]
"""By asset, or by asset and partition, an output and where it is stored."""

Published = Mapping[tuple[str, str], PartitionStatusRow]
"""Rows of partitions that have left memory, by asset and partition."""


def inputs_of(state: State, task: TaskRow, published: Published) -> Pins:
    """The latest outputs of the assets that a task depends on and requests."""
    pins: Pins = {}
    for key, partitions in _wanted(state, task):
        if partitions is not None:
            pins.update(_partitions(state, key, partitions, published))
            continue
        row = state.assets.rows.get(key)
        if row is not None and (pinned := latest_output(row)) is not None:
            pins[key] = pinned
    return pins


def not_in_memory(state: State, tasks: Iterable[TaskRow]) -> list[tuple[str, str]]:
    """The input partitions of tasks whose rows are not in memory, or do not exist."""
    rows = state.partitions.rows
    found = (
        (key, name)
        for task in tasks
        for key, partitions in _wanted(state, task)
        for name in partitions or ()
    )
    return [place for place in dict.fromkeys(found) if place not in rows]


def _wanted(state: State, task: TaskRow) -> Iterator[tuple[str, Iterable[str] | None]]:
    """The input assets of a task, with the partitions of partitioned ones."""
    assets = state.assets.rows
    made = [assets[key] for key in (task.asset_key, *task.also_makes) if key in assets]
    wanted = [key for row in made for key in row.upstream]
    if also := task.tags.get(INPUTS_TAG):
        wanted += also.split(",")
    listed = input_partitions(task.tags)
    for key in wanted:
        row = assets.get(key)
        if key in listed:
            yield key, listed[key] or ()
        elif row is not None and row.partitions:
            yield key, partitions_of(task)
        else:
            yield key, None


def _partitions(state: State, key: str, partitions: Iterable[str], published: Published) -> Pins:
    held = state.partitions.rows
    rows = ((name, held.get((key, name)) or published.get((key, name))) for name in partitions)
    counted = ((name, partition_status(state, row)) for name, row in rows if row is not None)
    pinned = ((name, latest_output(row)) for name, row in counted)
    return {place_of(key, name): output for name, output in pinned if output is not None}


def latest_output(row: AssetRow | PartitionStatusRow) -> PinnedInput | None:
    """The latest output of an asset or a partition; None if it was never materialized."""
    if row.last_materialization_id is None:
        return None
    return PinnedInput(row.last_materialization_id, row.last_output_uri, row.last_content_hash)
