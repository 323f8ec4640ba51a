"""`context.load_asset_value`: an asset by its key, during the execution of another.

Upstream assets are loaded as parameters are: as they were at the grant. For any other asset, and
for a named partition, the newest output that counts is loaded. An IO manager that the execution has
not opened is opened for this one value.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from servo.core.keys import AssetKey
from servo.errors import Invalid, NotFound
from servo.execution.outputs.storing import Storing
from servo.leader.assignments import Assignment, PinnedInput
from servo.sdk.definitions.project import Project
from servo.sdk.resources.io_context import StoredValue
from servo.sdk.resources.resources import Resources

Opened = Callable[[str], AbstractContextManager[Resources]]
"""Opens the resource of a name."""

NAME = "value"


class AssetValues:
    """The values of one project's assets, by key."""

    def __init__(self, project: Project, storing: Storing, instance: Any) -> None:
        self._project = project
        self._storing = storing
        self._instance = instance

    def load(
        self, work: Assignment, key: AssetKey, hint: Any, partition: str | None, *, opened: Opened
    ) -> Any:
        """The value of an asset, or of one of its partitions."""
        self._check(work, key, partition)
        manager = self._storing.io_key(key)
        if not manager:
            return self._own(work, key, hint, partition)
        with opened(manager) as resources:
            if partition is None:
                return self._storing.load(work, key, NAME, resources, hint)
            stored = StoredValue(
                name=NAME,
                partition_keys=(partition,),
                partitions_def=self._project.specs[key].partitions_def,
                type_hint=Any if hint is None else hint,
            )
            return self._storing.fetch(work, key, stored, resources)

    def _check(self, work: Assignment, key: AssetKey, partition: str | None) -> None:
        spec = self._project.specs.get(key)
        if spec is None:
            raise Invalid(
                f"this project has no asset {key}", remedy="load an asset of this project"
            )
        if partition is not None and spec.partitions_def is None:
            raise Invalid(f"{key} has no partitions", remedy="omit partition_key")
        if partition is None and spec.partitions_def is not None and not self._above(work, key):
            raise Invalid(
                f"{key} has partitions, and {work.asset_key} does not depend on it",
                remedy="choose a partition: partition_key=...",
            )

    def _above(self, work: Assignment, key: AssetKey) -> bool:
        """Whether the executed asset depends on an asset."""
        made = (AssetKey.parse(name) for name in (work.asset_key, *work.also_makes))
        return any(key in self._project.upstream[one] for one in made)

    def _own(self, work: Assignment, key: AssetKey, hint: Any, partition: str | None) -> Any:
        """A value that Servo has stored itself."""
        if partition is None and self._above(work, key):
            return self._storing.load(work, key, NAME, Resources(), hint)
        instance: Any = self._instance() if callable(self._instance) else self._instance
        stored: PinnedInput | None
        if partition is None:
            stored = instance.latest_output(key)
        else:
            typed = self._project.specs[key].partitions_def.typed_key(partition).canonical()
            stored = instance.latest_outputs(key, [typed]).get(typed)
        if stored is None:
            which = str(key) if partition is None else f"the partition {partition!r} of {key}"
            raise NotFound(f"{which} was never materialized", remedy="materialize it first")
        return self._storing.value(stored, hint)
