"""Every operation can be called with a workspace in memory, and is declared to be one."""

from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from inspect import signature
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import msgspec
import pytest

from servo.code.backfills.requests import Asked, Choice
from servo.operations import (
    admin,
    assets,
    backfill_requests,
    backfills,
    completion,
    dead_letters,
    dynamic_partitions,
    explain,
    inbox,
    logs,
    partitions,
    quarantine,
    quotas,
    run_requests,
    runs,
    sql,
    stale,
    status,
)
from servo.operations.interface.catalog import Operation, misdeclared, operations
from servo.operations.interface.listing import Page
from servo.operations.interface.roles import operation, step
from servo.operations.run_requests import NewRun
from servo.operations.triggers import (
    automation,
    condition_previews,
    schedules,
    sensor_messages,
    sensor_trials,
    sensors,
    ticks,
)
from servo.testing.shop import RUN, copy_of, evaluator_of, shop
from servo.workspace.workspace import Workspace

GOLDEN = Path(__file__).parents[2] / "golden"
ALL = Page(limit=10)
Call = Callable[[Workspace], Any]
LETTERS = Asked(choice=Choice(keys=("c",)), request_id="new")


def backfill(at: Workspace, state: str) -> str:
    rows = backfills.list_backfills(at, ALL).items
    return next(row.backfill_id for row in rows if row.state.value == state)


def printed(at: Workspace) -> logs.LogQuery:
    """The logs of the run that finished."""
    rows = runs.list_runs(at, ALL).items
    return logs.LogQuery(run=next(row.run_id for row in rows if row.state.value == "SUCCEEDED"))


def held(at: Workspace) -> str:
    return quarantine.list_quarantine(at, ALL).items[0].materialization_id


def after(first: Call, then: Call, at: Workspace) -> Any:
    """What an operation answers that undoes another."""
    _ = first(at)
    return then(at)


# One line for every operation, in the workspace of `servo.testing.shop`.
CALLS: dict[str, Call] = {
    "admin.collect_garbage": lambda at: admin.collect_garbage(at, plans=True),
    "admin.compare_projection": admin.compare_projection,
    "admin.inspect_workspace": admin.inspect_workspace,
    "admin.rebuild_projection": admin.rebuild_projection,
    "admin.verify_workspace": admin.verify_workspace,
    "assets.get_asset": lambda at: assets.get_asset(at, "numbers"),
    "assets.list_freshness_changes": lambda at: assets.list_freshness_changes(at, "numbers", ALL),
    "assets.list_outputs": lambda at: assets.list_outputs(at, "numbers", ALL),
    "assets.preview_wipe": lambda at: assets.preview_wipe(at, "numbers"),
    "assets.wipe_asset": lambda at: assets.wipe_asset(at, "numbers"),
    "automation.get_condition": lambda at: automation.get_condition(at, "total"),
    "automation.list_condition_evaluations": (
        lambda at: automation.list_condition_evaluations(at, "total", ALL)
    ),
    "automation.list_conditions": automation.list_conditions,
    "automation.pause_automation": automation.pause_automation,
    "automation.resume_automation": (
        lambda at: after(automation.pause_automation, automation.resume_automation, at)
    ),
    "backfill_requests.create_backfill": (
        lambda at: backfill_requests.create_backfill(at, evaluator_of(at), LETTERS, ["letter"])
    ),
    "backfill_requests.preview_backfill": (
        lambda at: backfill_requests.preview_backfill(at, evaluator_of(at), LETTERS, ["letter"])
    ),
    "backfill_requests.retry_backfill": (
        lambda at: backfill_requests.retry_backfill(at, backfill(at, "FAILED"))
    ),
    "backfills.cancel_backfill": lambda at: backfills.cancel_backfill(at, backfill(at, "RUNNING")),
    "backfills.get_backfill": lambda at: backfills.get_backfill(at, backfill(at, "FAILED")),
    "backfills.list_backfills": lambda at: backfills.list_backfills(at, ALL),
    "backfills.pause_backfill": lambda at: backfills.pause_backfill(at, backfill(at, "RUNNING")),
    "backfills.resume_backfill": lambda at: after(
        lambda at: backfills.pause_backfill(at, backfill(at, "RUNNING")),
        lambda at: backfills.resume_backfill(at, backfill(at, "PAUSED")),
        at,
    ),
    "completion.complete_assets": lambda at: completion.complete_assets(at, "n"),
    "completion.complete_backfills": lambda at: completion.complete_backfills(at, "bf"),
    "completion.complete_runs": lambda at: completion.complete_runs(at, "run"),
    "condition_previews.preview_automation": (
        lambda at: condition_previews.preview_automation(at, evaluator_of(at))
    ),
    "dead_letters.get_dead_letter": lambda at: dead_letters.get_dead_letter(at, "inbox:junk"),
    "dead_letters.list_dead_letters": lambda at: dead_letters.list_dead_letters(at, ALL),
    "dynamic_partitions.add_partitions": (
        lambda at: dynamic_partitions.add_partitions(at, "customers", ["bob"])
    ),
    "dynamic_partitions.delete_partitions": (
        lambda at: dynamic_partitions.delete_partitions(at, "customers", ["ada"])
    ),
    "dynamic_partitions.keys_of_set": lambda at: dynamic_partitions.keys_of_set(at, "customers"),
    "explain.explain_asset": lambda at: explain.explain_asset(at, "numbers"),
    "explain.explain_missing": lambda at: explain.explain_missing(at, "prices"),
    "explain.explain_run": lambda at: explain.explain_run(at, RUN),
    "explain.explain_task": lambda at: explain.explain_task(at, RUN, "numbers"),
    "inbox.count_queued": inbox.count_queued,
    "logs.follow_logs": lambda at: logs.follow_logs(at, printed(at), wait=pytest.fail),
    "logs.get_logs": lambda at: logs.get_logs(at, printed(at)),
    "partitions.count_partitions": lambda at: partitions.count_partitions(at, "letter"),
    "partitions.list_partitions": (
        lambda at: partitions.list_partitions(at, "letter", partitions.PartitionQuery(limit=5))
    ),
    "quarantine.approve_output": lambda at: quarantine.approve_output(at, held(at)),
    "quarantine.list_quarantine": lambda at: quarantine.list_quarantine(at, ALL),
    "quarantine.reject_output": lambda at: quarantine.reject_output(at, held(at), reason="bad"),
    "quotas.get_quota": quotas.get_quota,
    "quotas.list_lanes": quotas.list_lanes,
    "quotas.list_pools": quotas.list_pools,
    "quotas.remove_pool_limit": lambda at: quotas.remove_pool_limit(at, "warehouse"),
    "quotas.reset_lane_weight": lambda at: quotas.reset_lane_weight(at, "backfills"),
    "quotas.set_lane_weight": lambda at: quotas.set_lane_weight(at, "backfills", 300),
    "quotas.set_pool_limit": lambda at: quotas.set_pool_limit(at, "api", 1),
    "quotas.set_quota": lambda at: quotas.set_quota(at, {"max_concurrent_runs": 2}),
    "run_requests.plan_run": (
        lambda at: run_requests.plan_run(at, evaluator_of(at), NewRun(select=("total",)))
    ),
    "run_requests.retry_run": (
        lambda at: run_requests.retry_run(at, evaluator_of(at), RUN, everything=True)
    ),
    "run_requests.trigger_run": (
        lambda at: run_requests.trigger_run(at, evaluator_of(at), NewRun(select=("total",)))
    ),
    "runs.cancel_run": lambda at: runs.cancel_run(at, RUN, reason="enough"),
    "runs.get_run": lambda at: runs.get_run(at, RUN),
    "runs.get_runs": lambda at: runs.get_runs(at, [RUN]),
    "runs.list_runs": lambda at: runs.list_runs(at, ALL),
    "runs.get_run_outcome": lambda at: runs.get_run_outcome(at, RUN),
    "schedules.get_schedule": lambda at: schedules.get_schedule(at, "hourly"),
    "schedules.list_schedules": schedules.list_schedules,
    "schedules.list_ticks": lambda at: schedules.list_ticks(at, "hourly", ALL),
    "schedules.pause_schedule": lambda at: schedules.pause_schedule(at, "hourly"),
    "schedules.preview_schedule": lambda at: schedules.preview_schedule(at, "hourly", 3),
    "schedules.resume_schedule": lambda at: after(
        lambda at: schedules.pause_schedule(at, "hourly"),
        lambda at: schedules.resume_schedule(at, "hourly"),
        at,
    ),
    "sensor_messages.push_message": lambda at: sensor_messages.push_message(at, "told"),
    "sensor_trials.evaluate_sensor": (
        lambda at: sensor_trials.evaluate_sensor(at, evaluator_of(at), "files", commit=True)
    ),
    "sensors.get_cursor": lambda at: sensors.get_cursor(at, "files"),
    "sensors.get_sensor": lambda at: sensors.get_sensor(at, "files"),
    "sensors.list_evaluations": lambda at: sensors.list_evaluations(at, "files", ALL),
    "sensors.list_sensors": sensors.list_sensors,
    "sensors.move_cursor": lambda at: sensors.move_cursor(at, "files", "9"),
    "sensors.pause_sensor": lambda at: sensors.pause_sensor(at, "files"),
    "sensors.resume_sensor": lambda at: after(
        lambda at: sensors.pause_sensor(at, "files"),
        lambda at: sensors.resume_sensor(at, "files"),
        at,
    ),
    "sql.run_sql": lambda at: sql.run_sql(at, "select run_id, state from runs"),
    "stale.list_stale": lambda at: stale.list_stale(at, stale.StaleQuery(limit=10)),
    "status.get_status": status.get_status,
    "ticks.preview_tick": lambda at: ticks.preview_tick(at, evaluator_of(at), "hourly"),
    "ticks.trigger_schedule": lambda at: ticks.trigger_schedule(at, evaluator_of(at), "hourly"),
}


@pytest.fixture(scope="module")
def filled() -> Workspace:
    """The shop, which takes seconds to fill; only copies of it are changed."""
    return shop()


@pytest.fixture
def workspace(filled: Workspace) -> Workspace:
    """A workspace of this test alone, in which something of every kind has happened."""
    return copy_of(filled)


def new_line(one: Operation) -> str:
    return f'    "{one.name}": lambda at: {one.name}(at, …),  # {signature(one.call)}'


# --- the catalog ----------------------------------------------------------------------------------


def test_every_operation_has_a_line_in_the_table_of_calls() -> None:
    lines = [new_line(one) for name, one in operations().items() if name not in CALLS]
    assert not lines, "\n".join([f"add to CALLS in {__file__}:", *lines])
    gone = sorted(set(CALLS) - set(operations()))
    assert not gone, f"CALLS in {__file__} has lines without an operation: {gone}"


def test_every_function_that_takes_a_workspace_is_declared_an_operation_or_a_step() -> None:
    assert misdeclared() == []


def test_a_function_that_is_neither_an_operation_nor_a_step_is_caught() -> None:
    assert misdeclared([planted("def drop_run(workspace: Workspace) -> None: ...")]) == [
        "planted.drop_run takes a workspace: declare it @operation or @step"
    ]


def test_a_workspace_that_is_last_or_has_another_name_or_may_be_none_is_caught_too() -> None:
    module = planted(
        """
        def last(run_id: str, workspace: Workspace) -> None: ...
        def named(at: Workspace) -> None: ...
        def perhaps(workspace: Workspace | None) -> None: ...
        """
    )
    assert [line.partition(" ")[0] for line in misdeclared([module])] == [
        "planted.last",
        "planted.named",
        "planted.perhaps",
    ]


@pytest.mark.parametrize("role", ["operation", "step"])
def test_an_operation_or_a_step_that_does_not_take_the_workspace_first_is_caught(role: str) -> None:
    module = planted(f"@{role}\ndef drop_run(run_id: str, workspace: Workspace) -> None: ...")
    assert misdeclared([module]) == [
        f"planted.drop_run is a {role}: make `workspace` its first parameter"
    ]


def test_functions_without_a_workspace_and_private_ones_need_no_declaration() -> None:
    module = planted(
        """
        def find(name: str) -> None: ...
        def _drop(workspace: Workspace) -> None: ...
        """
    )
    assert misdeclared([module]) == []


def test_a_step_is_no_operation() -> None:
    assert "run_requests.trigger_run" in operations()
    assert "run_requests.start_run" not in operations()


def planted(source: str) -> ModuleType:
    """A module with this source, as if it were one of the package."""
    module = ModuleType("planted")
    vars(module).update(Workspace=Workspace, operation=operation, step=step)
    exec(dedent(source), vars(module))  # noqa: S102 - a violation, planted to be caught
    return module


@pytest.mark.parametrize("name", sorted(CALLS.keys() & operations().keys()))
def test_an_operation_works_on_a_workspace_in_memory_and_answers_in_json(
    name: str, workspace: Workspace
) -> None:
    one, answered = operations()[name], CALLS[name](workspace)
    items = list(answered) if one.is_stream else [answered]
    assert items
    for item in items:
        found = msgspec.json.encode(item)
        again = msgspec.json.decode(found, type=one.result)
        assert msgspec.json.encode(again) == found


def test_the_schemas_of_the_operations_are_as_recorded() -> None:
    recorder = _recorder()
    told = (
        "an operation takes or answers something else than before; if that is meant, run "
        "`python tests/golden/record_operations.py` and look at the difference"
    )
    assert recorder.recorded() == recorder.FILE.read_bytes(), told


def _recorder() -> Any:
    spec = spec_from_file_location("recorder", GOLDEN / "record_operations.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
