"""Conditions: trees that can be compared, changed and read."""

import pickle
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import servo
from servo.core.keys import AssetKey
from servo.errors import Invalid
from servo.sdk.automation.condition import And, AutomationCondition, Deps, Not, Operand, Or

A = AutomationCondition


def test_operators_make_flat_trees() -> None:
    joined = A.missing() & A.in_progress() & ~A.newly_updated()
    assert isinstance(joined, And)
    assert joined.children() == (A.missing(), A.in_progress(), Not(operand=A.newly_updated()))
    either = A.missing() | A.in_progress() | A.newly_updated()
    assert isinstance(either, Or)
    assert len(either.children()) == 3
    mixed = (A.missing() | A.in_progress()) & A.newly_updated()
    assert repr(mixed) == "((missing() | in_progress()) & newly_updated())"


def test_a_label_keeps_a_group_together() -> None:
    group = (A.missing() & A.in_progress()).with_label("both")
    assert (group & A.newly_updated()).children() == (group, A.newly_updated())
    assert str(group) == group.get_label() == "both"


def test_equal_conditions_are_equal_and_survive_copies() -> None:
    for make in (A.eager, A.on_missing, A.any_downstream_conditions):
        condition = make()
        assert condition == make()
        assert hash(condition) == hash(make())
        assert pickle.loads(pickle.dumps(condition)) == condition
    assert A.on_cron("@daily") != A.on_cron("@daily", "Asia/Tokyo")


def test_eager_says_what_it_is_made_of() -> None:
    shown = [str(part) for part in A.eager().children()]
    assert shown == [
        "in_latest_time_window()",
        "(newly_missing | any_deps_updated).since(handled)",
        "~any_deps_missing",
        "~any_deps_in_progress",
        "~in_progress()",
    ]
    assert str(A.on_cron("0 6 * * *", "Asia/Tokyo")) == "on_cron(0 6 * * *, Asia/Tokyo)"


def test_a_part_can_be_left_out_or_replaced() -> None:
    eager = A.eager()
    calmer = eager.without(~A.any_deps_missing())
    assert len(calmer.children()) == len(eager.children()) - 1
    assert calmer.label == "eager"
    assert (A.missing() & A.in_progress()).without(A.missing()) == A.in_progress()
    deep = eager.replace("newly_missing", A.code_version_changed())
    assert "(code_version_changed() | any_deps_updated)" in str(deep.children()[1])
    assert eager.replace(A.in_progress(), A.missing()).children()[-1] == ~A.missing()
    with pytest.raises(Invalid, match="is not an operand"):
        _ = eager.without(A.missing())


def test_dependencies_can_be_allowed_and_ignored() -> None:
    chosen = A.eager().ignore("raw").allow("group:a")
    found = [node for node in walk(chosen) if isinstance(node, Deps)]
    assert [(node.allowed, node.ignored) for node in found] == [("group:a", "raw")] * 3
    assert repr(A.any_deps_match(A.missing()).allow("x")) == "any_deps_match(missing()).allow(x)"
    with pytest.raises(Invalid, match="has no condition on dependencies"):
        _ = A.missing().ignore("raw")


def walk(node: AutomationCondition) -> list[AutomationCondition]:
    return [node, *(below for child in node.children() for below in walk(child))]


def test_operands_have_their_arguments() -> None:
    assert A.in_latest_time_window(timedelta(hours=2)) == Operand(
        name="in_latest_time_window", arguments=(("lookback_delta", 7200),)
    )
    matches = A.asset_matches("raw/events", A.missing())
    assert repr(matches) == f"asset_matches({str(AssetKey(['raw', 'events']))!r}, missing())"
    checks = A.all_deps_blocking_checks_passed()
    assert "blocking_only=True" in repr(checks.with_label(None))
    tagged = A.executed_with_tags(tag_keys={"b", "a"}, tag_values={"team": "x"})
    assert tagged.arguments == (("tag_keys", ("a", "b")), ("tag_values", (("team", "x"),)))


def test_an_asset_takes_a_condition_and_nothing_else() -> None:
    @servo.asset(automation_condition=servo.AutomationCondition.eager())
    def orders() -> None: ...

    assert orders.specs[0].automation_condition == A.eager()
    with pytest.raises(Invalid, match="asset orders: automation_condition is 'eager'"):
        _ = servo.AssetSpec("orders", automation_condition="eager")


@pytest.mark.parametrize(
    ("make", "wrong"),
    [
        (lambda: A.on_cron("61 * * * *"), "cron expression"),
        (lambda: A.cron_tick_passed("@daily", "Mars/North"), "there is no time zone"),
        (lambda: A.missing() & True, "True is not an automation condition"),
        (lambda: A.any_deps_match("missing"), "'missing' is not an automation condition"),  # pyright: ignore[reportArgumentType] - that is the point
        (lambda: A.in_latest_time_window(timedelta(0)), "lookback_delta is"),
        (lambda: A.asset_matches(3, A.missing()), "3 does not name an asset"),
    ],
)
def test_what_cannot_be_is_refused(make: Callable[[], Any], wrong: str) -> None:
    with pytest.raises(Invalid, match=wrong):
        _ = make()


def test_every_kind_of_condition_can_be_read() -> None:
    for key in ("ns/a", AssetKey(["ns", "a"])):
        assert repr(A.asset_matches(key, A.missing())) == "asset_matches('ns.a', missing())"
    assert repr(A.all_checks_match(A.check_passed(), blocking_only=True)) == (
        "all_checks_match(check_passed(), blocking_only=True)"
    )
    assert repr(A.missing().newly_true()) == "missing().newly_true()"
