"""What users see of conditions: when an asset is asked for, and when it is not."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from servo.core import bitmaps
from servo.core.automation.assets import Asset, Check, Dependency, Graph
from servo.core.automation.condition import AutomationCondition, Operand
from servo.core.automation.evaluating import EvaluationOutcome, Evaluator
from servo.core.automation.spaces import EVERYTHING, SAME, UNPARTITIONED, Listed
from servo.errors import Invalid

A = AutomationCondition
START = datetime(2025, 3, 1, 0, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)
EVERY_HOUR = "0 * * * *"
THREE = Listed(3, "three")


class Hours(msgspec.Struct, frozen=True):
    """A partition for every full hour since midnight."""

    fingerprint: str = "hours"

    def _count(self, now: datetime) -> int:
        return (now - START.replace(minute=0)) // HOUR

    def moved(self, fingerprint: str, bits: int) -> int | None:
        return bits if fingerprint == self.fingerprint else None

    def shown(self, bits: int) -> str:
        return bitmaps.to_text(bits)

    def universe(self, now: datetime) -> int:
        return bitmaps.span(0, self._count(now))

    def latest(self, now: datetime, lookback: timedelta | None) -> int:
        count = self._count(now)
        return bitmaps.span(max(count - (1 if lookback is None else lookback // HOUR), 0), count)

    def next_change(self, now: datetime) -> datetime:
        return START.replace(minute=0) + (self._count(now) + 1) * HOUR


class Bench:
    """Assets whose conditions are evaluated every minute."""

    def __init__(self, *assets: Asset, states: Mapping[str, str] | None = None) -> None:
        self.graph = Graph(assets, lambda selection, key: key in selection)
        self.evaluator = Evaluator(self.graph, states=states)
        self.world = self.evaluator.world
        self.now = START
        self.states = dict(states or {})

    def tick(self, minutes: float = 1) -> dict[str, int]:
        """What the next evaluation asks for."""
        return self.full_tick(minutes).requested

    def full_tick(self, minutes: float = 1) -> EvaluationOutcome:
        self.now += timedelta(minutes=minutes)
        tick = self.evaluator.tick(self.now)
        self.states.update(tick.states)
        return tick

    def make(self, asset: str, bits: int = 1, **how: Any) -> None:
        self.now += timedelta(seconds=1)
        self.world.made(asset, bits, self.now, **how)

    def restart(self, *assets: Asset) -> None:
        """A new process with what was remembered; what was made before is told again."""
        made = {key: facts.made for key, facts in self.world.facts.items()}
        last = self.now
        self.graph = Graph(assets or self.graph.assets.values(), lambda sel, key: key in sel)
        self.evaluator = Evaluator(self.graph, states=self.states, last=last)
        self.world = self.evaluator.world
        for (asset, check), bits in made.items():
            if not check:
                self.world.made(asset, bits, last)
        self.evaluator.begin()


def chain(*conditions: AutomationCondition | None, space: Any = UNPARTITIONED) -> list[Asset]:
    """Assets a, b, c … each made from the one before."""
    names = "abcdefgh"
    return [
        Asset(
            key=names[n],
            space=space,
            deps=(Dependency(key=names[n - 1]),) if n else (),
            condition=condition,
        )
        for n, condition in enumerate(conditions)
    ]


def alone(condition: AutomationCondition, **how: Any) -> Bench:
    return Bench(Asset(key="a", condition=condition, **how))


# --- eager ----------------------------------------------------------------------------------------


def test_a_new_condition_asks_for_nothing_that_was_there_before_it() -> None:
    bench = Bench(*chain(None, A.eager(), A.eager()))
    bench.make("a")
    assert [bench.tick(), bench.tick()] == [{}, {}]


def test_a_chain_of_eager_assets_is_asked_for_at_once_and_once() -> None:
    bench = Bench(*chain(None, A.eager(), A.eager(), A.eager()))
    assert bench.tick() == {}
    bench.make("a")
    assert bench.tick() == {"b": 1, "c": 1, "d": 1}
    for key in "bcd":
        bench.world.running(key, 1)
    assert bench.tick() == {}
    for key in "bcd":
        bench.make(key, with_assets="bcd")
        bench.world.running(key, 0)
    assert [bench.tick() for _ in range(3)] == [{}, {}, {}]


def test_eager_waits_for_what_is_missing_or_being_made() -> None:
    two = Asset(key="c", deps=(Dependency(key="a"), Dependency(key="b")), condition=A.eager())
    bench = Bench(two)
    assert bench.tick() == {}
    bench.make("a")
    assert bench.tick() == {}
    bench.make("b")
    bench.world.running("a", 1)
    assert bench.tick() == {}
    bench.world.running("a", 0)
    assert bench.tick() == {"c": 1}


def test_eager_is_asked_for_again_when_it_goes_missing() -> None:
    bench = Bench(*chain(None, A.eager()))
    bench.make("a")
    bench.make("b")
    assert bench.tick() == {}
    bench.world.wiped("b", 1)
    assert bench.tick() == {"b": 1}


def test_what_another_run_made_meanwhile_is_not_lost() -> None:
    bench = Bench(*chain(None, A.eager()))
    bench.tick()
    bench.make("b")
    bench.make("a")
    assert bench.tick() == {"b": 1}
    bench.world.running("b", 1)
    assert bench.tick() == {}
    bench.make("a")
    bench.make("b", with_assets="b")
    bench.world.running("b", 0)
    assert bench.tick() == {}


def test_eager_takes_the_latest_partition_only() -> None:
    bench = Bench(*chain(None, A.eager(), space=Hours()))
    bench.now = START + 3 * HOUR
    bench.make("a", 0b11)
    bench.make("b", 0b11)
    assert bench.tick() == {}
    bench.make("a", 0b111)
    assert bench.tick() == {"b": 0b100}


def test_a_partition_that_comes_is_asked_for_when_what_it_needs_is_there() -> None:
    bench = Bench(*chain(None, A.eager(), space=Hours()))
    assert bench.tick() == {}
    assert bench.evaluator.next_due() == START.replace(hour=1, minute=0)
    assert bench.tick(45) == {}
    bench.make("a", 0b1)
    assert bench.tick() == {"b": 0b1}
    assert bench.tick(60) == {}


def test_what_one_run_cannot_make_is_asked_for_after_it_was_made() -> None:
    for together in (True, False):
        day = Asset(key="a", space=THREE, condition=A.execution_failed())
        dep = Dependency(key="a", mapping=EVERYTHING, together=together)
        bench = Bench(day, Asset(key="b", deps=(dep,), condition=A.eager()))
        bench.make("a", 0b111)
        assert bench.tick() == {}
        bench.world.failed("a", 0b10)
        assert bench.tick() == ({"a": 0b10, "b": 1} if together else {"a": 0b10})
        bench.make("a", 0b10, with_assets=("a", "b") if together else ("a",))
        assert bench.tick() == ({} if together else {"b": 1})


def test_what_is_allowed_or_ignored_twice_adds_up() -> None:
    deps = tuple(Dependency(key=key) for key in "abc")
    some = A.any_deps_match(A.newly_updated())
    chosen = some.allow(("a",)).allow(("b",)).allow(("b",))
    quiet = some.ignore(("a",)).ignore(("b",)).ignore(("a",))
    assert str(chosen) == "any_deps_match(newly_updated()).allow(('a',) | ('b',))"
    bench = Bench(
        Asset(key="d", deps=deps, condition=chosen), Asset(key="e", deps=deps, condition=quiet)
    )
    _ = bench.tick()
    found: dict[str, list[str]] = {}
    for key in "abc":
        bench.make(key)
        found[key] = sorted(bench.tick())
    assert found == {"a": ["d"], "b": ["d"], "c": ["e"]}


def test_dependencies_that_are_ignored_do_not_count() -> None:
    deps = (Dependency(key="a"), Dependency(key="b"))
    quiet = Asset(key="c", deps=deps, condition=A.eager().ignore(("a",)))
    chosen = Asset(key="d", deps=deps, condition=A.eager().allow(("a",)))
    bench = Bench(quiet, chosen)
    bench.tick()
    bench.make("a")
    assert bench.tick() == {"d": 1}
    bench.make("b")
    assert bench.tick() == {"c": 1}


# --- on_cron and on_missing -----------------------------------------------------------------------


def test_on_cron_asks_once_a_tick_when_everything_it_needs_is_newer() -> None:
    bench = Bench(*chain(None, A.on_cron(EVERY_HOUR)))
    bench.make("a")
    assert bench.tick() == {}
    assert bench.tick(30) == {}
    bench.make("a")
    assert bench.tick() == {"b": 1}
    bench.make("b")
    bench.make("a")
    assert [bench.tick(), bench.tick()] == [{}, {}]
    assert bench.tick(60) == {}
    bench.make("a")
    assert bench.tick() == {"b": 1}


def test_on_cron_of_what_needs_nothing_is_asked_for_at_the_tick() -> None:
    bench = alone(A.on_cron(EVERY_HOUR))
    assert bench.evaluator.next_due() is None
    assert [bench.tick(), bench.tick(30), bench.tick(), bench.tick(180)] == [
        {},
        {"a": 1},
        {},
        {"a": 1},
    ]
    assert bench.evaluator.next_due() == START.replace(hour=5, minute=0)


def test_on_missing_asks_for_what_goes_missing_and_not_for_what_was() -> None:
    bench = Bench(*chain(None, A.on_missing(), space=Hours()))
    bench.now += HOUR
    assert bench.tick() == {}
    bench.make("a", 0b111)
    assert bench.tick() == {}
    assert bench.tick(60) == {"b": 0b10}
    assert bench.tick() == {}


# --- facts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "tell", "untell"),
    [
        (A.in_progress(), ("running", 1), ("running", 0)),
        (A.run_in_progress(), ("running", 1), ("running", 0)),
        (A.in_progress(), ("backfilling", 1), ("backfilling", 0)),
        (A.backfill_in_progress(), ("backfilling", 1), ("backfilling", 0)),
        (A.freshness_passed(), ("judged", "PASS"), ("judged", "WARN")),
        (A.freshness_warned(), ("judged", "WARN"), ("judged", "FAIL")),
        (A.freshness_failed(), ("judged", "FAIL"), ("judged", "UNKNOWN")),
    ],
)
def test_a_fact_is_true_for_as_long_as_it_is_so(
    condition: AutomationCondition, tell: tuple[str, Any], untell: tuple[str, Any]
) -> None:
    bench = alone(condition)
    assert bench.tick() == {}
    getattr(bench.world, tell[0])("a", tell[1])
    getattr(bench.world, tell[0])("a", tell[1])
    assert [bench.tick(), bench.tick()] == [{"a": 1}, {"a": 1}]
    getattr(bench.world, untell[0])("a", untell[1])
    assert [bench.tick(), bench.tick()] == [{}, {}]


def test_an_attempt_that_failed_is_over_when_one_succeeded_and_not_when_data_is_wiped() -> None:
    bench = alone(A.execution_failed())
    assert bench.tick() == {}
    bench.world.failed("a", 1)
    assert [bench.tick(), bench.tick()] == [{"a": 1}, {"a": 1}]
    bench.world.wiped("a", 1)
    assert bench.tick() == {"a": 1}
    bench.world.made("a", 1, bench.now)
    assert [bench.tick(), bench.tick()] == [{}, {}]


def test_what_is_new_is_so_for_one_evaluation() -> None:
    bench = alone(A.newly_updated())
    bench.make("a")
    assert bench.tick() == {}
    bench.make("a")
    assert [bench.tick(), bench.tick()] == [{"a": 1}, {}]
    changed = alone(A.data_version_changed())
    changed.tick()
    changed.make("a", same_data=1)
    assert changed.tick() == {}
    changed.make("a")
    assert [changed.tick(), changed.tick()] == [{"a": 1}, {}]


def test_what_was_asked_for_is_known_at_the_next_evaluation() -> None:
    seen = Asset(key="z", condition=A.asset_matches("a", A.newly_requested()))
    bench = Bench(Asset(key="a", condition=A.newly_updated()), seen)
    bench.tick()
    bench.make("a")
    assert [bench.tick(), bench.tick(), bench.tick()] == [{"a": 1}, {"z": 1}, {}]


def test_what_comes_later_in_the_graph_is_not_known_to_be_asked_for() -> None:
    early = Asset(key="a", condition=A.asset_matches("b", A.will_be_requested()))
    later = Asset(key="b", deps=(Dependency(key="a"),), condition=A.newly_updated())
    bench = Bench(early, later)
    bench.tick()
    bench.make("b")
    assert [bench.tick(), bench.tick()] == [{"b": 1}, {}]


def test_the_first_evaluation_is_the_first_once() -> None:
    bench = alone(A.initial_evaluation())
    assert [bench.tick(), bench.tick()] == [{"a": 1}, {}]


def test_a_new_version_of_the_code_is_seen_once_after_a_restart() -> None:
    asset = Asset(key="a", condition=A.code_version_changed(), code_version="1")
    bench = Bench(asset)
    assert [bench.tick(), bench.tick()] == [{}, {}]
    bench.restart()
    assert bench.tick() == {}
    bench.restart(msgspec.structs.replace(asset, code_version="2"))
    assert [bench.tick(), bench.tick()] == [{"a": 1}, {}]
    bench.restart()
    assert bench.tick() == {}


def test_runs_are_told_apart_by_their_assets_and_tags() -> None:
    tagged = A.executed_with_tags(tag_keys=["team"], tag_values={"kind": "nightly"})
    condition = A.any_deps_match(A.executed_with_root_target()).with_label("with") | tagged
    bench = Bench(*chain(None, condition))
    assert bench.tick() == {}
    bench.make("a", with_assets=("a", "b"))
    assert bench.tick() == {"b": 1}
    bench.make("a", with_assets=("a",))
    assert bench.tick() == {}
    bench.make("b", tags={"team": "x", "kind": "nightly"})
    assert bench.tick() == {"b": 1}
    bench.make("b", tags={"team": "x", "kind": "hourly"})
    assert bench.tick() == {}
    bench.make("b", tags={"kind": "nightly"})
    assert bench.tick() == {}


def test_a_window_of_time_can_reach_back() -> None:
    bench = alone(A.in_latest_time_window(2 * HOUR), space=Hours())
    bench.now += 4 * HOUR
    assert bench.tick() == {"a": 0b1100}
    assert alone(A.in_latest_time_window()).tick() == {"a": 1}


def test_checks_count_for_the_data_they_were_made_of() -> None:
    checks = (Check(name="x", blocking=True), Check(name="y"))
    asset = Asset(key="a", space=THREE, checks=checks, condition=None)
    below = Asset(
        key="b",
        space=THREE,
        deps=(Dependency(key="a"),),
        condition=A.all_deps_blocking_checks_passed() & A.any_deps_match(A.newly_updated()),
    )
    failing = Asset(
        key="c",
        space=THREE,
        deps=(Dependency(key="a"),),
        condition=A.any_deps_match(A.any_checks_match(A.check_failed())),
    )
    bench = Bench(asset, below, failing)
    bench.tick()
    bench.make("a", 0b11)
    bench.world.checked("a", "x", bench.now, passed=0b1, failed=0b10)
    bench.world.checked("a", "y", bench.now, failed=0b1)
    assert bench.tick() == {"b": 0b1, "c": 0b11}
    bench.make("a", 0b10)
    assert bench.tick() == {"c": 0b1}
    bench.world.wiped("a", 0b1)
    assert bench.tick() == {}


def test_facts_of_checks_are_those_of_their_asset() -> None:
    condition = A.all_checks_match(A.missing() & A.in_progress())
    bench = alone(condition, checks=(Check(name="x"),))
    assert bench.tick() == {}
    bench.world.running("a", 1)
    assert bench.tick() == {"a": 1}


def test_a_check_depends_on_its_asset_and_on_what_it_looks_at_besides() -> None:
    own = A.any_checks_match(A.any_deps_match(A.missing()))
    bench = alone(own, checks=(Check(name="x"),), deps=(Dependency(key="z"),))
    assert bench.tick() == {"a": 1}
    bench.make("a")
    assert bench.tick() == {}
    besides = Check(name="x", deps=(Dependency(key="z"),))
    bench = alone(own, checks=(besides,))
    bench.make("a")
    assert bench.tick() == {"a": 1}
    assert (
        alone(A.any_checks_match(A.any_checks_match(A.missing())), checks=(besides,)).tick() == {}
    )


# --- what is around -------------------------------------------------------------------------------


def test_any_downstream_conditions_are_those_of_everything_below() -> None:
    bench = Bench(
        *chain(A.any_downstream_conditions(), None, A.on_cron(EVERY_HOUR), A.on_cron(EVERY_HOUR))
    )
    assert bench.tick() == {}
    assert bench.tick(30)["a"] == 1


def test_conditions_that_ask_for_each_other_end() -> None:
    both = A.any_downstream_conditions() | A.newly_updated()
    bench = Bench(*chain(both, both, A.missing()))
    assert bench.tick() == {"a": 1, "b": 1, "c": 1}


def test_another_asset_is_asked_by_key_whichever_way_it_lies() -> None:
    up = Asset(key="a", space=THREE, condition=A.asset_matches("b", A.newly_updated()))
    down = Asset(
        key="b",
        space=THREE,
        deps=(Dependency(key="a", mapping=SAME),),
        condition=A.asset_matches("a", A.newly_updated()),
    )
    other = Asset(key="c", space=THREE, condition=A.asset_matches("a", A.newly_updated()))
    whole = Asset(key="d", condition=A.asset_matches("a", A.newly_updated()))
    bench = Bench(up, down, other, whole)
    bench.tick()
    bench.make("a", 0b10)
    bench.make("b", 0b100)
    assert bench.tick() == {"a": 0b100, "b": 0b10, "c": 0b10, "d": 1}


def test_from_one_asset_to_all_partitions_of_another() -> None:
    one = Asset(key="a")
    many = Asset(
        key="b",
        space=THREE,
        deps=(Dependency(key="a", mapping=EVERYTHING),),
        condition=A.any_deps_match(A.newly_updated()),
    )
    above = Asset(key="c", condition=A.asset_matches("d", A.newly_updated()))
    below = Asset(key="d", space=THREE, deps=(Dependency(key="c", mapping=EVERYTHING),))
    bench = Bench(one, many, above, below)
    assert bench.tick() == {}
    bench.make("a")
    bench.make("d", 0b1)
    assert bench.tick() == {"b": 0b111, "c": 1}


def test_an_asset_that_is_not_there_is_told() -> None:
    with pytest.raises(Invalid, match="refers to nobody, which is not an asset"):
        _ = alone(A.asset_matches("nobody", A.missing()))


def test_a_condition_of_no_known_kind_is_told() -> None:
    with pytest.raises(Invalid, match="not a condition that Servo can evaluate"):
        _ = alone(A(label="mine"))


def test_a_self_dependency_waits_for_the_partition_before() -> None:
    class Before(msgspec.Struct, frozen=True):
        def downstream(self, bits: int, universes: tuple[int, int]) -> int:
            return bits << 1 & universes[1]

        def upstream(self, bits: int, universes: tuple[int, int]) -> int:
            return bits >> 1 & universes[0]

    dep = Dependency(key="a", mapping=Before(), together=False)
    bench = alone(A.missing() & ~A.any_deps_missing(), space=THREE, deps=(dep,))
    assert bench.tick() == {"a": 0b1}
    bench.make("a", 0b1)
    assert bench.tick() == {"a": 0b10}


# --- memory ---------------------------------------------------------------------------------------


def test_newly_true_and_since_remember_over_a_restart() -> None:
    bench = Bench(*chain(None, A.eager()))
    bench.tick()
    bench.make("a")
    bench.world.running("b", 1)
    assert bench.tick() == {}
    bench.restart()
    assert [bench.tick(), bench.tick()] == [{"b": 1}, {}]
    bench.restart()
    assert bench.tick() == {}


def test_what_was_asked_for_before_a_restart_is_known_after_it() -> None:
    bench = Bench(*chain(None, A.eager()))
    bench.tick()
    bench.make("a")
    assert bench.tick() == {"b": 1}
    bench.restart()
    assert bench.tick() == {}


def test_a_tick_of_a_cron_that_passed_while_nobody_looked_counts_once() -> None:
    bench = Bench(*chain(A.on_cron(EVERY_HOUR)))
    bench.tick()
    bench.restart()
    assert [bench.tick(180), bench.tick()] == [{"a": 1}, {}]


def test_news_that_changed_nothing_is_durable_all_the_same() -> None:
    bench = alone(A.newly_updated() & A.in_progress())
    assert bench.full_tick().durable
    bench.make("a")
    news = bench.full_tick()
    assert (news.requested, news.states, news.durable) == ({}, {}, True)
    assert not bench.full_tick().durable
    bench.world.running("a", 1)
    assert bench.full_tick().requested == {}


def test_an_edited_condition_keeps_what_is_known_and_asks_for_nothing_new() -> None:
    bench = Bench(*chain(None, A.eager()))
    bench.make("a")
    bench.tick()
    bench.make("a")
    bench.world.running("b", 1)
    bench.tick()
    edited = A.eager().with_label("mine") & ~A.execution_failed()
    bench.restart(*chain(None, edited))
    assert bench.tick() == {"b": 1}
    bench.restart(*chain(None, edited | A.missing().newly_true()))
    assert bench.tick() == {}


def test_other_partitions_begin_anew() -> None:
    bench = alone(A.missing().newly_true() & ~A.initial_evaluation(), space=THREE)
    bench.tick()
    bench.restart(
        Asset(
            key="a",
            space=Listed(4, "four"),
            condition=A.missing().newly_true() & A.initial_evaluation(),
        )
    )
    assert bench.tick() == {"a": 0b1111}


def test_time_does_not_go_back() -> None:
    bench = alone(A.on_cron(EVERY_HOUR))
    bench.tick()
    first = bench.full_tick(60)
    assert first.requested == {"a": 1}
    assert bench.full_tick(-60).at == first.at


def test_of_two_things_seen_at_once_the_later_counts() -> None:
    updated, tick = A.newly_updated(), A.cron_tick_passed(EVERY_HOUR)
    for condition in (updated.since(tick), updated.since(A.missing()).since(tick)):
        for minute, wanted in ((58, {}), (2, {"a": 1})):
            bench = alone(condition)
            bench.tick()
            hour = 0 if minute == 58 else 1
            bench.world.made("a", 1, START.replace(hour=hour, minute=minute))
            assert bench.tick(45) == wanted


def test_an_update_after_a_request_is_not_taken_for_handled() -> None:
    bench = Bench(*chain(None, A.any_deps_updated().since_last_handled()))
    bench.tick()
    bench.make("a")
    assert bench.tick() == {"b": 1}
    bench.make("a")
    assert [bench.tick(), bench.tick()] == [{"b": 1}, {}]


def test_conditions_of_checks_and_of_other_assets_are_remembered_apart() -> None:
    checks = (Check(name="x"),)
    other = A.asset_matches("z", A.newly_updated()).since_last_handled()
    bench = Bench(
        Asset(
            key="a",
            checks=checks,
            condition=A.all_checks_match(A.check_passed()).newly_true() | other,
        ),
        Asset(key="z"),
    )
    bench.tick()
    bench.world.checked("a", "x", bench.now, passed=1)
    assert [bench.tick(), bench.tick()] == [{"a": 1}, {}]
    bench.make("z")
    assert [bench.tick(), bench.tick()] == [{"a": 1}, {}]


def test_the_last_tick_of_a_cron_is_the_last() -> None:
    bench = alone(A.on_cron("@yearly"))
    bench.now = datetime(9899, 12, 31, tzinfo=UTC)
    assert [bench.tick(), bench.tick(24 * 60)] == [{}, {"a": 1}]
    assert bench.evaluator.next_due() is None


def test_what_is_made_at_the_same_instant_is_all_new() -> None:
    bench = alone(A.newly_updated().since(A.newly_updated()), space=THREE)
    bench.tick()
    for bits in (0b1, 0b10):
        bench.world.made("a", bits, bench.now)
    assert bench.evaluator.world.facts["a", ""].updates == [(bench.now, 0b11)]
    assert bench.tick() == {}


def test_partitions_that_come_and_go_are_seen() -> None:
    class Growing(msgspec.Struct):
        count: int = 1
        fingerprint: str = "dynamic"

        def universe(self, now: datetime) -> int:
            del now
            return bitmaps.span(0, self.count)

        def latest(self, now: datetime, lookback: timedelta | None) -> int:
            del lookback
            return self.universe(now)

        def next_change(self, now: datetime) -> datetime:
            return now + timedelta(seconds=1)

    space = Growing()
    bench = alone(A.on_missing(), space=space)
    assert bench.tick() == {}
    space.count = 3
    assert bench.tick() == {"a": 0b110}
    space.count = 2
    assert bench.tick() == {}


def test_replace_finds_a_fact_by_its_name() -> None:
    changed = A.eager().replace("in_progress", A.run_in_progress())
    assert "run_in_progress()" in [str(part.children()[0]) for part in changed.children()[-1:]]
    assert Operand(name="x").replace("x", A.missing()) == A.missing()
