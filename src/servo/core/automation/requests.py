"""Group the requests of an evaluation into as few runs as possible.

Assets that request the same partitions are materialized together: a chain of assets is one run.
Whether a run has one partition or a range of them is decided by the planner.
"""

from collections.abc import Mapping

import msgspec

from servo.core.automation.assets import Graph


class AssetRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Assets to materialize together, and their partitions, by number."""

    assets: tuple[str, ...]
    space: str
    bits: int


def grouped(graph: Graph, requested: Mapping[str, int]) -> list[AssetRequest]:
    """The requests of an evaluation, with each partition of each asset in exactly one."""
    groups: dict[str, list[tuple[int, list[str]]]] = {}
    for key in graph.order:
        if bits := requested.get(key, 0):
            space = graph.assets[key].space.fingerprint
            groups[space] = _split(groups.get(space, []), key, bits)
    return [
        AssetRequest(assets=tuple(keys), space=space, bits=bits)
        for space, parts in groups.items()
        for bits, keys in parts
    ]


def _split(groups: list[tuple[int, list[str]]], key: str, bits: int) -> list[tuple[int, list[str]]]:
    """The groups of disjoint partitions after adding those of one more asset."""
    found: list[tuple[int, list[str]]] = []
    for held, keys in groups:
        both = held & bits
        if both:
            found.append((both, [*keys, key]))
        if held & ~bits:
            found.append((held & ~bits, keys))
        bits &= ~held
    return [*found, (bits, [key])] if bits else found
