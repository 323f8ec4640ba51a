"""Automation conditions as operations on a workspace in memory."""

import logging

import pytest

from servo import AutomationCondition, Definitions, asset
from servo.code.evaluator.answering import EvaluatorHere
from servo.code.evaluator.loaded_location import EvaluatorEnvironment, LoadedLocation
from servo.code.evaluator.plan_store import PlanStore
from servo.core.declared import AUTOMATION_LABEL
from servo.core.events.sensors import SensorUpserted
from servo.core.state.states import SensorStatus
from servo.errors import Conflict, NotFound
from servo.operations.deployments import deploy_unless_led
from servo.operations.interface.evaluating import NO_SALT
from servo.operations.interface.listing import Page
from servo.operations.triggers.automation import (
    get_condition,
    list_condition_evaluations,
    list_conditions,
    pause_automation,
    resume_automation,
)
from servo.operations.triggers.condition_previews import preview_automation
from servo.sdk.automation.graph import DEFAULT_SENSOR
from servo.sdk.triggers.resolution import declared
from servo.workspace.address import Address
from servo.workspace.channels import AnyChannel
from servo.workspace.composition import in_memory
from servo.workspace.workspace import Workspace

ADDRESS = Address("memory://automation")


@asset
def raw() -> int:
    return 1


@asset(deps=[raw], automation_condition=AutomationCondition.missing())
def total() -> int:
    return 2


PROJECT = Definitions([raw, total]).project()


@pytest.fixture
def workspace() -> Workspace:
    world = in_memory()
    return Workspace(ADDRESS, world, AnyChannel(ADDRESS, world))


def deploy(workspace: Workspace) -> None:
    deploy_unless_led(workspace, "code.py", declared(PROJECT))


def evaluator(workspace: Workspace) -> EvaluatorHere:
    around = EvaluatorEnvironment(
        clock=workspace.clock,
        entropy=workspace.entropy,
        log=logging.getLogger("test"),
        environ={},
        instance=lambda: None,
    )
    records = PlanStore(store=workspace.store, paths=workspace.paths, salt=NO_SALT)
    return EvaluatorHere(LoadedLocation(PROJECT, records, around))


def test_conditions_are_listed_with_who_evaluates_them(workspace: Workspace) -> None:
    deploy(workspace)
    [found] = list_conditions(workspace).items
    assert (found.asset_key, found.sensor_id) == ("total", DEFAULT_SENSOR)
    assert found.evaluated_at is None
    shown = get_condition(workspace, "total")
    assert (shown.asset, shown.evaluation, shown.tree, shown.lacking) == (found, None, None, [])
    assert list_condition_evaluations(workspace, "total", Page(limit=5)).items == []
    with pytest.raises(NotFound, match="raw has no automation condition"):
        _ = get_condition(workspace, "raw")
    with pytest.raises(NotFound, match="evaluation 7 of total was not recorded"):
        _ = get_condition(workspace, "total", tick=7)


def test_the_default_sensor_is_paused_and_resumed_at_once(workspace: Workspace) -> None:
    deploy(workspace)
    before = workspace.read(lambda snapshot: snapshot.applied_seq)
    assert pause_automation(workspace).sensor_id == DEFAULT_SENSOR
    [paused] = list_conditions(workspace).items
    assert paused.sensor_status is SensorStatus.PAUSED
    [then] = list_conditions(workspace, as_of=before).items
    assert then.sensor_status is SensorStatus.ACTIVE
    with pytest.raises(Conflict, match="already paused"):
        _ = pause_automation(workspace, DEFAULT_SENSOR)
    assert resume_automation(workspace).receipt.applied
    with pytest.raises(Conflict, match="is not paused"):
        _ = resume_automation(workspace)


def test_of_several_sensors_one_is_named(workspace: Workspace) -> None:
    labels = {AUTOMATION_LABEL: "conditions"}
    early, late = (SensorUpserted(sensor_id=name, labels=labels) for name in ("early", "late"))
    _ = workspace.submit(SensorUpserted(sensor_id="files")).checked()
    with pytest.raises(NotFound, match="no sensor evaluates conditions"):
        _ = pause_automation(workspace)
    _ = workspace.submit(early, late).checked()
    with pytest.raises(Conflict, match="choose one of: early, late"):
        _ = pause_automation(workspace)
    with pytest.raises(NotFound, match="no sensor files evaluates conditions"):
        _ = pause_automation(workspace, "files")
    assert pause_automation(workspace, "late").sensor_id == "late"


def test_a_preview_says_what_conditions_would_request_and_records_nothing(
    workspace: Workspace,
) -> None:
    deploy(workspace)
    before = workspace.read(lambda snapshot: snapshot.applied_seq)
    [found] = preview_automation(workspace, evaluator(workspace)).items
    assert (found.asset_key, found.sensor_id, found.requested) == ("total", DEFAULT_SENSOR, ("",))
    assert (found.tree.true, found.tree.of) == (1, 1)
    assert preview_automation(workspace, evaluator(workspace), ["total"]).items == [found]
    with pytest.raises(NotFound, match="no selected asset has an automation condition"):
        _ = preview_automation(workspace, evaluator(workspace), ["raw"])
    assert workspace.read(lambda snapshot: snapshot.applied_seq) == before


def test_a_preview_where_nothing_was_recorded_says_what_to_do_first(workspace: Workspace) -> None:
    with pytest.raises(NotFound, match="materialize something first"):
        _ = preview_automation(workspace, evaluator(workspace))
