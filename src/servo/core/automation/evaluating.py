"""Evaluate all conditions repeatedly, looking only at what may have changed.

A node is evaluated again if a fact it depends on was touched, if a child has another value, if time
brought a tick or a partition, or if its value was true for one evaluation only. Everything else
stays the same. So the work depends on what changed, not on what exists, and the result is the same
as evaluating everything.

Assets are evaluated in topological order, so that `will_be_requested` of upstream assets is known.
An asset is requested at every evaluation as long as its condition is true.

An evaluator keeps values between evaluations. Its owner makes an evaluation durable before acting
on it, and discards the evaluator if that was rejected because another evaluation came first. What
has to outlive the process is in `EvaluationOutcome.states`, with the time of the last evaluation.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from heapq import heapify, heappop, heappush

import msgspec

from servo.core.automation.assets import Graph, SubjectKey
from servo.core.automation.compiling import TRANSIENT, CompiledCondition, Node, compiled
from servo.core.automation.condition import Operand
from servo.core.automation.facts import NEWS, ProjectFacts
from servo.core.automation.operands import OPERANDS, before
from servo.core.automation.operators import OPERATORS
from servo.core.automation.states import recall, remembered
from servo.core.automation.trees import Tree, tree_of
from servo.core.automation.view import CronKey, View, cron_of
from servo.core.cron import Cron

_VALUES = {**OPERANDS, **OPERATORS}
_ONCE = frozenset({"newly_true", "code_version_changed", "cron_tick_passed", "initial_evaluation"})


class EvaluationOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an evaluation.

    `requested` are the partitions to materialize, by asset or check. `states` are the changed
    states to store, and `told` the subjects whose tree is worth recording. An outcome that is not
    `durable` need not be stored: evaluating from the previous state gives the same. `assets` and
    `nodes` count what was evaluated.
    """

    at: datetime
    requested: dict[str, int]
    states: dict[str, str]
    told: tuple[str, ...]
    durable: bool
    assets: int
    nodes: int


class Evaluator:
    """Evaluates the conditions of a project repeatedly.

    Report to `world` the facts as of `last`, call `begin`, then report what happened since: that is
    the news of the first `tick`.
    """

    def __init__(
        self, graph: Graph, *, states: Mapping[str, str] | None = None, last: datetime | None = None
    ) -> None:
        self.graph = graph
        self.world = ProjectFacts(graph)
        self.plans: dict[str, CompiledCondition] = {}
        self._view = View(self.world, self.plans, last)
        self._ranked = compiled(graph)
        self._watching: dict[tuple[SubjectKey, str], list[Node]] = {}
        self._of_asset: dict[str, list[Node]] = {}
        self._of_cron: dict[CronKey, list[Node]] = {}
        self._crons_due: list[tuple[datetime, CronKey]] = []
        self._spaces_due: list[tuple[datetime, str]] = []
        self._moved: dict[str, None] = dict.fromkeys(graph.assets)
        self._queue: list[int] = []
        self._again: list[Node] = []
        self._asking: dict[str, None] = {}
        self._work = 0
        self.plans.update((plan.subject, plan) for plan in self._ranked)
        for plan in self._ranked:
            self._add(plan, (states or {}).get(plan.subject))

    def begin(self) -> None:
        """Mark everything reported so far as not new."""
        self.world.forget_news()

    def next_due(self) -> datetime | None:
        """When time alone next changes something: a cron tick, or a new partition."""
        heads = [heap[0][0] for heap in (self._crons_due, self._spaces_due) if heap]
        return min(heads, default=None)

    def tree(self, asset: str) -> Tree:
        """Why the condition of an asset was true or not at the last evaluation."""
        return tree_of(self.plans[asset].root, self.world)

    def tick(self, now: datetime) -> EvaluationOutcome:
        """Evaluate what may have changed, as of `now`, which never decreases."""
        view = self._view
        view.now = now = now if view.last is None else max(now, view.last)
        self._pass_time(now)
        for fact in self.world.touched:
            self._mark(self._watching.get(fact, ()))
        self.world.touched = {}
        again, self._again = self._again, []
        self._mark(again)
        self._work = 0
        evaluated = self._evaluate_queue()
        durable = self._hand_over(evaluated) or self._passes_by()
        told = tuple(plan.subject for plan in evaluated if plan.moved)
        states = {plan.subject: remembered(plan, self.graph) for plan in evaluated if plan.changed}
        for plan in evaluated:
            plan.initial = plan.changed = plan.moved = plan.news = False
            plan.settled = True
        self.world.forget_news()
        view.passed = {}
        view.last = now
        return EvaluationOutcome(
            at=now,
            requested={key: self.plans[key].root.value for key in self._asking},
            states=states,
            told=told,
            durable=durable or bool(states) or bool(self._asking),
            assets=len(evaluated),
            nodes=self._work,
        )

    # --- evaluating ---------------------------------------------------------------------------

    def _evaluate_queue(self) -> list[CompiledCondition]:
        """Evaluate the marked conditions in topological order, and those that depend on them."""
        evaluated: list[CompiledCondition] = []
        while self._queue:
            plan = self._ranked[heappop(self._queue)]
            before = plan.root.value
            self._evaluate(plan)
            evaluated.append(plan)
            if plan.root.value != before:
                self._mark(self._watching.get((plan.key, "will_be_requested"), ()))
        return evaluated

    def _evaluate(self, plan: CompiledCondition) -> None:
        """Evaluate the marked nodes and their ancestors, each once."""
        dirty, plan.dirty = plan.dirty, []
        heapify(dirty)
        last = -1
        while dirty:
            index = heappop(dirty)
            if index == last:
                continue
            last = index
            node = plan.nodes[index]
            before, node.value = node.value, _VALUES[node.kind](node, self._view)
            self._work += 1
            changed = node.value != before
            if changed:
                _note(node)
            if node.value and not node.children and node.kind in TRANSIENT:
                plan.news = True
            if node.value and node.kind in _ONCE:
                self._again.append(node)
            parent = node.parent
            if parent is not None and (changed or (node.timed and node.value)):
                heappush(dirty, parent.index)

    def _hand_over(self, evaluated: Iterable[CompiledCondition]) -> bool:
        """Report the requests to the next evaluation; return whether there was any news."""
        news = False
        for plan in evaluated:
            news = news or plan.news
            key, value = plan.subject, plan.root.value
            if value != plan.previous:
                plan.previous = value
                self.world.touched[plan.key, "newly_requested"] = None
            if value:
                self._asking[key] = None
            else:
                self._asking.pop(key, None)
        return news

    def _passes_by(self) -> bool:
        """Whether there is news of partitions that do not exist: none later, when they do."""
        told = ((key, self.world.facts[key]) for key in self.world.news)
        early = [key for key, facts in told if facts.updated & ~facts.universe]
        return any((key, aspect) in self._watching for key in early for aspect in NEWS)

    # --- what to look at ----------------------------------------------------------------------

    def _mark(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            plan = node.plan
            if not plan.dirty:
                heappush(self._queue, plan.rank)
            plan.dirty.append(node.index)

    def _pass_time(self, now: datetime) -> None:
        """Apply the partitions and ticks that are due."""
        while self._spaces_due and self._spaces_due[0][0] <= now:
            self._moved[heappop(self._spaces_due)[1]] = None
        moved, self._moved = self._moved, {}
        for key in moved:
            self._span(key, now)
        if self._view.last is None:
            for cron in self._of_cron:
                self._expect(cron, now)
        while self._crons_due and self._crons_due[0][0] <= now:
            cron = heappop(self._crons_due)[1]
            self._view.passed[cron] = Cron(*cron).newest_between(self._view.last or now, now, 1)[-1]
            self._mark(self._of_cron[cron])
            self._expect(cron, now)

    def _span(self, key: str, now: datetime) -> None:
        """Update the existing partitions of an asset."""
        asset = self.graph.assets[key]
        universe = asset.space.universe(now)
        for name in ("", *(check.name for check in asset.checks)):
            self.world.facts[key, name].universe = universe
        self._mark(self._of_asset.get(key, ()))
        due = asset.space.next_change(now)
        if due is not None:
            heappush(self._spaces_due, (due, key))

    def _expect(self, cron: CronKey, after: datetime) -> None:
        due = Cron(*cron).next_after(after)
        if due is not None:
            heappush(self._crons_due, (due, cron))

    # --- setting up ---------------------------------------------------------------------------

    def _add(self, plan: CompiledCondition, state: str | None) -> None:
        if state is not None:
            recall(plan, state, self.graph)
        plan.settled = plan.initial
        if plan.root.value:
            self._asking[plan.subject] = None
        for node in plan.nodes:
            self._watch(node)
        self._mark(plan.nodes)

    def _watch(self, node: Node) -> None:
        """Register what a node depends on."""
        asset = node.key[0]
        for key in {asset: None, **{step.key[0]: None for step in node.steps}}:
            self._of_asset.setdefault(key, []).append(node)
        for about in self._looked_at(node):
            self._watching.setdefault((about, node.kind), []).append(node)
        facts = self.world.facts[asset, ""]
        if node.kind == "cron_tick_passed":
            nodes = self._of_cron.setdefault(cron_of(node), [])
            if not nodes and self._view.last is not None:
                self._expect(cron_of(node), self._view.last)
            nodes.append(node)
        elif node.kind == "executed_with_root_target":
            _ = facts.with_root.setdefault(node.plan.asset.key, 0)
        elif isinstance(node.condition, Operand) and node.kind == "executed_with_tags":
            _ = facts.tagged.setdefault(node.condition, 0)

    def _looked_at(self, node: Node) -> Iterable[SubjectKey]:
        """The assets and checks whose facts a node depends on."""
        whole = (node.key[0], "")
        if node.kind not in OPERANDS:
            return ()
        if node.kind in _OF_ASSETS:
            return (whole,)
        if node.kind == "newly_requested":
            return {whole: None, node.key: None}
        if node.kind == "will_be_requested":
            return [plan.key for plan in before(node, self.plans)]
        return (node.key,)


_OF_ASSETS = frozenset(
    {
        "executed_with_root_target",
        "executed_with_tags",
        "freshness_passed",
        "freshness_warned",
        "freshness_failed",
    }
)


def _note(node: Node) -> None:
    """Note that the state of a condition has to be stored, or its tree recorded.

    A value that ends because it was true for one evaluation only is not recorded, and neither is
    what a process finds out when it starts.
    """
    plan = node.plan
    if node.kind == "since":
        node.text = None
    if node.kind == "since" or node.parent is None:
        plan.changed = plan.moved = True
    elif node.kind in TRANSIENT:
        plan.moved = plan.moved or bool(node.value)
    elif not node.children and plan.settled:
        plan.moved = True
