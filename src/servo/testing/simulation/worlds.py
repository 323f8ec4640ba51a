"""The kinds of worlds that a seed makes."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from servo.testing.simulation.backfilling import world_of_backfills
from servo.testing.simulation.swarm import Swarm, draw
from servo.testing.simulation.triggering import world_of_triggers

PLAIN = "plain"
WORLDS: Mapping[str, Callable[[int], Swarm]] = MappingProxyType(
    {PLAIN: draw, "backfills": world_of_backfills, "triggers": world_of_triggers}
)
