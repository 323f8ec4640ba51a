"""Evaluating what changed gives what evaluating everything gives.

`Reference` is a second, slow evaluation: sets instead of bitmaps, everything from the whole history
at every tick, state by the place in the tree. Graphs, conditions and histories are random, and so
is when the process is replaced by another that has only what was made durable.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from servo.core import bitmaps
from servo.core.automation.assets import Asset, Check, Dependency, Graph, subject
from servo.core.automation.compiling import Node
from servo.core.automation.condition import (
    And,
    AssetMatches,
    AutomationCondition,
    Checks,
    Deps,
    NewlyTrue,
    Not,
    Operand,
    Or,
    Since,
)
from servo.core.automation.evaluating import EvaluationOutcome, Evaluator
from servo.core.automation.spaces import EVERYTHING, SAME, UNPARTITIONED, Listed, Universes
from servo.core.cron import Cron
from servo.core.keys import AssetKey

A = AutomationCondition
START = datetime(2025, 3, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
WINDOW = 10 * MINUTE
CRONS = ("*/5 * * * *", "*/20 * * * *")

Key = tuple[str, str]
When = dict[int, datetime]


class Growing(msgspec.Struct, frozen=True):
    """A partition for every ten minutes, and only the newest six."""

    fingerprint: str = "growing"

    def _last(self, now: datetime) -> int:
        return (now - START) // WINDOW + 3

    def moved(self, fingerprint: str, bits: int) -> int | None:
        return bits if fingerprint == self.fingerprint else None

    def shown(self, bits: int) -> str:
        return bitmaps.to_text(bits)

    def universe(self, now: datetime) -> int:
        last = self._last(now)
        return bitmaps.span(max(last - 6, 0), last)

    def latest(self, now: datetime, lookback: timedelta | None) -> int:
        last = self._last(now)
        return bitmaps.span(max(last - (1 if lookback is None else lookback // WINDOW), 0), last)

    def next_change(self, now: datetime) -> datetime:
        return START + ((now - START) // WINDOW + 1) * WINDOW


class Shifted(msgspec.Struct, frozen=True):
    """Each from the one before it."""

    def downstream(self, bits: int, universes: Universes) -> int:
        return (bits & universes[0]) << 1 & universes[1]

    def upstream(self, bits: int, universes: Universes) -> int:
        return (bits & universes[1]) >> 1 & universes[0]


SPACES = (UNPARTITIONED, Listed(3, "three"), Growing())


class Happened(msgspec.Struct, frozen=True):
    """Something that is told: how, of which asset, of which partitions, when, and the rest."""

    what: str
    asset: str
    bits: int
    at: datetime
    rest: tuple[Any, ...] = ()

    def tell(self, evaluator: Evaluator) -> None:
        world = evaluator.world
        match self.what:
            case "made":
                others, tagged, same = self.rest
                tags = {"team": "a"} if tagged else {}
                world.made(
                    self.asset,
                    self.bits,
                    self.at,
                    with_assets=others,
                    tags=tags,
                    same_data=self.bits if same else 0,
                )
            case "checked":
                check, passed = self.rest
                given = {"passed": self.bits} if passed else {"failed": self.bits}
                world.checked(self.asset, check, self.at, **given)
            case "looking":
                world.running(self.asset, self.bits, check="x")
            case "judged":
                world.judged(self.asset, self.rest[0])
            case _:
                getattr(world, self.what)(self.asset, self.bits)


# --- the reference --------------------------------------------------------------------------------


class Reference:
    """Everything from the beginning, at every tick."""

    def __init__(self) -> None:
        self.memory: dict[tuple[Any, ...], Any] = {}
        self.seen: set[str] = set()
        self.requested: dict[str, set[int]] = {}
        self.last: datetime | None = None

    def tick(
        self, graph: Graph, history: list[Happened], news: int, now: datetime
    ) -> dict[str, int]:
        self.graph, self.history, self.news, self.now = graph, history, news, now
        self.before, self.asked = self.requested, dict[str, set[int]]()
        self.values: dict[tuple[Any, ...], int] = {}
        for key, condition in self.roots():
            self.root, self.name = key[0], subject(key)
            found, _ = self.value(condition, key, (self.name,), together=True, above=())
            self.asked[self.name] = found
        self.seen |= set(self.asked)
        self.requested, self.last = self.asked, now
        return {key: bitmaps.bitmap(found) for key, found in self.asked.items() if found}

    def roots(self) -> Iterator[tuple[Key, AutomationCondition]]:
        for name in self.graph.order:
            asset = self.graph.assets[name]
            if asset.condition is not None:
                yield (name, ""), asset.condition
            for check in asset.checks:
                if check.condition is not None:
                    yield (name, check.name), check.condition

    @property
    def initial(self) -> bool:
        return self.name not in self.seen

    def universe(self, key: str) -> set[int]:
        return set(bitmaps.numbers(self.graph.assets[key].space.universe(self.now)))

    def value(
        self,
        condition: AutomationCondition,
        key: Key,
        path: tuple[Any, ...],
        *,
        together: bool,
        above: tuple[Any, ...],
    ) -> tuple[set[int], When]:
        found, when = self.judge(condition, key, path, together=together, above=above)
        self.values[path] = bitmaps.bitmap(found)
        return found, when

    def judge(  # noqa: PLR0911 - one for each kind
        self,
        condition: AutomationCondition,
        key: Key,
        path: tuple[Any, ...],
        *,
        together: bool,
        above: tuple[Any, ...],
    ) -> tuple[set[int], When]:
        there = self.universe(key[0])

        def below(child: AutomationCondition, index: int) -> tuple[set[int], When]:
            return self.value(child, key, (*path, index), together=together, above=above)

        match condition:
            case And() | Or():
                parts = [below(child, n) for n, child in enumerate(condition.operands)]
                sets: list[set[int]] = [part[0] for part in parts]
                whole = isinstance(condition, And)
                found = there.intersection(*sets) if whole else set[int]().union(*sets)
                return _at(found, *(part[1] for part in parts))
            case Not():
                return there - below(condition.operand, 0)[0], {}
            case NewlyTrue():
                found, when = below(condition.operand, 0)
                old = self.memory.get(path, set())
                self.memory[path] = found
                return _at(found - old, when)
            case Since():
                (trigger, begun), (reset, ended) = (
                    below(condition.trigger, 0),
                    below(condition.reset, 1),
                )
                held = (self.memory.get(path, set()) | trigger) - reset
                held |= {
                    p for p in trigger & reset if p in begun and p in ended and begun[p] > ended[p]
                }
                self.memory[path] = held & there
                return _at(held & there, begun)
            case Deps() | Checks() | AssetMatches():
                return self.around(condition, key, path, together=together, above=above)
            case Operand() if condition.name == "any_downstream_conditions":
                return self.downstream(key, path, together=together, above=above)
            case Operand():
                return self.fact(condition, key, path, together=together)
            case _:
                raise AssertionError(condition)

    def around(  # noqa: C901, PLR0912 - three kinds of neighbours
        self,
        condition: Any,
        key: Key,
        path: tuple[Any, ...],
        *,
        together: bool,
        above: tuple[Any, ...],
    ) -> tuple[set[int], When]:
        asset = self.graph.assets[key[0]]
        here = asset.space.universe(self.now)
        nodes: list[tuple[Key, Callable[[int], int], bool]] = []

        def along(dep: Dependency) -> Callable[[int], int]:
            there = self.graph.assets[dep.key].space.universe(self.now)
            return lambda bits: dep.mapping.downstream(bits, (there, here))

        def against(dep: Dependency) -> Callable[[int], int]:
            there = self.graph.assets[condition.key.canonical()].space.universe(self.now)
            return lambda bits: dep.mapping.upstream(bits, (here, there))

        match condition:
            case Deps():
                looks = [dep for check in asset.checks for dep in check.deps]
                deps = [Dependency(key=key[0]), *looks] if key[1] else asset.deps
                for dep in sorted(deps, key=lambda dep: dep.key):
                    allowed = condition.allowed is None or dep.key in condition.allowed
                    if allowed and dep.key not in (condition.ignored or ()):
                        nodes.append(((dep.key, ""), along(dep), dep.together))
            case Checks() if not key[1]:
                nodes = [
                    ((asset.key, check.name), lambda bits: bits, True)
                    for check in asset.checks
                    if check.blocking or not condition.blocking_only
                ]
            case AssetMatches():
                other = self.graph.assets[condition.key.canonical()]
                there = other.space.universe(self.now)
                same = other.space.fingerprint == asset.space.fingerprint
                mapping = SAME if same else EVERYTHING
                nodes = [
                    ((other.key, ""), lambda bits: mapping.downstream(bits, (there, here)), same)
                ]
                for dep in other.deps:
                    if dep.key == asset.key:
                        nodes = [((other.key, ""), against(dep), same)]
                for dep in asset.deps:
                    if dep.key == other.key:
                        nodes = [((other.key, ""), along(dep), dep.together)]
            case _:
                pass
        found = set(bitmaps.numbers(here))
        every = getattr(condition, "every", False)
        result = found if every else set[int]()
        whens: list[When] = []
        for n, (there_key, take, with_it) in enumerate(nodes):
            true, when = self.value(
                condition.operand,
                there_key,
                (*path, n),
                together=together and with_it,
                above=above,
            )
            mapped = set(bitmaps.numbers(take(bitmaps.bitmap(true))))
            result = result & mapped if every else result | mapped
            taken: When = {}
            for p, instant in when.items():
                for q in bitmaps.numbers(take(1 << p)):
                    taken[q] = max(taken.get(q, instant), instant)
            whens.append(taken)
        return _at(result & found, *whens)

    def downstream(
        self, key: Key, path: tuple[Any, ...], *, together: bool, above: tuple[Any, ...]
    ) -> tuple[set[int], When]:
        below: set[str] = set()
        todo = [key[0]]
        while todo:
            current = todo.pop()
            for asset in self.graph.assets.values():
                if asset.key not in below and any(dep.key == current for dep in asset.deps):
                    below.add(asset.key)
                    todo.append(asset.key)
        result, whens, done = set[int](), list[When](), list[AutomationCondition]()
        for name in sorted(below - {key[0]}):
            condition = self.graph.assets[name].condition
            if condition is None or condition in above or condition in done:
                continue
            done.append(condition)
            found, when = self.value(
                condition, key, (*path, len(done) - 1), together=together, above=(*above, condition)
            )
            result |= found
            whens.append(when)
        return _at(result, *whens)

    # --- facts --------------------------------------------------------------------------------

    def fact(
        self, operand: Operand, key: Key, path: tuple[Any, ...], *, together: bool
    ) -> tuple[set[int], When]:
        there = self.universe(key[0])
        found, when = self.leaf(operand, key, path, together=together)
        return _at(found & there, when)

    def leaf(  # noqa: C901, PLR0911, PLR0912 - one line for each
        self, operand: Operand, key: Key, path: tuple[Any, ...], *, together: bool
    ) -> tuple[set[int], When]:
        there, arguments = self.universe(key[0]), dict(operand.arguments)
        asset = self.graph.assets[key[0]]
        match operand.name:
            case "missing":
                states = self.checks(key) if key[1] else self.last_made(key[0])
                return there - set(states), {}
            case "in_progress":
                return self.running(key) | self.set_to("backfilling", key[0]), {}
            case "run_in_progress":
                return self.running(key), {}
            case "backfill_in_progress":
                return self.set_to("backfilling", key[0]), {}
            case "execution_failed":
                return (set() if key[1] else self.failures(key[0])), {}
            case "newly_updated":
                return (set(), {}) if self.initial else self.updates(key)
            case "data_version_changed":
                if self.initial or key[1]:
                    return set(), {}
                new = [h for h in self.recent("made", key[0]) if not h.rest[2]]
                return {p for h in new for p in bitmaps.numbers(h.bits)}, {}
            case "code_version_changed":
                old = self.memory.get(path)
                self.memory[path] = asset.code_version
                return (there if old not in (None, asset.code_version) else set()), {}
            case "newly_requested":
                found = self.before.get(key[0], set()) | self.before.get(subject(key), set())
                return found, dict.fromkeys(found, self.last) if self.last else {}
            case "will_be_requested":
                found = self.asked.get(key[0], set()) | self.asked.get(subject(key), set())
                return (found if together else set()), {}
            case "initial_evaluation":
                return (there if self.initial else set()), {}
            case "executed_with_root_target":
                made = self.last_made(key[0])
                return {p for p, h in made.items() if self.root in h.rest[0]}, {}
            case "executed_with_tags":
                return {p for p, h in self.last_made(key[0]).items() if h.rest[1]}, {}
            case "cron_tick_passed":
                cron = Cron(arguments["cron_schedule"])
                if self.initial or self.last is None:
                    return set(), {}
                ticks = cron.ticks_between(self.last, self.now, 10_000)
                return (there, dict.fromkeys(there, ticks[-1])) if ticks else (set(), {})
            case "in_latest_time_window":
                seconds = arguments.get("lookback_delta")
                lookback = None if seconds is None else timedelta(seconds=seconds)
                return set(bitmaps.numbers(asset.space.latest(self.now, lookback))), {}
            case "check_passed":
                return {p for p, passed in self.checks(key).items() if passed}, {}
            case "check_failed":
                return {p for p, passed in self.checks(key).items() if not passed}, {}
            case name:
                wanted = {
                    "freshness_passed": "PASS",
                    "freshness_warned": "WARN",
                    "freshness_failed": "FAIL",
                }[name]
                judged = [
                    h.rest[0] for h in self.history if (h.what, h.asset) == ("judged", key[0])
                ]
                return (there if judged and judged[-1] == wanted else set()), {}

    def recent(self, what: str, asset: str) -> list[Happened]:
        return [h for h in self.history[self.news :] if (h.what, h.asset) == (what, asset)]

    def updates(self, key: Key) -> tuple[set[int], When]:
        new = self.recent("checked" if key[1] else "made", key[0])
        when: When = {}
        for happened in new:
            if not key[1] or happened.rest[0] == key[1]:
                for p in bitmaps.numbers(happened.bits):
                    when[p] = max(when.get(p, happened.at), happened.at)
        return set(when), when

    def last_made(self, asset: str) -> dict[int, Happened]:
        found: dict[int, Happened] = {}
        for happened in self.history:
            if happened.asset == asset and happened.what in ("made", "wiped"):
                for p in bitmaps.numbers(happened.bits):
                    _ = found.pop(p, None)
                    if happened.what == "made":
                        found[p] = happened
        return found

    def failures(self, asset: str) -> set[int]:
        found: set[int] = set()
        for happened in self.history:
            if happened.asset == asset and happened.what in ("made", "failed"):
                bits = set(bitmaps.numbers(happened.bits))
                found = found | bits if happened.what == "failed" else found - bits
        return found

    def running(self, key: Key) -> set[int]:
        alone = self.set_to("looking", key[0]) if key[1] else set[int]()
        return self.set_to("running", key[0]) | alone

    def set_to(self, what: str, asset: str) -> set[int]:
        told = [h.bits for h in self.history if (h.what, h.asset) == (what, asset)]
        return set(bitmaps.numbers(told[-1])) if told else set()

    def checks(self, key: Key) -> dict[int, bool]:
        found: dict[int, bool] = {}
        for happened in self.history:
            if happened.asset != key[0] or happened.what not in ("made", "wiped", "checked"):
                continue
            if happened.what == "checked" and happened.rest[0] != key[1]:
                continue
            for p in bitmaps.numbers(happened.bits):
                _ = found.pop(p, None)
                if happened.what == "checked":
                    found[p] = happened.rest[1]
        return found


def _at(found: set[int], *whens: When) -> tuple[set[int], When]:
    when: When = {}
    for told in whens:
        for p, instant in told.items():
            if p in found:
                when[p] = max(when.get(p, instant), instant)
    return set(found), when


# --- what is drawn --------------------------------------------------------------------------------

NAMES = ("a", "b", "c")

LEAVES = (
    A.missing(),
    A.in_progress(),
    A.run_in_progress(),
    A.backfill_in_progress(),
    A.execution_failed(),
    A.newly_updated(),
    A.newly_updated(),
    A.newly_requested(),
    A.newly_missing(),
    A.code_version_changed(),
    A.data_version_changed(),
    A.will_be_requested(),
    A.initial_evaluation(),
    A.executed_with_root_target(),
    A.executed_with_tags(tag_keys=["team"]),
    A.executed_with_tags(tag_values={"team": "a"}),
    A.cron_tick_passed(CRONS[0]),
    A.cron_tick_passed(CRONS[1]),
    A.in_latest_time_window(),
    A.in_latest_time_window(timedelta(minutes=20)),
    A.check_passed(),
    A.check_failed(),
    A.freshness_passed(),
    A.freshness_warned(),
    A.freshness_failed(),
    A.any_downstream_conditions(),
    A.any_deps_updated(),
    A.any_deps_missing(),
    A.any_deps_in_progress(),
    A.all_deps_updated_since_cron(CRONS[0]),
    A.all_deps_blocking_checks_passed(),
    A.eager(),
    A.on_cron(CRONS[0]),
    A.on_missing(),
    A.eager().ignore(("a",)),
    A.eager().allow(("a", "c")),
)


def _joined(
    inner: st.SearchStrategy[AutomationCondition],
) -> st.SearchStrategy[AutomationCondition]:
    return st.one_of(
        st.tuples(inner, inner).map(lambda pair: pair[0] & pair[1]),
        st.tuples(inner, inner).map(lambda pair: pair[0] | pair[1]),
        inner.map(lambda one: ~one),
        inner.map(lambda one: one.newly_true()),
        inner.map(lambda one: one.since_last_handled()),
        st.tuples(inner, inner).map(lambda pair: pair[0].since(pair[1])),
        inner.map(A.any_deps_match),
        inner.map(A.all_deps_match),
        st.tuples(inner, st.booleans()).map(
            lambda pair: A.any_checks_match(pair[0], blocking_only=pair[1])
        ),
        inner.map(A.all_checks_match),
        st.tuples(st.sampled_from(NAMES), inner).map(
            lambda pair: A.asset_matches(AssetKey([pair[0]]), pair[1])
        ),
    )


CONDITIONS = st.recursive(st.sampled_from(LEAVES), _joined, max_leaves=5)


@st.composite
def checks_of(draw: st.DrawFn, deps: list[Dependency]) -> Check:
    return Check(
        name="x",
        blocking=draw(st.booleans()),
        condition=draw(st.none() | CONDITIONS),
        deps=tuple(deps[:1]) if draw(st.booleans()) else (),
    )


@st.composite
def graphs(draw: st.DrawFn) -> list[Asset]:
    spaces = {name: draw(st.sampled_from(SPACES)) for name in NAMES}
    assets: list[Asset] = []
    for index, name in enumerate(NAMES):
        deps: list[Dependency] = []
        for other in NAMES[:index]:
            if draw(st.booleans()):
                same = spaces[other] == spaces[name]
                mapping = draw(st.sampled_from([SAME, Shifted()])) if same else EVERYTHING
                deps.append(
                    Dependency(key=other, mapping=mapping, together=same and mapping == SAME)
                )
        if draw(st.integers(0, 4)) == 0 and isinstance(spaces[name], Growing):
            deps.append(Dependency(key=name, mapping=Shifted(), together=False))
        checks = [draw(checks_of(deps))] if draw(st.booleans()) else []
        condition = draw(CONDITIONS) if index or draw(st.booleans()) else None
        assets.append(
            Asset(
                key=name,
                space=spaces[name],
                deps=tuple(deps),
                checks=tuple(checks),
                condition=condition,
            )
        )
    return assets


def steps() -> st.SearchStrategy[list[tuple[Any, ...]]]:
    name, bits, flag = st.sampled_from(NAMES), st.integers(1, 255), st.booleans()
    made = st.tuples(
        st.just("made"), name, bits, st.frozensets(st.sampled_from(NAMES), max_size=3), flag, flag
    )
    told = st.sampled_from(["wiped", "failed", "running", "backfilling", "looking"])
    return st.lists(
        st.one_of(
            made,
            made,
            st.tuples(told, name, st.integers(0, 255)),
            st.tuples(st.just("checked"), name, bits, flag),
            st.tuples(st.just("judged"), name, st.sampled_from(["PASS", "WARN", "FAIL", ""])),
            st.tuples(st.just("tick"), st.integers(0, 3)),
            st.tuples(st.just("tick"), st.integers(0, 12)),
            st.tuples(st.just("restart"), name, flag),
        ),
        min_size=8,
        max_size=30,
    )


class Runner:
    """A real evaluator and the reference, side by side."""

    def __init__(self, assets: list[Asset]) -> None:
        self.assets = assets
        self.reference = Reference()
        self.history: list[Happened] = []
        self.now = START
        self.seen = self.kept = 0
        self.states: dict[str, str] = {}
        self.last: datetime | None = None
        self.start()

    def start(self) -> None:
        """Begin as a new process does: with what was made durable, and the facts."""
        self.graph = Graph(self.assets, lambda selection, key: key in selection)
        self.evaluator = Evaluator(self.graph, states=self.states, last=self.last)
        for happened in self.history[: self.kept]:
            happened.tell(self.evaluator)
        self.evaluator.begin()
        for happened in self.history[self.kept :]:
            happened.tell(self.evaluator)

    def step(self, step: tuple[Any, ...]) -> None:
        self.now += timedelta(seconds=7)
        match step:
            case ("tick", minutes):
                self.tick(minutes)
            case ("restart", name, changes):
                if changes:
                    self.change_code(name)
                self.start()
            case _:
                self.tell(step[0], step[1], list(step[2:]))

    def change_code(self, name: str) -> None:
        self.assets = [
            msgspec.structs.replace(a, code_version=a.code_version + "+") if a.key == name else a
            for a in self.assets
        ]

    def tell(self, what: str, name: str, rest: list[Any]) -> None:
        asset = self.graph.assets[name]
        bits = 0 if what == "judged" else rest.pop(0) & ((1 << 8) - 1)
        if what in ("checked", "looking") and not asset.checks:
            return
        if what == "checked":
            rest = ["x", *rest]
        happened = Happened(what, name, bits, self.now, tuple(rest))
        self.history.append(happened)
        happened.tell(self.evaluator)

    def tick(self, minutes: int) -> EvaluationOutcome:
        self.now += minutes * MINUTE
        tick = self.evaluator.tick(self.now)
        wanted = self.reference.tick(self.graph, self.history, self.seen, self.now)
        assert dict(sorted(tick.requested.items())) == dict(sorted(wanted.items()))
        for key, plan in self.evaluator.plans.items():
            for path, node in _paths(plan.root, (key,)):
                assert node.value == self.reference.values[path], (path, node.condition)
        self.seen = len(self.history)
        if tick.durable:
            self.states.update(tick.states)
            self.last, self.kept = tick.at, self.seen
        return tick


def _paths(node: Node, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Node]]:
    yield path, node
    for n, child in enumerate(node.children):
        yield from _paths(child, (*path, n))


@given(graphs(), steps())
def test_looking_at_what_changed_finds_what_looking_at_everything_finds(
    assets: list[Asset], taken: list[tuple[Any, ...]]
) -> None:
    runner = Runner(assets)
    for step in [("tick", 0), *taken, ("tick", 1), ("tick", 1)]:
        runner.step(step)
