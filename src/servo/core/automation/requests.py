"""What an evaluation asks for, as few runs as there can be.

Assets that want the same partitions are made together: a chain of assets that each follow the one
before is one run. A run has one partition, or one range of them where its assets say so; which,
is for who plans it.
"""

from collections.abc import Mapping

import msgspec

from servo.core.automation.assets import Graph


class AssetRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Assets to be made together, and of which partitions, in the space that is theirs."""

    assets: tuple[str, ...]
    space: str
    bits: int


def grouped(graph: Graph, requested: Mapping[str, int]) -> list[AssetRequest]:
    """The requests of an evaluation, each partition of each asset in exactly one."""
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
    """Groups of disjoint partitions with those of one more asset in their places."""
    found: list[tuple[int, list[str]]] = []
    for held, keys in groups:
        both = held & bits
        if both:
            found.append((both, [*keys, key]))
        if held & ~bits:
            found.append((held & ~bits, keys))
        bits &= ~held
    return [*found, (bits, [key])] if bits else found
