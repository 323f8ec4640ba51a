"""Compiled conditions: every node with the asset it applies to, in one list.

A condition says `any_deps_match(missing())`; the compiled condition has a node for each dependency,
since each has its own value and memory. The nodes are ordered so that each comes after its
children, so changes are evaluated once, from the leaves up.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from servo.core.automation.assets import Asset, Check, Graph, SubjectKey, subject
from servo.core.automation.condition import (
    And,
    AssetMatches,
    AutomationCondition,
    Checks,
    Deps,
    Either,
    NewlyTrue,
    Not,
    Operand,
    Or,
    Since,
)
from servo.core.automation.identity import name_of, told
from servo.core.automation.spaces import EVERYTHING, SAME, Mapping
from servo.errors import Invalid

DEPS = "deps"
CHECKS = "checks"
MATCHES = "asset_matches"
DOWNSTREAM = "any_downstream_conditions"
KINDS: dict[type[AutomationCondition], str] = {
    And: "and",
    Or: "or",
    Not: "not",
    NewlyTrue: "newly_true",
    Since: "since",
    Deps: DEPS,
    Checks: CHECKS,
    AssetMatches: MATCHES,
}
TRANSIENT = frozenset(
    {
        "newly_updated",
        "newly_requested",
        "data_version_changed",
        "code_version_changed",
        "cron_tick_passed",
        "initial_evaluation",
        "will_be_requested",
        "newly_true",
    }
)
REMEMBERS = frozenset({"newly_true", "since", "code_version_changed"})
TIMED = frozenset({"newly_updated", "newly_requested", "cron_tick_passed"})


class Traversal:
    """How the value of a node about one asset is mapped to another asset."""

    __slots__ = ("key", "mapping", "up")

    def __init__(self, key: SubjectKey, mapping: Mapping, *, up: bool = False) -> None:
        self.key = key
        self.mapping = mapping
        self.up = up

    def take(self, bits: int, there: int, here: int) -> int:
        """The partitions here that map to a set of partitions there."""
        if self.up:
            return self.mapping.upstream(bits, (here, there))
        return self.mapping.downstream(bits, (there, here))


class Node:
    """One condition of one asset or check, with its value at the last evaluation."""

    __slots__ = (
        "children",
        "condition",
        "index",
        "key",
        "kind",
        "lookback",
        "memory",
        "name",
        "parent",
        "plan",
        "steps",
        "text",
        "timed",
        "together",
        "value",
    )

    def __init__(
        self, condition: AutomationCondition, kind: str, key: SubjectKey, plan: "CompiledCondition"
    ) -> None:
        self.condition = condition
        self.kind = kind
        self.key = key
        self.plan = plan
        self.children: list[Node] = []
        self.parent: Node | None = None
        self.index = 0
        self.value = 0
        self.steps: list[Traversal] = []
        self.together = True
        self.timed = kind in TIMED
        self.name = ""
        self.memory: int | str | None = None
        self.text: str | None = None
        self.lookback: timedelta | None = None

    @property
    def arguments(self) -> tuple[tuple[str, Any], ...]:
        """The arguments of a fact."""
        return self.condition.arguments if isinstance(self.condition, Operand) else ()

    @property
    def every(self) -> bool:
        """Whether all children must be true, rather than any."""
        return bool(getattr(self.condition, "every", False))


class CompiledCondition:
    """The compiled condition of one asset or check."""

    def __init__(self, asset: Asset, key: SubjectKey, rank: int) -> None:
        self.asset = asset
        self.key = key
        self.subject = subject(key)
        self.rank = rank
        self.nodes: list[Node] = []
        self.dirty: list[int] = []
        self.previous = 0
        self.initial = True
        self.changed = True
        self.moved = True
        self.news = False
        self.settled = False

    @property
    def root(self) -> Node:
        """The condition as a whole."""
        return self.nodes[-1]


def compiled(graph: Graph) -> list[CompiledCondition]:
    """The compiled conditions of all subjects, in the order of evaluation."""
    plans: list[CompiledCondition] = []
    for rank, (key, condition) in enumerate(graph.roots()):
        plan = CompiledCondition(graph.assets[key[0]], key, rank)
        _ = _Compiler(graph, plan).node(condition, key, ())
        plans.append(plan)
    return plans


class _Compiler:
    def __init__(self, graph: Graph, plan: CompiledCondition) -> None:
        self.graph = graph
        self.plan = plan
        self.together = True

    def node(self, condition: AutomationCondition, key: SubjectKey, above: tuple[str, ...]) -> Node:
        """A condition of an asset or a check, and everything below it.

        `above` are the conditions that are being looked at on behalf of others.
        """
        kind = KINDS.get(type(condition)) or _operand(condition).name
        node = Node(condition, kind, key, self.plan)
        node.together = self.together
        node.children = self._children(node, above)
        for child in node.children:
            child.parent = node
        node.timed = node.timed or (kind != "not" and _any_timed(node))
        if kind in REMEMBERS:
            node.name = name_of(condition, *key, together=self.together)
        if kind == "in_latest_time_window":
            seconds = dict(node.arguments).get("lookback_delta")
            node.lookback = None if seconds is None else timedelta(seconds=seconds)
        node.index = len(self.plan.nodes)
        self.plan.nodes.append(node)
        return node

    def _children(self, node: Node, above: tuple[str, ...]) -> list[Node]:
        condition, key = node.condition, node.key
        match condition:
            case Deps():
                return self._of_deps(node, condition, above)
            case Checks():
                return self._of_checks(node, condition, above)
            case AssetMatches():
                return self._of_asset(node, condition, above)
            case Operand() if node.kind == DOWNSTREAM:
                return self._of_downstream(key, above)
            case _:
                return [self.node(child, key, above) for child in condition.children()]

    def _of_deps(self, node: Node, condition: Deps, above: tuple[str, ...]) -> list[Node]:
        children: list[Node] = []
        before = self.together
        for dep in self.graph.deps(node.key):
            if not self._counts(condition, dep.key):
                continue
            self.together = before and dep.together
            node.steps.append(Traversal((dep.key, ""), dep.mapping))
            children.append(self.node(condition.operand, (dep.key, ""), above))
        self.together = before
        return children

    def _counts(self, condition: Deps, key: str) -> bool:
        allowed = condition.allowed is None or self._selects(condition.allowed, key)
        return allowed and not (
            condition.ignored is not None and self._selects(condition.ignored, key)
        )

    def _selects(self, selection: Any, key: str) -> bool:
        several = selection.selections if isinstance(selection, Either) else (selection,)
        return any(self.graph.selects(one, key) for one in several)

    def _of_checks(self, node: Node, condition: Checks, above: tuple[str, ...]) -> list[Node]:
        asset, inner = node.key
        checks: Sequence[Check] = () if inner else self.graph.assets[asset].checks
        keys = [
            (asset, check.name)
            for check in sorted(checks, key=lambda check: check.name)
            if check.blocking or not condition.blocking_only
        ]
        node.steps = [Traversal(key, SAME) for key in keys]
        return [self.node(condition.operand, key, above) for key in keys]

    def _of_asset(self, node: Node, condition: AssetMatches, above: tuple[str, ...]) -> list[Node]:
        here, there = node.key[0], condition.key.canonical()
        if there not in self.graph.assets:
            raise Invalid(
                f"the automation condition of {self.plan.subject} refers to {there}, "
                "which is not an asset",
                remedy="correct the key in asset_matches, or define the asset",
            )
        same = self.graph.assets[here].space.fingerprint == self._fingerprint(there)
        step = Traversal((there, ""), SAME if same else EVERYTHING)
        together = same
        if (edge := self.graph.edge(there, here)) is not None:
            step, together = Traversal((there, ""), edge.mapping), edge.together
        elif (edge := self.graph.edge(here, there)) is not None:
            step = Traversal((there, ""), edge.mapping, up=True)
        node.steps = [step]
        before = self.together
        self.together = before and together
        child = self.node(condition.operand, step.key, above)
        self.together = before
        return [child]

    def _fingerprint(self, key: str) -> str:
        return self.graph.assets[key].space.fingerprint

    def _of_downstream(self, key: SubjectKey, above: tuple[str, ...]) -> list[Node]:
        """The conditions of what depends on an asset, as conditions of that asset.

        One that is being looked at already is left out, or two that ask for each other's would
        never end.
        """
        children: list[Node] = []
        for _, condition in self.graph.conditions_below(key[0]):
            text = told(condition)
            if text not in above:
                children.append(self.node(condition, key, (*above, text)))
        return children


def _any_timed(node: Node) -> bool:
    return any(child.timed for child in node.children)


def _operand(condition: AutomationCondition) -> Operand:
    if not isinstance(condition, Operand):
        raise Invalid(
            f"{condition!r} is not a condition that Servo can evaluate",
            remedy="build it from AutomationCondition.…() and the operators & | ~",
        )
    return condition
