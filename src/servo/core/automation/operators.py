"""The values of conditions that combine others.

`since` has memory. If its two sides are true at the same evaluation, the one that happened later
counts, if the times are known, and otherwise the reset: an update that came after an asset was
materialized, but before the evaluation that saw both, is not lost.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from types import MappingProxyType

from servo.core.automation.compiling import Node
from servo.core.automation.view import View, cron_of

Moments = list[tuple[datetime, int]]


def _and(node: Node, view: View) -> int:
    value = view.facts(node).universe
    for child in node.children:
        value &= child.value
    return value


def _or(node: Node, view: View) -> int:
    del view
    return _union(child.value for child in node.children)


def _not(node: Node, view: View) -> int:
    return view.facts(node).universe & ~node.children[0].value


def _newly_true(node: Node, view: View) -> int:
    """What is true now and was not at the last evaluation; stores what is true now.

    For a part that was added to an evaluated condition, nothing is known yet, so nothing is new:
    editing a condition does not request everything it is true of.
    """
    del view
    now = node.children[0].value
    before, node.memory = node.memory, now
    if before != now:
        node.plan.changed = True
        node.text = None
    if not isinstance(before, int):
        return now if node.plan.initial else 0
    return now & ~before


def _since(node: Node, view: View) -> int:
    trigger, reset = node.children
    value = (node.value | trigger.value) & ~reset.value
    both = trigger.value & reset.value
    if both:
        value |= _later(_moments(trigger, view), _moments(reset, view), both)
    return value & view.facts(node).universe


def _around(node: Node, view: View) -> int:
    """What is true of any, or of all, dependencies or checks."""
    facts = view.world.facts
    here = facts[node.key].universe
    value = here if node.every else 0
    for child, step in zip(node.children, node.steps, strict=True):
        taken = step.take(child.value, facts[step.key].universe, here)
        value = value & taken if node.every else value | taken
    return value & here


# --- when it became so ----------------------------------------------------------------------------


def _moments(node: Node, view: View) -> Moments:
    """When a node became true, as far as that is known."""
    if not node.timed or not node.value:
        return []
    return [(at, bits & node.value) for at, bits in _MOMENTS[_kind(node)](node, view)]


def _kind(node: Node) -> str:
    return node.kind if node.kind in _MOMENTS else "and"


def _of_updates(node: Node, view: View) -> Moments:
    return view.facts(node).updates


def _of_requests(node: Node, view: View) -> Moments:
    return [] if view.last is None else [(view.last, node.value)]


def _of_cron(node: Node, view: View) -> Moments:
    return [(view.passed[cron_of(node)], node.value)]


def _of_children(node: Node, view: View) -> Moments:
    return [moment for child in node.children for moment in _moments(child, view)]


def _of_trigger(node: Node, view: View) -> Moments:
    return _moments(node.children[0], view)


def _of_around(node: Node, view: View) -> Moments:
    facts = view.world.facts
    here = facts[node.key].universe
    return [
        (at, step.take(bits, facts[step.key].universe, here))
        for child, step in zip(node.children, node.steps, strict=True)
        for at, bits in _moments(child, view)
    ]


def _later(first: Iterable[tuple[datetime, int]], second: Moments, both: int) -> int:
    """Those of which the first is known to have happened after the second."""
    known = _union(bits for _, bits in second)
    undecided, found = both & known, 0
    # At the same instant the second counts: it comes first in the order from the newest down.
    steps = [(at, 1, bits) for at, bits in second] + [(at, 0, bits) for at, bits in first]
    for _, again, bits in sorted(steps, reverse=True):
        if not again:
            found |= bits & undecided
        undecided &= ~bits
    return found


def _union(sets: Iterable[int]) -> int:
    union = 0
    for bits in sets:
        union |= bits
    return union


_MOMENTS: Mapping[str, Callable[[Node, View], Moments]] = MappingProxyType(
    {
        "newly_updated": _of_updates,
        "newly_requested": _of_requests,
        "cron_tick_passed": _of_cron,
        "and": _of_children,
        "since": _of_trigger,
        "deps": _of_around,
        "checks": _of_around,
        "asset_matches": _of_around,
    }
)

OPERATORS: Mapping[str, Callable[[Node, View], int]] = MappingProxyType(
    {
        "and": _and,
        "or": _or,
        "not": _not,
        "newly_true": _newly_true,
        "since": _since,
        "deps": _around,
        "checks": _around,
        "asset_matches": _around,
        "any_downstream_conditions": _or,
    }
)
