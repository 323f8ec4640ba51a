"""Freshness policies are checked when they are written."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import servo
from servo.core.freshness import CronDeadline, MaxAge, read_policy
from servo.errors import Invalid
from servo.sdk.assets.freshness import FreshnessPolicy

HOUR = timedelta(hours=1)


def test_policies_are_values() -> None:
    window = FreshnessPolicy.time_window(fail_window=2 * HOUR, warn_window=HOUR)
    assert window == FreshnessPolicy.time_window(2 * HOUR, HOUR)
    assert window != FreshnessPolicy.time_window(2 * HOUR)
    deadline = FreshnessPolicy.cron("0 9 * * *", HOUR, timezone="Europe/Berlin")
    assert servo.AssetSpec("a", freshness_policy=deadline).freshness_policy == deadline


@pytest.mark.parametrize(
    ("make", "wrong"),
    [
        (lambda: FreshnessPolicy.time_window(HOUR, HOUR), "pass a shorter warn_window"),
        (lambda: FreshnessPolicy.time_window(timedelta(seconds=5)), "a minute or more"),
        (lambda: FreshnessPolicy.time_window(3600), "fail_window is 3600"),  # pyright: ignore[reportArgumentType] - that is the point
        (lambda: FreshnessPolicy.cron("bad", HOUR), "cron expression"),
        (lambda: servo.AssetSpec("a", freshness_policy=HOUR), "asset a: the freshness policy is"),
        (lambda: servo.AssetSpec("a", freshness_policy=FreshnessPolicy()), "time_window"),
    ],
)
def test_what_cannot_be_is_refused(make: Callable[[], Any], wrong: str) -> None:
    with pytest.raises(Invalid, match=wrong):
        _ = make()


def test_a_deployment_tells_the_policy_and_the_condition() -> None:
    window = FreshnessPolicy.time_window(fail_window=24 * HOUR, warn_window=12 * HOUR)
    plain = FreshnessPolicy.time_window(fail_window=HOUR)
    deadline = FreshnessPolicy.cron("0 9 * * *", lower_bound_delta=HOUR, timezone="Asia/Tokyo")
    specs = [
        servo.AssetSpec("a", freshness_policy=window),
        servo.AssetSpec("b", freshness_policy=plain),
        servo.AssetSpec("c", freshness_policy=deadline),
        servo.AssetSpec("d", automation_condition=servo.AutomationCondition.eager()),
    ]
    told = {d.asset_key: d for d in servo.Definitions(specs).project().definitions()}
    policies = [read_policy(told[key].freshness_policy) for key in "abc"]
    assert policies == [
        MaxAge(fail_ms=86_400_000, warn_ms=43_200_000),
        MaxAge(fail_ms=3_600_000),
        CronDeadline(deadline_cron="0 9 * * *", lower_bound_ms=3_600_000, timezone="Asia/Tokyo"),
    ]
    assert [told[key].freshness_policy for key in "bd"] == [
        '{"fail_ms":3600000,"kind":"time_window"}',
        "",
    ]
    assert [told[key].automation_condition for key in "ad"] == ["", "eager"]
