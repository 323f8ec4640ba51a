"""What led to the runs that sensors ask for: the output, or the run, that they were told of."""

import logging
from typing import Any

import pytest

from servo import (
    AssetMaterialization,
    Definitions,
    RunRequest,
    RunStatus,
    ServoInstance,
    SkipReason,
    asset,
    asset_sensor,
    define_asset_job,
    materialize,
    multi_asset_sensor,
    run_status_sensor,
)
from servo.code.evaluator.loaded_location import EvaluatorEnvironment, LoadedLocation
from servo.code.evaluator.messages import Evaluated, EvaluateSensor
from servo.code.evaluator.plan_store import PlanStore
from servo.code.evaluator.sensors import evaluate_sensor
from servo.projection.read.reader import Reader


@asset
def orders() -> int:
    return 1


@asset(deps=[orders])
def total() -> int:
    return 2


total_job = define_asset_job("total_job", selection="total")


@pytest.fixture
def instance() -> ServoInstance:
    return ServoInstance.ephemeral()


class Asks:
    """Asks a sensor of a project what it wants."""

    def __init__(self, instance: ServoInstance, sensor: Any, **fields: Any) -> None:
        project = Definitions([orders, total], sensors=[sensor], **fields).project()
        around = EvaluatorEnvironment(
            clock=instance.world.clock,
            entropy=instance.world.entropy,
            log=logging.getLogger("test"),
            environ={},
            instance=lambda: instance,
        )
        records = PlanStore(store=instance.world.store, paths=instance.paths, salt=bytes(32))
        self.loaded = LoadedLocation(project, records, around)

    def look(self) -> Evaluated:
        return evaluate_sensor(self.loaded, EvaluateSensor(sensor_id="s", eval_id="e1"))


def make(instance: ServoInstance, name: str) -> None:
    assert materialize([orders, total], selection=[name], instance=instance).success


def origins(instance: ServoInstance) -> tuple[Any, Any]:
    """The newest run, and the newest output."""
    snapshot = Reader(instance.world.store, instance.paths).snapshot()
    runs: Any = snapshot.rows("runs")
    made: Any = snapshot.rows("materializations")
    return max(runs, key=lambda row: row.row_version), max(made, key=lambda row: row.created_seq)


def test_what_a_sensor_of_an_asset_asks_for_is_because_of_the_output(
    instance: ServoInstance,
) -> None:
    @asset_sensor("orders", name="s", target="total")
    def copied(context: Any, event: Any) -> Any:
        del context, event
        return RunRequest()

    make(instance, "orders")
    answer = Asks(instance, copied).look()
    run, made = origins(instance)
    assert answer.cause == f"{made.created_seq}.{made.created_index}"
    assert answer.correlation == run.correlation == run.request_position


def test_what_a_sensor_of_several_assets_asks_for_is_because_of_the_newest_output_it_saw(
    instance: ServoInstance,
) -> None:
    @multi_asset_sensor(name="s", monitored_assets=["orders", "total"], target="total")
    def both(context: Any) -> Any:
        _ = context.latest_materialization_records_by_key()
        context.advance_all_cursors()
        return RunRequest()

    make(instance, "total")
    make(instance, "orders")
    answer = Asks(instance, both).look()
    run, made = origins(instance)
    assert (made.asset_key, answer.error) == ("orders", "")
    assert answer.cause == f"{made.created_seq}.{made.created_index}"
    assert answer.correlation == run.correlation


def test_what_a_sensor_of_runs_asks_for_is_because_of_the_run(instance: ServoInstance) -> None:
    @run_status_sensor(RunStatus.SUCCESS, name="s", request_job=total_job)
    def done(context: Any) -> Any:
        del context
        return RunRequest()

    make(instance, "orders")
    answer = Asks(instance, done, jobs=[total_job]).look()
    run, _ = origins(instance)
    assert (len(answer.runs), answer.error) == (1, "")
    assert (answer.cause, answer.correlation) == (run.request_position, run.correlation)


def test_a_sensor_that_asks_for_nothing_names_no_cause(instance: ServoInstance) -> None:
    seen = asset_sensor("orders", name="s")(lambda: SkipReason("seen"))
    make(instance, "orders")
    answer = Asks(instance, seen).look()
    assert (answer.skipped, answer.cause, answer.correlation) == ("seen", "", "")


def test_an_output_that_was_reported_has_no_run_to_correlate_with(instance: ServoInstance) -> None:
    found = asset_sensor("orders", name="s", target="total")(lambda: RunRequest(tags={}))
    instance.report_runless_asset_event(AssetMaterialization("orders"))
    answer = Asks(instance, found).look()
    assert (len(answer.runs), answer.correlation) == (1, "")
    assert answer.cause
