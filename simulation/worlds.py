"""The kinds of worlds that a seed makes."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from simulation.backfilling import world_of_backfills
from simulation.commands import world_of_commands
from simulation.disk_world import world_of_disks
from simulation.swarm import Swarm, draw
from simulation.triggering import world_of_triggers

PLAIN = "plain"
IN_A_ROW = 8
"""So many seeds in a row make worlds of one kind: the pattern of the plain ones is that long."""
WORLDS: Mapping[str, Callable[[int], Swarm]] = MappingProxyType(
    {
        PLAIN: draw,
        "backfills": world_of_backfills,
        "triggers": world_of_triggers,
        "commands": world_of_commands,
        "disks": world_of_disks,
    }
)


def dealt(seed: int) -> str:
    """The kind of world that a seed makes if no kind was asked for: each kind has its turn."""
    names = list(WORLDS)
    return names[seed // IN_A_ROW % len(names)]
