"""Checks of when an asset was last made, and whether its last partition was."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import servo
from servo.core.cron import Cron
from servo.core.keys import AssetKey
from servo.errors import Invalid
from servo.execution.checks.rules import CheckSubject, last_partition, last_update
from servo.projection.read.replay import PRESENT
from servo.projection.read.time_travel import snapshot_at

NOW = datetime(2025, 1, 6, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
NINE = Cron("0 9 * * *")


@servo.asset
def orders() -> int:
    return 1


@pytest.mark.parametrize(
    ("ago", "deadlines", "passed"),
    [
        (2 * HOUR, None, True),
        (2 * HOUR + timedelta(seconds=1), None, False),
        (5 * HOUR, NINE, True),
        (6 * HOUR, NINE, False),
        (HOUR, NINE, True),
    ],
)
def test_an_asset_is_asked_for_since_a_bound(
    ago: timedelta, deadlines: Cron | None, passed: bool
) -> None:
    made = CheckSubject(value=1, key=AssetKey(["orders"]), now=NOW, made_at=NOW - ago)
    assert last_update(made, within=2 * HOUR, deadlines=deadlines).passed is passed


def test_what_nobody_knows_does_not_pass() -> None:
    unknown = CheckSubject(value=1, key=AssetKey(["orders"]), now=NOW)
    assert not last_update(unknown, within=HOUR, deadlines=None).passed


def test_the_last_partition_before_the_deadline_is_asked_for() -> None:
    days = servo.DailyPartitionsDefinition(start_date="2025-01-05")
    assert last_partition(days, NINE, NOW, {"2025-01-05"}).passed
    missing = last_partition(days, NINE, NOW + 24 * HOUR, {"2025-01-05"})
    assert (missing.passed, missing.description) == (False, "partition 2025-01-06 is missing")
    assert last_partition(days, NINE, NOW - 24 * HOUR, set()).passed


def test_checks_are_built_for_every_asset_and_run_with_it() -> None:
    built = servo.build_last_update_freshness_checks([orders], lower_bound_delta=HOUR)
    assert [spec.key for check in built for spec in check.specs] == [
        servo.AssetCheckKey(orders.key, "freshness_check")
    ]
    instance = servo.ServoInstance.ephemeral()
    assert servo.materialize([orders, *built], instance=instance).success
    found = snapshot_at(instance.world.store, instance.paths, PRESENT)
    rows: list[Any] = found.rows("check_results")
    assert [(row.check_name, row.passed) for row in rows] == [("freshness_check", True)]


def test_partitions_are_looked_up_in_the_workspace() -> None:
    days = servo.DailyPartitionsDefinition(start_date="2025-01-05")
    daily = servo.AssetSpec("daily", partitions_def=days)
    built = servo.build_time_partition_freshness_checks([daily], deadline_cron="0 9 * * *")
    instance = servo.ServoInstance.ephemeral()
    context = servo.build_asset_check_context(instance=instance)
    found = built[0](context)
    assert not found.passed
    assert built[0].options.severity is servo.AssetCheckSeverity.WARN
    windows = days.get_partition_keys()
    for key in windows[-2:]:
        event = servo.AssetMaterialization("daily", partition=key)
        instance.report_runless_asset_event(event)
    assert built[0](context).passed


def test_bad_input_is_told() -> None:
    with pytest.raises(Invalid, match="lower_bound_delta"):
        _ = servo.build_last_update_freshness_checks([orders], lower_bound_delta=timedelta())
    with pytest.raises(Invalid, match="cron"):
        _ = servo.build_last_update_freshness_checks([orders], HOUR, deadline_cron="61 * * * *")
    with pytest.raises(Invalid, match="no partitions of time"):
        _ = servo.build_time_partition_freshness_checks([orders], deadline_cron="@daily")
