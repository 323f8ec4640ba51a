"""Partitions as they are named on the command line."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click
import msgspec

from servo.cli.options.workspace import Command, Where
from servo.core.tags import PARTITION_LABEL
from servo.operations.dynamic_partitions import DynamicPartitions
from servo.planning.partition_choice import Named
from servo.sdk.partitions.definition import PartitionKeyRange
from servo.workspace.system import SystemClock
from servo.workspace.workspace import open_workspace


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


def with_partitions(command: Command) -> Command:
    """Give a command the options that name partitions, as its arguments `partitions`, `ranges`."""
    one = click.option(
        "--partition",
        "partitions",
        multiple=True,
        metavar="KEY",
        help="A partition to materialize; repeat it for several.",
    )
    several = click.option(
        "--partition-range",
        "ranges",
        multiple=True,
        nargs=2,
        metavar="FIRST LAST",
        help="Partitions to materialize, from FIRST to LAST.",
    )
    return one(several(command))


def named(
    where: Where, partitions: Sequence[str] = (), ranges: Sequence[tuple[str, str]] = ()
) -> NamedPartitions:
    """The partitions that were named, at this moment."""
    keys = (*partitions, *(PartitionKeyRange(*pair) for pair in ranges))
    return NamedPartitions(keys=keys, now=SystemClock().now(), store=dynamic_in(where))


def dynamic_in(where: Where) -> DynamicPartitions:
    """The dynamic partitions of a workspace, which need not exist yet."""
    return DynamicPartitions(lambda: open_workspace(where.address))
