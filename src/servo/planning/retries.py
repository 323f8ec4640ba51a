"""Which partitions a retry materializes again."""

from collections.abc import Sequence

from servo.core.keys import AssetKey
from servo.core.state.rows.execution import TaskRow
from servo.errors import NotFound
from servo.sdk.definitions.project import Project
from servo.sdk.partitions.definition import PartitionsDefinition
from servo.sdk.partitions.mapping_resolution import WHOLE


def partitions_of(project: Project, tasks: Sequence[TaskRow]) -> dict[AssetKey, list[str]]:
    """The partitions of the assets that tasks materialize, as users write them."""
    found: dict[AssetKey, list[str]] = {}
    for task in tasks:
        for text in (task.asset_key, *task.also_makes):
            key = AssetKey.parse(text)
            spec = project.specs.get(key)
            if spec is None:
                raise NotFound(
                    f"the code no longer defines the asset {key}",
                    remedy="materialize the other assets by name",
                )
            held = found.setdefault(key, [])
            held += [name for name in _names(spec.partitions_def, task) if name not in held]
    return found


def _names(definition: PartitionsDefinition | None, task: TaskRow) -> list[str]:
    if definition is None or task.partition_key is None:
        return [WHOLE]
    return [definition.plain_key(one) for one in (task.partition_key, *task.also_partitions)]
