"""The tasks of a plan by asset and partition, and their dependencies.

A task has a tag with the upstream partitions that it loads (`servo/input_partitions`), unless they
are those with its own key. A long list is left out: the worker then computes it.
"""

from collections.abc import Iterable, Sequence
from itertools import chain

from servo.core.canonical import canonical_str
from servo.core.ids import TaskKeyStr
from servo.core.keys import AssetKey, TaskOperation, task_key_text
from servo.core.plan import INPUT_PARTITIONS_TAG
from servo.errors import Invalid
from servo.planning.partition_choice import Relations
from servo.sdk.definitions.project import Project
from servo.sdk.partitions.definition import PartitionsDefinition
from servo.sdk.partitions.mapping_edges import UNDIVIDED, FoundNumbers
from servo.sdk.partitions.time_partitions import TimeWindowPartitionsDefinition

MOST_LISTED = 128

Unit = Sequence[int]
"""The partitions that one task materializes, by number; 0 for an unpartitioned asset."""


class Inputs:
    """What a task depends on, and which partitions it loads."""

    def __init__(self, loaded: Iterable[AssetKey]) -> None:
        self.tasks: dict[TaskKeyStr, None] = {}
        self._loaded = dict.fromkeys(loaded)
        self._partitions: dict[str, list[str] | None] = {}
        self._seen: set[AssetKey] = set()

    def loads(self, key: AssetKey) -> bool:
        """Whether the task loads an asset whose partitions are not set yet."""
        return key in self._loaded and key not in self._seen

    def left(self) -> list[AssetKey]:
        """The assets that the task loads without depending on them."""
        return [key for key in self._loaded if key not in self._seen]

    def give(self, key: AssetKey, typed: list[str] | None, own: Sequence[str | None]) -> None:
        """Set the partitions of an asset that the task loads; None if too many to list."""
        self._seen.add(key)
        if typed != list(own):
            self._partitions[key.canonical()] = typed

    def pass_by(self, key: AssetKey) -> None:
        """Mark an asset whose partitions need not be set."""
        self._seen.add(key)

    def tags(self) -> dict[str, str]:
        """The tags of the task."""
        if not self._partitions:
            return {}
        return {INPUT_PARTITIONS_TAG: canonical_str(self._partitions)}


class Planned:
    """The tasks of a plan."""

    def __init__(self, relations: Relations, project: Project) -> None:
        self._relations = relations
        self.project = project
        self._tasks: dict[AssetKey, dict[int, TaskKeyStr]] = {}
        self._units: dict[AssetKey, Sequence[Unit]] = {}
        self._typed: dict[PartitionsDefinition, dict[int, str]] = {}
        self._constant: dict[tuple[AssetKey, AssetKey], FoundNumbers] = {}

    def units(self, key: AssetKey) -> Sequence[Unit]:
        """The planned partitions of an asset, grouped by task."""
        return self._units[key]

    def add(
        self,
        group: Sequence[AssetKey],
        operation: TaskOperation,
        numbers: Sequence[int],
        size: int = 1,
    ) -> None:
        """Plan the tasks for these partitions of a group of assets, `size` partitions in each."""
        first = group[0].canonical()
        units = [numbers[start : start + size] for start in range(0, len(numbers), size)]
        found: dict[int, TaskKeyStr] = {}
        for unit in units:
            task = task_key_text(first, self.typed(group[0], unit[0]), operation)
            for number in unit:
                found[number] = task
        for key in group:
            self._tasks[key] = found
            self._units[key] = units

    def task(self, key: AssetKey, unit: Unit) -> TaskKeyStr:
        """The task of a unit."""
        return self._tasks[key][unit[0]]

    def typed(self, key: AssetKey, number: int) -> str | None:
        """The identity under which a partition is stored; None for an unpartitioned asset."""
        definition = self._relations.definition(key)
        if definition is None:
            return None
        held = self._typed.get(definition)
        if held is None:
            held = self._typed[definition] = {}
        found = held.get(number)
        if found is None:
            found = held[number] = self._relations.space(key).identity(number).canonical()
        return found

    def follow(
        self,
        inputs: Inputs,
        up: AssetKey,
        own: tuple[AssetKey, Unit],
        *,
        needed: bool = False,
        waits: bool = True,
    ) -> None:
        """Make a task depend on the tasks of an upstream asset.

        `needed` is whether every partition that the mapping returns must exist.
        """
        planned = self._tasks.get(up) if waits else None
        loads = inputs.loads(up)
        if up not in self.project.specs or not (planned or loads or needed):
            return
        if self._relations.definition(up) is None:
            inputs.pass_by(up)
            if planned:
                inputs.tasks.update(dict.fromkeys(planned.values()))
            return
        key, unit = own
        found = [self._found(up, key, number) for number in unit]
        if needed:
            self._refuse_missing(up, own, found)
        numbers = found[0].numbers if len(unit) == 1 else _together(found)
        if planned:
            inputs.tasks.update(dict.fromkeys(planned[n] for n in numbers if n in planned))
        if loads:
            inputs.give(up, self._listed(up, numbers), [self.typed(key, one) for one in unit])

    def _found(self, up: AssetKey, key: AssetKey, number: int) -> FoundNumbers:
        edge = self._relations.edge(up, key)
        if not edge.constant:
            return edge.upstream(number)
        if (up, key) not in self._constant:
            self._constant[up, key] = edge.upstream(number)
        return self._constant[up, key]

    def _listed(self, up: AssetKey, numbers: Sequence[int]) -> list[str] | None:
        if len(numbers) > MOST_LISTED:
            return None
        return [typed for number in numbers if (typed := self.typed(up, number)) is not None]

    def _refuse_missing(
        self, up: AssetKey, own: tuple[AssetKey, Unit], found: Sequence[FoundNumbers]
    ) -> None:
        key, unit = own
        for number, one in zip(unit, found, strict=True):
            if one.missing:
                space = self._relations.space(key)
                which = "" if space is UNDIVIDED else f" {space.key(number)!r}"
                more = f" and {len(one.missing) - 1} more" if len(one.missing) > 1 else ""
                raise Invalid(
                    f"{key}{which} depends on {up} {one.missing[0]!r}{more}, which does not exist",
                    remedy=f"{self._relations.space(up).remedy()}; {self._advice(up, key)}",
                )

    def _advice(self, up: AssetKey, key: AssetKey) -> str:
        both = (self._relations.definition(up), self._relations.definition(key))
        if all(isinstance(one, TimeWindowPartitionsDefinition) for one in both):
            option = "allow_nonexistent_upstream_partitions=True"
            return f"materialize another partition, or use TimeWindowPartitionMapping({option})"
        return "materialize another partition, or map it with another partition_mapping"


def _together(found: Sequence[FoundNumbers]) -> list[int]:
    """The upstream partitions of several partitions, in order and without duplicates."""
    return sorted(set(chain.from_iterable(one.numbers for one in found)))
