"""Dependency graphs: one order, whatever order the nodes came in.

A graph is its nodes and, for each, the nodes it depends on (its upstream). Results depend on that
and on the caller's key only, never on insertion order or hashing. Everything is iterative: a chain
of a hundred thousand nodes is an ordinary graph.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, TypeVar

from servo.errors import Internal, Invalid

K = TypeVar("K", bound=Hashable)

_MAX_SHOWN = 100
_ARROW = " → "


def topological_order(
    nodes: Iterable[K], upstream: Mapping[K, Sequence[K]], key: Callable[[K], Any]
) -> list[K]:
    """The nodes, each after all it depends on; of those that could come next, the least key first.

    `key` must differ between nodes. Repeated nodes and edges count once. `Invalid` names a
    dependency that is not a node, or a whole cycle in the direction of the data: `a → b → a`
    says that b depends on a, and a on b.
    """
    ordered = sorted(dict.fromkeys(nodes), key=key)
    _check_distinct(ordered, key)
    # From here on a node is its rank: integers are cheap to compare and to keep in a heap.
    ranks = {node: rank for rank, node in enumerate(ordered)}
    parents = [_ranked_upstream(node, upstream.get(node, ()), ranks) for node in ordered]
    sequence = _kahn(parents)
    if len(sequence) < len(ordered):
        raise _cycle_error([str(ordered[rank]) for rank in _find_cycle(parents, sequence)])
    return [ordered[rank] for rank in sequence]


def downstream_of(upstream: Mapping[K, Sequence[K]]) -> dict[K, list[K]]:
    """The same edges seen from the other end; dependants in the order of the mapping."""
    inverted: dict[K, list[K]] = {node: [] for node in upstream}
    for node, parents in upstream.items():
        for parent in dict.fromkeys(parents):
            inverted.setdefault(parent, []).append(node)
    return inverted


def reachable(
    starts: Iterable[K], edges: Mapping[K, Sequence[K]], *, depth: int | None = None
) -> dict[K, int]:
    """The nodes at most `depth` edges away from `starts`, with their distance, nearest first.

    Over `upstream` these are the ancestors, over `downstream_of(upstream)` the descendants.
    """
    distances = dict.fromkeys(starts, 0)
    queue = deque(distances)
    while queue:
        node = queue.popleft()
        distance = distances[node] + 1
        if depth is not None and distance > depth:
            break
        for neighbour in edges.get(node, ()):
            if neighbour not in distances:
                distances[neighbour] = distance
                queue.append(neighbour)
    return distances


def _check_distinct(ordered: Sequence[K], key: Callable[[K], Any]) -> None:
    keys = [key(node) for node in ordered]
    for index in range(1, len(keys)):
        if keys[index - 1] == keys[index]:
            raise Internal(f"{ordered[index - 1]} and {ordered[index]} have the same sort key")


def _ranked_upstream(node: K, parents: Sequence[K], ranks: Mapping[K, int]) -> list[int]:
    try:
        return sorted({ranks[parent] for parent in parents})
    except KeyError:
        missing = sorted(str(parent) for parent in dict.fromkeys(parents) if parent not in ranks)
        raise Invalid(
            f"{node} depends on {', '.join(missing)}, which does not exist",
            remedy="define it, or remove the dependency",
        ) from None


def _kahn(parents: Sequence[Sequence[int]]) -> list[int]:
    children: list[list[int]] = [[] for _ in parents]
    for rank, above in enumerate(parents):
        for parent in above:
            children[parent].append(rank)
    waiting = [len(above) for above in parents]
    ready = [rank for rank, count in enumerate(waiting) if count == 0]
    heapify(ready)
    sequence: list[int] = []
    while ready:
        rank = heappop(ready)
        sequence.append(rank)
        for child in children[rank]:
            waiting[child] -= 1
            if waiting[child] == 0:
                heappush(ready, child)
    return sequence


def _find_cycle(parents: Sequence[Sequence[int]], sequence: Sequence[int]) -> list[int]:
    """A cycle among the nodes that are not in `sequence`, in the direction of the data."""
    stuck = [True] * len(parents)
    for rank in sequence:
        stuck[rank] = False
    # A stuck node has a stuck parent, so walking up from any of them must come round.
    path: dict[int, None] = {}
    rank = stuck.index(True)
    while rank not in path:
        path[rank] = None
        rank = next(parent for parent in parents[rank] if stuck[parent])
    walked = list(path)
    cycle = walked[walked.index(rank) :][::-1]
    least = cycle.index(min(cycle))
    return [*cycle[least:], *cycle[:least], cycle[least]]


def _cycle_error(names: Sequence[str]) -> Invalid:
    half = _MAX_SHOWN // 2
    if len(names) > _MAX_SHOWN:
        names = [*names[:half], f"({len(names) - 2 * half} more)", *names[-half:]]
    return Invalid(f"dependencies form a cycle: {_ARROW.join(names)}", remedy="remove one of them")
