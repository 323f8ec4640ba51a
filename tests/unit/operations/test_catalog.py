"""Every operation can be called with a workspace in memory, and a route is one line over one."""

import re
from collections.abc import Callable, Mapping
from importlib.util import module_from_spec, spec_from_file_location
from inspect import signature
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec
import pytest

from servo import StaticPartitionsDefinition, asset, checks, materialize
from servo.core.events.assets import AssetDefinition, DefinitionsDeployed
from servo.core.events.quotas import PoolLimitSet
from servo.core.events.runs import PlanCreated, RunRequested
from servo.core.keys import TaskOperation, task_key_text
from servo.core.plan import TaskSpec
from servo.errors import NotFound
from servo.leader.service import World
from servo.operations import (
    admin,
    assets,
    completion,
    dynamic_partitions,
    explain,
    logs,
    partitions,
    quarantine,
    quotas,
    runs,
    sql,
    status,
)
from servo.operations.catalog import Operation, operations
from servo.operations.listing import Page
from servo.workspace.address import Address
from servo.workspace.channels import AnyChannel
from servo.workspace.composition import in_memory
from servo.workspace.instance.instance import ServoInstance
from servo.workspace.system import SystemEntropy
from servo.workspace.workspace import Workspace

GOLDEN = Path(__file__).parents[2] / "golden"
RUN = "run_1"
ASSET = "ns/a"
LETTER = "letter"
POOL = "warehouse"
ALL = Page(limit=10)

# One line for every operation. What a call needs to find is told to the ledger by `STORY`.
CALLS: dict[str, Callable[[Workspace], Any]] = {
    "admin.collect_garbage": lambda at: admin.collect_garbage(at, plans=True),
    "admin.compare_projection": admin.compare_projection,
    "admin.inspect_workspace": admin.inspect_workspace,
    "admin.rebuild_projection": admin.rebuild_projection,
    "admin.verify_workspace": admin.verify_workspace,
    "assets.get_asset": lambda at: assets.get_asset(filled(at), LETTER),
    "assets.list_freshness_changes": lambda at: assets.list_freshness_changes(at, ASSET, ALL),
    "assets.list_outputs": lambda at: assets.list_outputs(filled(at), LETTER, ALL),
    "assets.preview_wipe": lambda at: assets.preview_wipe(filled(at), LETTER),
    "assets.wipe_asset": lambda at: assets.wipe_asset(filled(at), LETTER),
    "completion.complete_assets": lambda at: completion.complete_assets(at, "ns"),
    "completion.complete_backfills": lambda at: completion.complete_backfills(at, ""),
    "completion.complete_runs": lambda at: completion.complete_runs(at, "run"),
    "dynamic_partitions.add_partitions": lambda at: dynamic_partitions.add_partitions(
        at, "customers", ["acme"]
    ),
    "dynamic_partitions.delete_partitions": lambda at: dynamic_partitions.delete_partitions(
        with_customer(at), "customers", ["acme"]
    ),
    "dynamic_partitions.keys_of_set": lambda at: dynamic_partitions.keys_of_set(
        with_customer(at), "customers"
    ),
    "explain.explain_asset": lambda at: explain.explain_asset(at, ASSET),
    "explain.explain_missing": lambda at: explain.explain_missing(at, ASSET),
    "explain.explain_run": lambda at: explain.explain_run(at, RUN),
    "explain.explain_task": lambda at: explain.explain_task(at, RUN, ASSET),
    "logs.follow_logs": lambda at: logs.follow_logs(
        printed(at), logs.LogQuery(), wait=lambda: None
    ),
    "logs.get_logs": lambda at: logs.get_logs(printed(at), logs.LogQuery()),
    "partitions.count_partitions": lambda at: partitions.count_partitions(filled(at), LETTER),
    "partitions.list_partitions": lambda at: partitions.list_partitions(
        filled(at), LETTER, partitions.PartitionQuery(limit=2)
    ),
    "quarantine.approve_output": lambda at: quarantine.approve_output(at, held(at)),
    "quarantine.list_quarantine": lambda at: quarantine.list_quarantine(filled(at), ALL),
    "quarantine.reject_output": lambda at: quarantine.reject_output(at, held(at)),
    "quotas.get_quota": quotas.get_quota,
    "quotas.list_pools": quotas.list_pools,
    "quotas.remove_pool_limit": lambda at: quotas.remove_pool_limit(at, POOL),
    "quotas.set_pool_limit": lambda at: quotas.set_pool_limit(at, "api", 1),
    "quotas.set_quota": lambda at: quotas.set_quota(at, {"max_concurrent_runs": 2}),
    "runs.cancel_run": lambda at: runs.cancel_run(at, RUN, reason="enough"),
    "runs.get_run": lambda at: runs.get_run(at, RUN),
    "runs.list_runs": lambda at: runs.list_runs(at, ALL),
    "runs.runs_without_workers": lambda at: runs.runs_without_workers(
        at, [runs.get_run(at, RUN).run]
    ),
    "sql.run_sql": lambda at: sql.run_sql(at, "select run_id, labels, created_at from runs"),
    "status.get_status": status.get_status,
}


@asset(partitions_def=StaticPartitionsDefinition(["a", "b", "c"]))
def letter() -> None: ...


@asset(quarantine=True)
def doubtful() -> list[dict[str, int]]:
    return [{"id": 1}, {"id": 1}]


def filled(at: Workspace) -> Workspace:
    """The workspace, after assets were materialized in it."""
    world = World(at.store, at.clock, SystemEntropy())
    instance = ServoInstance(world, at.address)
    made = [letter, doubtful, checks.unique(doubtful, "id", blocking=True)]
    assert materialize(made, partition_key="b", instance=instance).success
    return at


def held(at: Workspace) -> str:
    """An output that waits for a decision."""
    return quarantine.list_quarantine(filled(at), ALL).items[0].materialization_id


def printed(at: Workspace) -> Workspace:
    """The workspace, after an asset printed something."""
    run = runs.list_runs(filled(at), ALL).items[0]
    task = runs.get_run(at, run.run_id).tasks[0]
    key = at.paths.log(run.run_id, task.task_key, 1, task.exec_id or "exec")
    _ = at.store.put(key, b"hello\n")
    return at


def with_customer(at: Workspace) -> Workspace:
    """The workspace, with a set of dynamic partitions."""
    _ = dynamic_partitions.add_partitions(at, "customers", ["acme"])
    return at


STORY = (
    (PoolLimitSet(pool=POOL, limit=2),),
    (DefinitionsDeployed(deployment_id="d1", assets=(AssetDefinition(asset_key=ASSET),)),),
    (
        RunRequested(run_id=RUN, run_key="k", request_fingerprint="f"),
        PlanCreated(
            run_id=RUN,
            fingerprint="p",
            tasks=(
                TaskSpec(
                    task_key=task_key_text(ASSET, None, TaskOperation.MATERIALIZE),
                    asset_key=ASSET,
                ),
            ),
        ),
    ),
)


@pytest.fixture
def workspace() -> Workspace:
    """A workspace of this process alone, in which something has happened."""
    address, world = Address("memory://catalog"), in_memory()
    made = Workspace(address, world, AnyChannel(address, world))
    for events in STORY:
        assert made.submit(*events).applied
    return made


def new_line(one: Operation) -> str:
    return f'    "{one.name}": lambda at: {one.name}(at, …),  # {signature(one.call)}'


# --- the catalog ----------------------------------------------------------------------------------


def test_every_operation_has_a_line_in_the_table_of_calls() -> None:
    lines = [new_line(one) for name, one in operations().items() if name not in CALLS]
    assert not lines, "\n".join([f"add to CALLS in {__file__}:", *lines])
    gone = sorted(set(CALLS) - set(operations()))
    assert not gone, f"CALLS in {__file__} has lines without an operation: {gone}"


@pytest.mark.parametrize("name", sorted(CALLS.keys() & operations().keys()))
def test_an_operation_works_on_a_workspace_in_memory_and_answers_in_json(
    name: str, workspace: Workspace
) -> None:
    answered, one = CALLS[name](workspace), operations()[name]
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


# --- a route is one line --------------------------------------------------------------------------

ROUTES: dict[tuple[str, str], str] = {
    ("GET", "/status"): "status.get_status",
    ("GET", "/runs"): "runs.list_runs",
    ("GET", "/runs/{run_id}"): "runs.get_run",
    ("POST", "/runs/{run_id}/cancel"): "runs.cancel_run",
    ("GET", "/runs/{run_id}/tasks/{task}/why"): "explain.explain_task",
}


def answer(workspace: Workspace, method: str, target: str) -> Any:
    """What a server that knows nothing but the table of routes would answer."""
    url = urlsplit(target)
    for (verb, pattern), name in ROUTES.items():
        place = re.fullmatch(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", pattern), url.path)
        if verb == method and place is not None:
            texts = {key: unquote(text) for key, text in place.groupdict().items()}
            one = operations()[name]
            given = _nested(one.parameters, texts | dict(parse_qsl(url.query)))
            return msgspec.json.decode(msgspec.json.encode(one.perform(workspace, given)))
    raise NotFound(f"there is no route {method} {url.path}")


def _nested(kind: type[msgspec.Struct], texts: Mapping[str, str]) -> dict[str, Any]:
    """Names of a URL, those of a struct that is a parameter in a dict of their own."""
    given: dict[str, Any] = dict(texts)
    for field in msgspec.structs.fields(kind):
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            names = field.type.__struct_fields__
            given[field.name] = {name: given.pop(name) for name in names if name in given}
    return given


def test_a_route_is_one_line_over_an_operation(workspace: Workspace) -> None:
    assert answer(workspace, "GET", f"/runs/{RUN}")["run"]["run_id"] == RUN
    assert [row["run_id"] for row in answer(workspace, "GET", "/runs?limit=5")["items"]] == [RUN]
    task = answer(workspace, "GET", f"/runs/{RUN}/tasks/ns%2Fa/why?whole=true")
    assert task["findings"][0]["subject"] == "ns/a:materialize"
    cancelled = answer(workspace, "POST", f"/runs/{RUN}/cancel?reason=too+late")
    assert cancelled["receipt"]["status"] == "applied"
    assert runs.get_run(workspace, RUN).run.cancel_reason == "too late"


def test_a_route_takes_moments_as_entries_or_instants(workspace: Workspace) -> None:
    now = answer(workspace, "GET", "/status")
    assert (now["assets"], now["runs"]) == (1, {"RUNNING": 1})
    before = answer(workspace, "GET", "/status?as_of=2")
    assert (before["applied_seq"], before["runs"]) == (2, {})
    assert answer(workspace, "GET", "/status?as_of=2999-01-01T00:00:00Z")["runs"] == now["runs"]


@pytest.mark.parametrize("target", ["/runs?limit=many", "/runs", "/status?colour=red"])
def test_a_route_refuses_parameters_that_the_operation_does_not_take(
    target: str, workspace: Workspace
) -> None:
    with pytest.raises(msgspec.ValidationError):
        _ = answer(workspace, "GET", target)
