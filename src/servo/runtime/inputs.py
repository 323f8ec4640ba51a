"""What a task is given: the outputs that were the latest when it was granted.

By asset for those without partitions. Of an asset with partitions a task is given the partitions of
its own keys, or those that its plan lists; where the plan leaves that to the worker, none.
"""

from collections.abc import Iterable

from servo.core.fold.latest import partitions_of
from servo.core.keys import place_of
from servo.core.plan import INPUTS_TAG, input_partitions
from servo.core.state.rows.execution import TaskRow
from servo.core.state.state import State

Pins = dict[str, tuple[str, str]]
"""By asset, or by asset and partition, an output and where it is stored."""


def inputs_of(state: State, task: TaskRow) -> Pins:
    """The latest output of all that a task's assets are made from, and that it asks for."""
    assets = state.assets.rows
    made = [assets[key] for key in (task.asset_key, *task.also_makes) if key in assets]
    wanted = [key for row in made for key in row.upstream]
    if also := task.tags.get(INPUTS_TAG):
        wanted += also.split(",")
    listed = input_partitions(task.tags)
    pins: Pins = {}
    for key in wanted:
        row = assets.get(key)
        if key in listed:
            pins.update(_partitions(state, key, listed[key] or ()))
        elif row is not None and row.partitions:
            pins.update(_partitions(state, key, partitions_of(task)))
        elif row is not None and row.last_materialization_id is not None:
            pins[key] = (row.last_materialization_id, row.last_output_uri)
    return pins


def _partitions(state: State, key: str, partitions: Iterable[str]) -> Pins:
    rows = ((name, state.partitions.rows.get((key, name))) for name in partitions)
    return {
        place_of(key, name): (row.last_materialization_id, row.last_output_uri)
        for name, row in rows
        if row is not None and row.last_materialization_id is not None
    }
