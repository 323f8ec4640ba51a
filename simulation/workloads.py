"""Worlds with one large run in them: the shapes that the benchmarks measure, under faults.

A chain, a fan with one task that waits for all, and layers in which each task waits for two. Bodies
take next to no time, nothing fails by itself and nobody cancels: whatever the store, the queue,
the clocks and the processes do, every task must succeed in the end, each made once.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from msgspec.structs import replace

from simulation.swarm import Swarm, draw, idle

Graph = Sequence[Sequence[int]]
"""For each task, the numbers of those before it that it waits for."""


def _chain(length: int) -> Graph:
    return [[number - 1] if number else [] for number in range(length)]


def _fan(width: int) -> Graph:
    return [*([] for _ in range(width)), list(range(width))]


def _layers(layers: int, width: int) -> Graph:
    first: list[list[int]] = [[] for _ in range(width)]
    rest = [
        [(layer - 1) * width + place, (layer - 1) * width + (place + 1) % width]
        for layer in range(1, layers)
        for place in range(width)
    ]
    return [*first, *rest]


GRAPHS: Mapping[str, Graph] = MappingProxyType(
    {"chain": _chain(40), "fan_out": _fan(100), "layers": _layers(10, 10)}
)


def world_of(name: str, seed: int) -> Swarm:
    """The world of a seed, with one run of this shape and nothing else to do."""
    return replace(
        idle(draw(seed)),
        workload=name,
        longest_task_ms=30,
        faulty_ms=30_000,
        runs=1,
        failure_rate=0.0,
        cancel_rate=0.0,
    )
