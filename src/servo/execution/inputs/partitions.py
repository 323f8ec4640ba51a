"""Which partitions an execution materializes, and which it loads.

The plan lists them, so that an execution loads what was planned, however late it runs. If there are
too many to list, they are found here by the same mapping, and their stored outputs are read from
the workspace instead of the assignment.
"""

from collections.abc import Callable, Mapping
from typing import Any

from servo.core.keys import AssetKey, place_of
from servo.leader.assignments import Assignment, PinnedInput
from servo.planning.partition_choice import Relations
from servo.ports.clock import Clock
from servo.sdk.assets.results import Failure
from servo.sdk.definitions.project import Project
from servo.sdk.partitions.context import NONE, Partitions
from servo.sdk.partitions.definition import PartitionsDefinition
from servo.sdk.partitions.mapping_resolution import WHOLE, Moment


class PartitionInputs:
    """The partitions of executions of one project. `instance` is the workspace, or gives it."""

    def __init__(self, project: Project, clock: Clock, instance: Any) -> None:
        self._project = project
        self._clock = clock
        self._instance = instance

    def definition(self, key: AssetKey) -> PartitionsDefinition | None:
        """The partitions_def of an asset."""
        return self._project.specs[key].partitions_def

    def own(self, work: Assignment, key: AssetKey) -> Partitions:
        """The partitions that an execution materializes."""
        definition = self.definition(key)
        if definition is None or not work.partitions:
            return NONE
        keys = tuple(definition.plain_key(one) for one in work.partitions)
        return Partitions(definition=definition, keys=keys)

    def of_input(self, work: Assignment, key: AssetKey, upstream: AssetKey) -> Partitions | None:
        """The partitions of another asset that an execution loads; None if it has none."""
        definition = self.definition(upstream)
        if definition is None:
            return None
        typed = work.input_partitions.get(upstream.canonical(), work.partitions)
        if typed is None:
            return Partitions(definition=definition, keys=self._mapped(work, key, upstream))
        keys = tuple(definition.plain_key(one) for one in typed)
        return Partitions(definition=definition, keys=keys)

    def _mapped(self, work: Assignment, key: AssetKey, upstream: AssetKey) -> tuple[str, ...]:
        relations = Relations(self._project, Moment(self._clock.now(), self._workspace()))
        edge = relations.edge(upstream, key)
        own = self.own(work, key).keys or (WHOLE,)
        return tuple(edge.above.keys_of(edge.upstream_bits(edge.below.bits(own))))

    def _workspace(self) -> Any:
        held: Any = self._instance
        return held() if callable(held) else held

    def named(self, work: Assignment, key: AssetKey) -> Callable[[str], Partitions]:
        """A function that gives the partitions for the parameter of a name."""
        inputs = self._project.inputs.get(key, {})

        def find(name: str) -> Partitions:
            if name not in inputs:
                raise Failure(f"{key} has no input {name!r}", allow_retries=False)
            return self.of_input(work, key, inputs[name]) or NONE

        return find

    def pins(
        self, work: Assignment, upstream: AssetKey, found: Partitions
    ) -> Mapping[str, PinnedInput]:
        """The stored outputs of partitions, by display key; without those never materialized."""
        definition, key = found.definition, upstream.canonical()
        if definition is None:
            return {}
        typed = {name: definition.typed_key(name).canonical() for name in found.keys}
        pinned = {name: work.inputs.get(place_of(key, one)) for name, one in typed.items()}
        held = {name: one for name, one in pinned.items() if one is not None}
        absent = {name: one for name, one in typed.items() if name not in held}
        if absent and self._instance is not None:
            # Too many for an assignment, or no longer in the leader's memory.
            stored: Mapping[str, PinnedInput] = self._workspace().latest_outputs(
                upstream, list(absent.values())
            )
            rows = {name: stored.get(one) for name, one in absent.items()}
            held |= {name: row for name, row in rows.items() if row is not None}
        return {name: held[name] for name in typed if name in held}
