"""Why a condition is true or not: its nodes with what each of them is true of.

A tree is for people, so it is bounded: of very many dependencies the first are shown and the rest
counted, and of very many partitions the first ranges.
"""

import msgspec

from servo.core import bitmaps
from servo.core.automation.compiling import Node
from servo.core.automation.facts import World

MOST_NODES = 150
_MOST_RANGES = 8
_WIDTH = 4_096
_WINDOW = (1 << _WIDTH) - 1


class Tree(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A condition, of how many of how many partitions it is true, and what it is made of.

    `asset` is told where it is another than above, `partitions` if it is true of some and not of
    all, as ordinals; `more` counts what is not shown.
    """

    label: str
    kind: str
    true: int = 0
    of: int = 0
    asset: str = ""
    check: str = ""
    partitions: str = ""
    children: tuple["Tree", ...] = ()
    more: int = 0


def tree_of(root: Node, world: World) -> Tree:
    """The tree of a node and everything below it."""
    return _Drawing(world).tree(root, ("", ""))


class _Drawing:
    def __init__(self, world: World) -> None:
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
        return Tree(
            label=str(node.condition),
            kind=node.kind,
            true=true,
            of=whole,
            asset=node.key[0] if node.key != above else "",
            check=node.key[1] if node.key != above else "",
            partitions=_shown(node.value) if 0 < true < whole else "",
            children=tuple(children),
            more=len(node.children) - len(children),
        )


def _shown(bits: int) -> str:
    """The first ranges of a set, found without looking at all of it more often than needed."""
    shown: list[str] = []
    start, rest = 0, bits
    while rest and len(shown) < _MOST_RANGES:
        gap = (rest & -rest).bit_length() - 1
        start, rest = start + gap, rest >> gap
        found = bitmaps.ranges(rest & _WINDOW)
        if found[0][1] == _WIDTH - 1:  # it goes on behind the window: find where it ends
            found = [(0, (~rest & (rest + 1)).bit_length() - 2)]
        elif found[-1][1] == _WIDTH - 1:
            found.pop()
        shown += [_range(start + low, start + high) for low, high in found]
        behind = found[-1][1] + 1
        start, rest = start + behind, rest >> behind
    more = bool(rest) or len(shown) > _MOST_RANGES
    return ",".join(shown[:_MOST_RANGES]) + (",…" if more else "")


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}-{high}"
