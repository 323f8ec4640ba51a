"""The kinds of worlds that a seed makes."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from simulation.backfilling import world_of_backfills
from simulation.swarm import Swarm, draw
from simulation.triggering import world_of_triggers

PLAIN = "plain"
WORLDS: Mapping[str, Callable[[int], Swarm]] = MappingProxyType(
    {PLAIN: draw, "backfills": world_of_backfills, "triggers": world_of_triggers}
)
