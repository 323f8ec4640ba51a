"""Why a condition is true or not: its nodes, and what each is true of.

A tree is for display, so it is bounded: of very many dependencies the first are shown and the rest
counted, and of very many partitions the first ranges.
"""

import msgspec

from servo.core import bitmaps
from servo.core.automation.compiling import Node
from servo.core.automation.facts import ProjectFacts

MOST_NODES = 150
_MOST_RANGES = 8


class Tree(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A condition, the number of partitions it is true of, and its parts.

    `asset` is set if it differs from the parent's. If the condition is true of some but not all
    partitions, `keys` are the first of them, or `partitions` their ordinals if they have no keys;
    `more` counts those not shown.
    """

    label: str
    kind: str
    true: int = 0
    of: int = 0
    asset: str = ""
    check: str = ""
    partitions: str = ""
    keys: str = ""
    children: tuple["Tree", ...] = ()
    more: int = 0


def tree_of(root: Node, world: ProjectFacts) -> Tree:
    """The tree of a node and everything below it."""
    return _Drawing(world).tree(root, ("", ""))


class _Drawing:
    def __init__(self, world: ProjectFacts) -> None:
        self.world = world
        self.left = MOST_NODES

    def tree(self, node: Node, above: tuple[str, str]) -> Tree:
        universe = self.world.facts[node.key].universe
        self.left -= 1
        children: list[Tree] = []
        for child in node.children:
            if self.left <= 0:
                break
            children.append(self.tree(child, node.key))
        true = (node.value & universe).bit_count()
        whole = universe.bit_count()
        some = node.value & universe if 0 < true < whole else 0
        keys = self.world.graph.assets[node.key[0]].space.shown(some) if some else ""
        return Tree(
            label=str(node.condition),
            kind=node.kind,
            true=true,
            of=whole,
            asset=node.key[0] if node.key != above else "",
            check=node.key[1] if node.key != above else "",
            partitions="" if keys else _shown(some),
            keys=keys,
            children=tuple(children),
            more=len(node.children) - len(children),
        )


def _shown(bits: int) -> str:
    found, more = bitmaps.first_ranges(bits, _MOST_RANGES)
    shown = [str(low) if low == high else f"{low}-{high}" for low, high in found]
    return ",".join([*shown, "…"] if more else shown)
