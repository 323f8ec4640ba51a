"""Partitions as they are named on the command line, and what is needed to find them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click
import msgspec

from servo.cli.workspace import Command, Where
from servo.core.keys import AssetKey
from servo.core.state.rows.execution import TaskRow
from servo.core.tags import PARTITION_LABEL
from servo.errors import NotFound
from servo.planning.partition_choice import Named
from servo.sdk.definitions.project import Project
from servo.sdk.partitions.definition import PartitionKeyRange, PartitionsDefinition
from servo.sdk.partitions.mapping_resolution import WHOLE
from servo.workspace.instance.instance import ServoInstance
from servo.workspace.system import SystemClock


class NamedPartitions(msgspec.Struct, frozen=True, kw_only=True):
    """The partitions that a command names, the time it is, and the dynamic ones there are."""

    keys: tuple[Named, ...] = ()
    now: datetime
    store: Any = None

    @property
    def labels(self) -> dict[str, str]:
        """What a run that makes one partition is labelled with."""
        one = self.keys[0] if len(self.keys) == 1 else None
        return {PARTITION_LABEL: str(one)} if isinstance(one, str) else {}


class Dynamic:
    """The dynamic partitions of a workspace, read when they are asked for."""

    def __init__(self, where: Where) -> None:
        self._where = where

    def get_dynamic_partitions(self, partitions_def_name: str) -> Sequence[str]:
        """The partitions of a set; none in a workspace that is not there yet."""
        where = self._where
        try:
            _ = where.open()
        except NotFound:
            return []
        instance = ServoInstance.of_store(where.url, tenant=where.tenant, workspace=where.workspace)
        return instance.get_dynamic_partitions(partitions_def_name)


def with_partitions(command: Command) -> Command:
    """Give a command the options that name partitions, as its arguments `partitions`, `ranges`."""
    one = click.option(
        "--partition",
        "partitions",
        multiple=True,
        metavar="KEY",
        help="A partition to make; may be repeated.",
    )
    several = click.option(
        "--partition-range",
        "ranges",
        multiple=True,
        nargs=2,
        metavar="FIRST LAST",
        help="Partitions to make, from one to another.",
    )
    return one(several(command))


def named(
    where: Where, partitions: Sequence[str] = (), ranges: Sequence[tuple[str, str]] = ()
) -> NamedPartitions:
    """The partitions that were named, at this moment."""
    keys = (*partitions, *(PartitionKeyRange(*pair) for pair in ranges))
    return NamedPartitions(keys=keys, now=SystemClock().now(), store=Dynamic(where))


def partitions_of(project: Project, tasks: Sequence[TaskRow]) -> dict[AssetKey, list[str]]:
    """The partitions of assets that tasks make, as people write them."""
    found: dict[AssetKey, list[str]] = {}
    for task in tasks:
        for text in (task.asset_key, *task.also_makes):
            key = AssetKey.parse(text)
            spec = project.specs.get(key)
            if spec is None:
                raise NotFound(
                    f"the code defines no asset {key} any more", remedy="make the others by name"
                )
            held = found.setdefault(key, [])
            held += [name for name in _names(spec.partitions_def, task) if name not in held]
    return found


def _names(definition: PartitionsDefinition | None, task: TaskRow) -> list[str]:
    if definition is None or task.partition_key is None:
        return [WHOLE]
    return [definition.plain_key(one) for one in (task.partition_key, *task.also_partitions)]
