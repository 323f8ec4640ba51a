"""Every condition and operator that people know by name, each with its own meaning.

`m` is the asset whose condition is looked at. It is made from `r` and `s`, and has two checks, of
which one blocks.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from servo.core.automation.assets import Asset, Check, Dependency, Graph
from servo.core.automation.condition import AutomationCondition as A
from servo.core.automation.evaluating import Evaluator
from servo.errors import Invalid

START = datetime(2025, 3, 1, 0, 30, tzinfo=UTC)
HOURLY = "0 * * * *"
MINUTE = timedelta(minutes=1)


class Scene:
    """An asset under a condition; everything was made and evaluated once."""

    def __init__(self, condition: A, *, above: A | None = None, code: str = "") -> None:
        self.now = START
        self.graph = self._graph(condition, above, code)
        self.evaluator = Evaluator(self.graph)
        self.world = self.evaluator.world
        for key in "rsm":
            self.world.made(key, 1, self.now)
        self.first = self.true()

    @staticmethod
    def _graph(condition: A, above: A | None, code: str) -> Graph:
        checks = (Check(name="hard", blocking=True), Check(name="soft"))
        deps = (Dependency(key="r"), Dependency(key="s"))
        raw = Asset(key="r", condition=above, checks=checks)
        own = Asset(key="m", deps=deps, checks=checks, condition=condition, code_version=code)
        return Graph([raw, own], lambda selection, key: key in selection)

    def true(self, minutes: int = 1) -> bool:
        """Whether the next evaluation finds it true."""
        self.now += minutes * MINUTE
        return "m" in self.evaluator.tick(self.now).requested

    def make(self, key: str, **how: Any) -> None:
        self.now += timedelta(seconds=1)
        self.world.made(key, 1, self.now, **how)

    def check(self, asset: str, name: str, *, passed: bool) -> None:
        result = {"passed": 1} if passed else {"failed": 1}
        self.world.checked(asset, name, self.now, **result)


def test_missing() -> None:
    scene = Scene(A.missing())
    assert not scene.first
    scene.world.wiped("m", 1)
    assert [scene.true(), scene.true()] == [True, True]


def test_in_progress() -> None:
    scene = Scene(A.in_progress())
    scene.world.running("m", 1)
    assert scene.true()
    scene.world.running("m", 0)
    scene.world.backfilling("m", 1)
    assert scene.true()
    scene.world.backfilling("m", 0)
    assert not scene.true()


def test_execution_failed() -> None:
    scene = Scene(A.execution_failed())
    scene.world.failed("m", 1)
    assert [scene.true(), scene.true()] == [True, True]
    scene.make("m")
    assert not scene.true()


def test_newly_updated() -> None:
    scene = Scene(A.newly_updated())
    scene.make("m")
    assert [scene.true(), scene.true()] == [True, False]


def test_newly_requested() -> None:
    scene = Scene(A.newly_requested() | A.newly_updated())
    scene.make("m")
    assert scene.true()
    assert [scene.true() for _ in range(3)] == [True] * 3, "each time because of the time before"
    assert not Scene(A.newly_requested()).true()


def test_newly_missing() -> None:
    scene = Scene(A.newly_missing())
    scene.world.wiped("m", 1)
    assert [scene.true(), scene.true()] == [True, False]


def test_code_version_changed() -> None:
    scene = Scene(A.code_version_changed(), code="1")
    states = scene.evaluator.tick(scene.now).states
    assert not states
    stored = Scene(A.code_version_changed(), code="1")
    kept = Evaluator(stored.graph).tick(START).states
    for code, changed in (("1", False), ("2", True)):
        again = Evaluator(Scene(A.code_version_changed(), code=code).graph, states=kept, last=START)
        assert ("m" in again.tick(START + MINUTE).requested) is changed


def test_data_version_changed() -> None:
    scene = Scene(A.data_version_changed())
    scene.make("m", same_data=1)
    assert not scene.true()
    scene.make("m")
    assert [scene.true(), scene.true()] == [True, False]


def test_cron_tick_passed() -> None:
    scene = Scene(A.cron_tick_passed(HOURLY))
    assert [scene.true(28), scene.true(1), scene.true(1)] == [False, True, False]


def test_in_latest_time_window() -> None:
    assert Scene(A.in_latest_time_window()).true(), "always, where there is no time"
    with pytest.raises(Invalid, match="lookback_delta"):
        _ = A.in_latest_time_window(timedelta(0))


def test_will_be_requested() -> None:
    scene = Scene(A.any_deps_match(A.will_be_requested()), above=A.newly_updated())
    assert not scene.true()
    scene.make("r")
    assert [scene.true(), scene.true()] == [True, False]


def test_initial_evaluation() -> None:
    scene = Scene(A.initial_evaluation())
    assert [scene.first, scene.true()] == [True, False]


@pytest.mark.parametrize("passed", [True, False])
def test_check_passed_and_check_failed(passed: bool) -> None:
    one, other = A.check_passed(), A.check_failed()
    wanted, opposite = (one, other) if passed else (other, one)
    scene, contrary = Scene(A.any_checks_match(wanted)), Scene(A.any_checks_match(opposite))
    for each in (scene, contrary):
        each.check("m", "soft", passed=passed)
    assert (scene.true(), contrary.true()) == (True, False)
    scene.make("m")
    assert not scene.true(), "it was a check of older data"


@pytest.mark.parametrize(
    ("condition", "state"),
    [
        (A.freshness_passed(), "PASS"),
        (A.freshness_warned(), "WARN"),
        (A.freshness_failed(), "FAIL"),
    ],
)
def test_freshness(condition: A, state: str) -> None:
    for found in ("PASS", "WARN", "FAIL"):
        scene = Scene(condition)
        scene.world.judged("m", found)
        assert scene.true() is (found == state)


def test_any_deps_match_and_all_deps_match() -> None:
    some, every = Scene(A.any_deps_match(A.missing())), Scene(A.all_deps_match(A.missing()))
    for scene, one, both in ((some, True, True), (every, False, True)):
        assert not scene.true()
        scene.world.wiped("r", 1)
        assert scene.true() is one
        scene.world.wiped("s", 1)
        assert scene.true() is both


def test_any_checks_match_and_all_checks_match() -> None:
    some = Scene(A.any_checks_match(A.check_passed()))
    every = Scene(A.all_checks_match(A.check_passed()))
    hard = Scene(A.all_checks_match(A.check_passed(), blocking_only=True))
    for scene, one, both in ((some, True, True), (every, False, True), (hard, True, True)):
        scene.check("m", "hard", passed=True)
        assert scene.true() is one
        scene.check("m", "soft", passed=True)
        assert scene.true() is both


def test_any_deps_updated() -> None:
    scene = Scene(A.any_deps_updated())
    scene.make("r")
    assert [scene.true(), scene.true()] == [True, False]
    scene.make("r", with_assets={"r", "m"})
    assert not scene.true(), "the run that made it made this one too"


def test_any_deps_missing() -> None:
    scene = Scene(A.any_deps_missing(), above=A.missing())
    scene.world.wiped("r", 1)
    assert not scene.true(), "it will be made now"
    scene.world.wiped("s", 1)
    assert scene.true()


def test_any_deps_in_progress() -> None:
    scene = Scene(A.any_deps_in_progress())
    scene.world.running("m", 1)
    assert not scene.true()
    scene.world.backfilling("s", 1)
    assert scene.true()


def test_all_deps_updated_since_cron() -> None:
    scene = Scene(A.all_deps_updated_since_cron(HOURLY))
    scene.make("r")
    scene.make("s")
    assert scene.true(), "since the tick before the first evaluation, as far as anybody knows"
    assert not scene.true(40), "not since the tick that has passed"
    scene.make("r")
    assert not scene.true()
    scene.make("s")
    assert [scene.true(), scene.true()] == [True, True]


def test_all_deps_blocking_checks_passed() -> None:
    scene = Scene(A.all_deps_blocking_checks_passed())
    assert not scene.true()
    scene.check("r", "soft", passed=True)
    assert not scene.true()
    scene.check("r", "hard", passed=True)
    assert scene.true()
    scene.check("r", "soft", passed=False)
    assert scene.true()
    scene.make("r")
    assert not scene.true()


def test_any_downstream_conditions() -> None:
    graph = [
        Asset(key="r", condition=A.any_downstream_conditions()),
        Asset(key="m", deps=(Dependency(key="r"),), condition=A.missing()),
    ]
    evaluator = Evaluator(Graph(graph, lambda _, __: True))
    assert "r" in evaluator.tick(START).requested, "missing, by the condition of what is below"
    evaluator.world.made("r", 1, START)
    assert "r" not in evaluator.tick(START + MINUTE).requested


def test_since() -> None:
    scene = Scene(A.any_deps_match(A.newly_updated()).since(A.newly_updated()))
    scene.make("r")
    assert [scene.true(), scene.true()] == [True, True]
    scene.make("m")
    assert [scene.true(), scene.true()] == [False, False]


def test_newly_true() -> None:
    scene = Scene(A.in_progress().newly_true())
    for _ in range(2):
        scene.world.running("m", 1)
        assert [scene.true(), scene.true()] == [True, False]
        scene.world.running("m", 0)
        assert not scene.true()


def test_since_last_handled() -> None:
    scene = Scene(A.missing().since_last_handled() & ~A.in_progress())
    assert not scene.first
    scene.world.wiped("m", 1)
    scene.world.running("m", 1)
    assert not scene.true()
    scene.world.running("m", 0)
    assert [scene.true(), scene.true()] == [True, False], "to be asked for is to be handled"


def test_replace_by_value_by_label_and_by_name() -> None:
    one = A.missing() | A.in_progress().with_label("busy")
    assert str(one.replace(A.missing(), A.execution_failed())) == "(execution_failed() | busy)"
    assert str(one.replace("busy", A.missing())) == "(missing() | missing())"
    assert str(one.replace("in_progress", A.newly_updated())) == "(missing() | newly_updated())"
    assert one.replace("nothing of it", A.missing()) == one


def test_allow_and_ignore() -> None:
    allowed = Scene(A.any_deps_match(A.newly_updated()).allow(("r",)))
    ignored = Scene((~A.any_deps_match(A.newly_updated()).ignore(("r",))) & A.newly_updated())
    for scene in (allowed, ignored):
        scene.make("r")
    ignored.make("m")
    assert (allowed.true(), ignored.true()) == (True, True)
    allowed.make("s")
    ignored.make("s")
    ignored.make("m")
    assert (allowed.true(), ignored.true()) == (False, False)
    with pytest.raises(Invalid, match="has no condition on dependencies"):
        _ = A.missing().allow(("r",))


def test_with_label() -> None:
    mine = A.missing().with_label("mine")
    assert (mine.get_label(), str(mine), str(mine & A.missing())) == (
        "mine",
        "mine",
        "(mine & missing())",
    )


def test_and_or_not() -> None:
    for condition, wanted in (
        (A.in_progress() & A.missing(), [False, False, True]),
        (A.in_progress() | A.missing(), [False, True, True]),
        (~A.in_progress(), [True, False, False]),
    ):
        scene = Scene(condition)
        found = [scene.true()]
        scene.world.running("m", 1)
        found.append(scene.true())
        scene.world.wiped("m", 1)
        found.append(scene.true())
        assert found == wanted


def test_eager() -> None:
    scene = Scene(A.eager())
    assert not scene.first
    scene.make("r")
    scene.world.running("s", 1)
    assert not scene.true(), "something it needs is being made"
    scene.world.running("s", 0)
    assert [scene.true(), scene.true()] == [True, False]
    scene.make("m")
    assert not scene.true()


def test_on_cron() -> None:
    scene = Scene(A.on_cron(HOURLY))
    assert not scene.true(40), "nothing it needs was made since the tick"
    scene.make("r")
    assert not scene.true()
    scene.make("s")
    assert [scene.true(), scene.true()] == [True, False]


def test_on_missing() -> None:
    scene = Scene(A.on_missing())
    scene.world.wiped("m", 1)
    scene.world.wiped("r", 1)
    assert not scene.true(), "so is what it needs"
    scene.make("r")
    assert [scene.true(), scene.true()] == [True, False]
