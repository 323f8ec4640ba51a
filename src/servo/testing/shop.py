"""A small project with something of every kind, and a workspace in memory in which it was at work.

For tests about all operations alike. Tests of one noun build what they are about themselves.
"""

import logging

from servo.checks import unique
from servo.code.backfills.requests import Asked, Choice
from servo.code.evaluator.answering import EvaluatorHere
from servo.code.evaluator.loaded_location import EvaluatorEnvironment, LoadedLocation
from servo.code.evaluator.plan_store import PlanStore
from servo.core.events.backfills import BackfillChunkPlanned
from servo.core.events.runs import BackfillSource, PlanCreated, PlanFailed, RunRequested
from servo.core.events.sensors import SensorMode, SensorUpserted
from servo.core.keys import TaskOperation, task_key_text
from servo.core.plan import TaskSpec
from servo.host.materialize import materialize
from servo.operations.backfill_requests import create_backfill
from servo.operations.backfills import present_backfill
from servo.operations.deployments import deploy_unless_led
from servo.operations.dynamic_partitions import add_partitions
from servo.operations.interface.evaluating import NO_SALT, Evaluates
from servo.operations.interface.listing import Page
from servo.operations.quotas import set_pool_limit
from servo.operations.runs import get_run, list_runs
from servo.ports.object_store import ObjectStore
from servo.sdk.assets.asset import asset
from servo.sdk.automation.condition import AutomationCondition
from servo.sdk.definitions.definitions import Definitions
from servo.sdk.partitions.definition import DynamicPartitionsDefinition, StaticPartitionsDefinition
from servo.sdk.triggers.resolution import declared
from servo.sdk.triggers.run_requests import DefaultScheduleStatus, DefaultSensorStatus, SkipReason
from servo.sdk.triggers.schedules import ScheduleDefinition
from servo.sdk.triggers.sensors import sensor
from servo.testing.operating import workspace_of
from servo.workspace.channels import AnyChannel
from servo.workspace.composition import in_memory
from servo.workspace.instance.instance import ServoInstance
from servo.workspace.workspace import Workspace

RUN = "run_open"
"""A run of `numbers` that nobody has begun to work on."""

FAILED_BACKFILL = Asked(choice=Choice(keys=("a", "b")), request_id="failed", chunk_size=2)
OPEN_BACKFILL = Asked(choice=Choice(which="all"), request_id="open", chunk_size=2)


@asset
def numbers() -> list[int]:
    return [1, 2, 3]


@asset(quarantine=True)
def prices() -> list[dict[str, int]]:
    return [{"id": 1}, {"id": 1}]


@asset(deps=[numbers], automation_condition=AutomationCondition.missing())
def total() -> int:
    return 6


@asset(partitions_def=StaticPartitionsDefinition(["a", "b", "c"]))
def letter() -> int:
    return 1


@asset(partitions_def=DynamicPartitionsDefinition(name="customers"))
def customer() -> int:
    return 1


@sensor(target=[numbers], default_status=DefaultSensorStatus.RUNNING)
def files() -> SkipReason:
    return SkipReason("no files")


UNIQUE = unique(prices, "id", blocking=True)
HOURLY = ScheduleDefinition(
    name="hourly",
    cron_schedule="0 * * * *",
    target=[numbers],
    default_status=DefaultScheduleStatus.RUNNING,
)
DEFINITIONS = Definitions(
    [numbers, prices, total, letter, customer],
    asset_checks=[UNIQUE],
    schedules=[HOURLY],
    sensors=[files],
)
PROJECT = DEFINITIONS.project()


def shop() -> Workspace:
    """A workspace in memory with runs, backfills, triggers, limits and a dead letter."""
    instance = ServoInstance.ephemeral()
    _ = materialize([numbers, prices, UNIQUE], instance=instance, raise_on_error=False)
    workspace = workspace_of(instance)
    _keep_log(workspace)
    deploy_unless_led(workspace, "shop.py", declared(PROJECT))
    _ = workspace.submit(SensorUpserted(sensor_id="told", mode=SensorMode.PUSH)).checked()
    _ = add_partitions(workspace, "customers", ["ada"])
    _ = workspace.store.create(workspace.paths.inbox_item("junk"), b"no batch")
    _ = set_pool_limit(workspace, "warehouse", 2)
    _open_run(workspace)
    _failed_backfill(workspace)
    _ = create_backfill(workspace, evaluator_of(workspace), OPEN_BACKFILL, ["letter"])
    return workspace


def copy_of(workspace: Workspace) -> Workspace:
    """Another workspace in memory with the same content, which a test can change."""
    world = in_memory()
    copy_objects(workspace, world.store)
    return Workspace(workspace.address, world, AnyChannel(workspace.address, world))


def copy_objects(workspace: Workspace, store: ObjectStore) -> None:
    """Write everything that is stored in a workspace to another store."""
    for meta in workspace.store.list_after(""):
        store.create(meta.key, workspace.store.get(meta.key).data)


def evaluator_of(workspace: Workspace) -> Evaluates:
    """Answers questions that need the code of the shop, in this process."""
    around = EvaluatorEnvironment(
        clock=workspace.clock,
        entropy=workspace.entropy,
        log=logging.getLogger("shop"),
        environ={},
        instance=lambda: None,
    )
    records = PlanStore(store=workspace.store, paths=workspace.paths, salt=NO_SALT)
    return EvaluatorHere(LoadedLocation(PROJECT, records, around))


def _keep_log(workspace: Workspace) -> None:
    """Store what the finished run printed, as workers do and an inline run does not."""
    run = list_runs(workspace, Page(limit=1)).items[0].run_id
    task = next(one for one in get_run(workspace, run).tasks if one.asset_key == "numbers")
    key = workspace.paths.log(run, task.task_key, task.attempt, task.exec_id or "inline")
    _ = workspace.store.put(key, b"counting\n")


def _open_run(workspace: Workspace) -> None:
    key = task_key_text("numbers", None, TaskOperation.MATERIALIZE)
    request = RunRequested(run_id=RUN, run_key="open", request_fingerprint="f")
    plan = PlanCreated(
        run_id=RUN, fingerprint="p", tasks=(TaskSpec(task_key=key, asset_key="numbers"),)
    )
    _ = workspace.submit(request, plan).checked()


def _failed_backfill(workspace: Workspace) -> None:
    begun = create_backfill(workspace, evaluator_of(workspace), FAILED_BACKFILL, ["letter"])
    if begun is None:
        raise AssertionError("there is nothing to backfill")
    name = begun.backfill_id
    chunk = BackfillChunkPlanned(
        backfill_id=name,
        chunk_index=0,
        expected_state_version=1,
        partition_keys=present_backfill(workspace, name).row.partition_keys,
        run_key=f"backfill:{name}:0",
        request_fingerprint="f",
    )
    request = RunRequested(
        run_id="run_chunk",
        run_key=chunk.run_key,
        request_fingerprint="f",
        source=BackfillSource(backfill_id=name, chunk_index=0),
    )
    _ = workspace.submit(chunk, request).checked()
    _ = workspace.submit(PlanFailed(run_id="run_chunk", error="no plan")).checked()
