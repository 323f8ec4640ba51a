"""Conditions evaluated against a workspace, as tests of a project do it."""

from datetime import UTC, datetime, timedelta

import pytest

import servo
from servo import AutomationCondition as A
from servo.errors import Invalid

EVERY_HOUR = "0 * * * *"
NAIVE = datetime(2025, 1, 1, tzinfo=UTC).replace(tzinfo=None)


@servo.asset
def raw() -> int:
    return 1


@servo.asset(automation_condition=A.eager())
def mart(raw: int) -> int:
    return raw


@servo.asset(automation_condition=A.eager())
def report(mart: int) -> int:
    return mart


def test_a_chain_is_asked_for_when_its_source_is_made_and_once() -> None:
    instance, assets = servo.ServoInstance.ephemeral(), [raw, mart, report]
    result = servo.evaluate_automation_conditions(assets, instance)
    assert result.total_requested == 0
    _ = servo.materialize([raw], instance=instance)
    result = servo.evaluate_automation_conditions(assets, instance, cursor=result.cursor)
    assert result.get_requested_partitions("mart") == {None}
    assert result.get_num_requested(report.key) == 1
    assert (result.get_num_requested(raw.key), result.total_requested) == (0, 2)
    assert (result.trees[mart.key].label, result.trees[mart.key].true) == ("eager", 1)
    again = servo.evaluate_automation_conditions(assets, instance, cursor=result.cursor)
    assert again.total_requested == 0
    _ = servo.materialize([raw, mart, report], instance=instance)
    done = servo.evaluate_automation_conditions(assets, instance, cursor=again.cursor)
    assert done.total_requested == 0


def test_what_is_wiped_is_missing_again() -> None:
    instance, assets = servo.ServoInstance.ephemeral(), [raw, mart]
    _ = servo.materialize(assets, instance=instance)
    result = servo.evaluate_automation_conditions(assets, instance)
    instance.wipe_assets([mart.key])
    result = servo.evaluate_automation_conditions(assets, instance, cursor=result.cursor)
    assert result.get_num_requested("mart") == 1


def test_assets_can_be_chosen_and_deps_ignored() -> None:
    @servo.asset(automation_condition=A.eager().ignore(servo.AssetSelection.assets("raw")))
    def deaf(raw: int) -> int:
        return raw

    instance, defs = servo.ServoInstance.ephemeral(), servo.Definitions([raw, mart, deaf])
    result = servo.evaluate_automation_conditions(defs, instance, asset_selection="deaf")
    _ = servo.materialize([raw], instance=instance)
    chosen = servo.evaluate_automation_conditions(
        defs, instance, asset_selection="deaf", cursor=result.cursor
    )
    assert chosen.total_requested == 0
    assert list(chosen.trees) == [deaf.key]


def test_time_is_given_and_brings_partitions_and_ticks() -> None:
    days = servo.DailyPartitionsDefinition(start_date="2025-01-01")

    @servo.asset(partitions_def=days, automation_condition=A.on_cron(EVERY_HOUR))
    def daily() -> None: ...

    @servo.asset(partitions_def=days, deps=[daily], automation_condition=A.on_missing())
    def after() -> None: ...

    noon = datetime(2025, 1, 3, 12, 30, tzinfo=UTC)
    instance, assets = servo.ServoInstance.ephemeral(), [daily, after]
    first = servo.evaluate_automation_conditions(assets, instance, evaluation_time=noon)
    assert first.total_requested == 0
    later = servo.evaluate_automation_conditions(
        assets, instance, evaluation_time=noon + timedelta(hours=1), cursor=first.cursor
    )
    assert later.get_requested_partitions("daily") == {"2025-01-02"}
    tomorrow = servo.evaluate_automation_conditions(
        assets, instance, evaluation_time=noon + timedelta(hours=12), cursor=later.cursor
    )
    assert tomorrow.get_requested_partitions("daily") == {"2025-01-03"}
    assert tomorrow.get_requested_partitions("after") == {"2025-01-03"}


def test_dynamic_partitions_keep_their_numbers() -> None:
    regions = servo.DynamicPartitionsDefinition(name="regions")

    @servo.asset(partitions_def=regions, automation_condition=A.on_missing())
    def sales() -> None: ...

    instance = servo.ServoInstance.ephemeral()
    instance.add_dynamic_partitions("regions", ["eu", "us"])
    result = servo.evaluate_automation_conditions([sales], instance)
    assert result.total_requested == 0
    instance.delete_dynamic_partition("regions", "eu")
    instance.add_dynamic_partitions("regions", ["asia"])
    result = servo.evaluate_automation_conditions([sales], instance, cursor=result.cursor)
    assert result.get_requested_partitions("sales") == {"asia"}


def test_windows_of_different_lengths_belong_together() -> None:
    hours = servo.HourlyPartitionsDefinition(start_date="2025-01-01-00:00")
    days = servo.DailyPartitionsDefinition(start_date="2025-01-01")

    @servo.asset(partitions_def=hours, automation_condition=A.newly_requested())
    def hourly() -> None: ...

    @servo.asset(
        partitions_def=days,
        deps=[hourly],
        automation_condition=A.any_deps_match(A.in_latest_time_window()),
    )
    def daily() -> None: ...

    @servo.asset(
        partitions_def=days,
        deps=[
            servo.AssetDep(daily, partition_mapping=servo.TimeWindowPartitionMapping(-1, -1)),
            servo.AssetDep(hourly, partition_mapping=servo.AllPartitionMapping()),
        ],
        automation_condition=A.any_deps_match(A.will_be_requested() | A.in_latest_time_window()),
    )
    def next_day() -> None: ...

    @servo.asset(
        deps=[servo.AssetDep(daily, partition_mapping=servo.LastPartitionMapping())],
        automation_condition=A.any_deps_match(A.in_latest_time_window()),
    )
    def whole() -> None: ...

    result = servo.evaluate_automation_conditions(
        [hourly, daily, next_day, whole],
        servo.ServoInstance.ephemeral(),
        evaluation_time=datetime(2025, 1, 4, 1, tzinfo=UTC),
    )
    assert result.get_requested_partitions("daily") == set()
    assert result.get_requested_partitions("next_day") == {
        "2025-01-01",
        "2025-01-02",
        "2025-01-03",
    }
    assert result.get_num_requested("whole") == 1
    end = datetime(2025, 1, 4, tzinfo=UTC)
    midnight = servo.evaluate_automation_conditions(
        [hourly, daily], servo.ServoInstance.ephemeral(), evaluation_time=end
    )
    assert midnight.get_requested_partitions("daily") == {"2025-01-03"}


def test_checks_and_failures_are_seen() -> None:
    @servo.asset(automation_condition=A.execution_failed())
    def broken() -> None:
        raise RuntimeError("no")

    @servo.asset_check(asset=raw, blocking=True)
    def good() -> servo.AssetCheckResult:
        return servo.AssetCheckResult(passed=True)

    @servo.asset(deps=[raw], automation_condition=A.all_deps_blocking_checks_passed())
    def careful() -> None: ...

    instance = servo.ServoInstance.ephemeral()
    defs = servo.Definitions([raw, broken, careful], asset_checks=[good])
    assert servo.evaluate_automation_conditions(defs, instance).total_requested == 0
    _ = servo.materialize([raw, good], instance=instance)
    _ = servo.materialize([broken], instance=instance, raise_on_error=False)
    result = servo.evaluate_automation_conditions(defs, instance)
    assert result.get_num_requested("careful") == 1
    assert result.get_num_requested("broken") == 1


def test_reported_data_versions_are_compared() -> None:
    outside = servo.AssetSpec("outside")

    @servo.asset(deps=[outside], automation_condition=A.any_deps_match(A.data_version_changed()))
    def inside() -> None: ...

    instance, assets = servo.ServoInstance.ephemeral(), [outside, inside]
    cursor = None
    found: list[int] = []
    for version in ("1", "2", "2", "3"):
        tags = {"dagster/data_version": version}
        instance.report_runless_asset_event(servo.AssetMaterialization("outside", tags=tags))
        result = servo.evaluate_automation_conditions(assets, instance, cursor=cursor)
        cursor = result.cursor
        found.append(result.total_requested)
    assert found == [0, 1, 0, 1]


def test_what_was_observed_counts_as_there() -> None:
    outside = servo.AssetSpec("outside")

    @servo.asset(deps=[outside], automation_condition=~A.any_deps_missing())
    def inside() -> None: ...

    instance, assets = servo.ServoInstance.ephemeral(), [outside, inside]
    assert servo.evaluate_automation_conditions(assets, instance).total_requested == 0
    instance.report_runless_asset_event(servo.AssetObservation("outside"))
    assert servo.evaluate_automation_conditions(assets, instance).total_requested == 1


def test_bad_input_is_told() -> None:
    instance = servo.ServoInstance.ephemeral()
    with pytest.raises(Invalid, match="defines nothing"):
        _ = servo.evaluate_automation_conditions(1, instance)
    with pytest.raises(Invalid, match="no time zone"):
        _ = servo.evaluate_automation_conditions([raw], instance, evaluation_time=NAIVE)
