"""A request of what is stale alone: what is made, and what is said if nothing is."""

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from servo import (
    Definitions,
    FreshnessPolicy,
    RunRequest,
    ServoInstance,
    StaticPartitionsDefinition,
    asset,
    materialize,
    schedule,
    sensor,
)
from servo.code.evaluator.loaded_location import EvaluatorEnvironment, LoadedLocation
from servo.code.evaluator.messages import Evaluated, EvaluateSensor, EvaluateTick
from servo.code.evaluator.plan_store import PlanStore
from servo.code.evaluator.schedules import evaluate_tick
from servo.code.evaluator.sensors import evaluate_sensor
from servo.testing.clock import ManualClock

NOW = datetime(2025, 1, 15, 6, tzinfo=UTC)
DAYS = StaticPartitionsDefinition(["mon", "tue"])


@pytest.fixture
def instance() -> ServoInstance:
    return ServoInstance.ephemeral()


def desk_of(instance: ServoInstance, assets: list[Any], **fields: Any) -> LoadedLocation:
    store, paths = instance.world.store, instance.paths
    around = EvaluatorEnvironment(
        clock=instance.world.clock,
        entropy=instance.world.entropy,
        log=logging.getLogger("test"),
        environ={},
        instance=lambda: instance,
    )
    project = Definitions(assets, **fields).project()
    return LoadedLocation(project, PlanStore(store=store, paths=paths, salt=bytes(32)), around)


def assets_of(version: str = "1") -> list[Any]:
    @asset
    def source() -> int:
        return 1

    @asset(deps=[source], code_version=version)
    def middle() -> int:
        return 2

    @asset(deps=[middle])
    def end() -> int:
        return 3

    @asset
    def aside() -> int:
        return 4

    @asset(partitions_def=DAYS)
    def daily() -> int:
        return 5

    return [source, middle, end, aside, daily]


def look(
    instance: ServoInstance,
    assets: list[Any],
    partition: str | None = None,
    later: timedelta = timedelta(),
) -> tuple[list[str], str]:
    """What is made, and what is said, on a request of what is stale."""
    target = ["daily"] if partition else ["source", "middle", "end", "aside"]

    @sensor(name="s", target=target)
    def stale() -> Any:
        return RunRequest(run_key="again", stale_assets_only=True, partition_key=partition)

    loaded = desk_of(instance, assets, sensors=[stale])
    loaded.clock = ManualClock(instance.world.clock.now() + later)
    answer = evaluate_sensor(loaded, EvaluateSensor(sensor_id="s", eval_id="e"))
    assert answer.error == ""
    return [task.asset_key for run in answer.runs for task in run.planned.tasks], answer.skipped


def test_what_was_never_made_is_made(instance: ServoInstance) -> None:
    assets = assets_of()
    made, _ = look(instance, assets)
    assert made == ["aside", "source", "middle", "end"]


def test_what_is_up_to_date_is_not(instance: ServoInstance) -> None:
    assets = assets_of()
    assert materialize(assets[:4], instance=instance).success
    assert look(instance, assets) == ([], "nothing it selects is stale")


def test_what_is_made_from_something_newer_is_made_with_what_is_made_from_it(
    instance: ServoInstance,
) -> None:
    assets = assets_of()
    assert materialize(assets[:4], instance=instance).success
    assert materialize(assets[:4], selection=["source"], instance=instance).success
    assert look(instance, assets)[0] == ["middle", "end"]


def test_what_has_other_code_is_made(instance: ServoInstance) -> None:
    assert materialize(assets_of()[:4], instance=instance).success
    assets = assets_of(version="2")
    assert materialize(assets[:4], selection=["aside"], instance=instance).success
    assert look(instance, assets)[0] == ["middle", "end"]


def test_what_is_older_than_its_policy_allows_is_made(instance: ServoInstance) -> None:
    @asset(freshness_policy=FreshnessPolicy.time_window(fail_window=timedelta(hours=1)))
    def aside() -> int:
        return 4

    assets = [*assets_of()[:3], aside]
    assert materialize(assets, instance=instance).success
    assert look(instance, assets)[0] == []
    assert look(instance, assets, later=timedelta(hours=2))[0] == ["aside"]


def test_of_a_partition_the_same_holds(instance: ServoInstance) -> None:
    assets = assets_of()
    assert materialize(assets[4:], partition_key="mon", instance=instance).success
    assert look(instance, assets, "mon")[0] == []
    assert look(instance, assets, "tue")[0] == ["daily"]


def test_a_schedule_that_finds_nothing_stale_is_skipped(instance: ServoInstance) -> None:
    @asset
    def orders() -> int:
        return 1

    @schedule(cron_schedule="@daily", target="orders", name="s")
    def stale() -> Any:
        return RunRequest(stale_assets_only=True)

    loaded = desk_of(instance, [orders], schedules=[stale])
    tick = EvaluateTick(schedule_id="s", tick_id="s:1", scheduled_for=NOW)
    assert len(evaluate_tick(loaded, tick).runs) == 1
    assert materialize([orders], instance=instance).success
    assert evaluate_tick(loaded, tick) == Evaluated(skipped="nothing it selects is stale")
