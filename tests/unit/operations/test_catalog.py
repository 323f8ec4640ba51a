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

from servo.core.events.assets import AssetDefinition, DefinitionsDeployed
from servo.core.events.quotas import PoolLimitSet
from servo.core.events.runs import PlanCreated, RunRequested
from servo.core.keys import TaskOperation, task_key_text
from servo.core.plan import TaskSpec
from servo.errors import NotFound
from servo.operations import admin, explain, quotas, runs, status
from servo.operations.catalog import Operation, operations
from servo.operations.listing import Page
from servo.workspace.address import Address
from servo.workspace.channels import AnyChannel
from servo.workspace.composition import in_memory
from servo.workspace.workspace import Workspace

GOLDEN = Path(__file__).parents[2] / "golden"
RUN = "run_1"
ASSET = "ns/a"
POOL = "warehouse"
ALL = Page(limit=10)

# One line for every operation. What a call needs to find is told to the ledger by `STORY`.
CALLS: dict[str, Callable[[Workspace], Any]] = {
    "admin.collect_garbage": lambda at: admin.collect_garbage(at, plans=True),
    "admin.compare_projection": admin.compare_projection,
    "admin.inspect_workspace": admin.inspect_workspace,
    "admin.rebuild_projection": admin.rebuild_projection,
    "admin.verify_workspace": admin.verify_workspace,
    "explain.explain_asset": lambda at: explain.explain_asset(at, ASSET),
    "explain.explain_missing": lambda at: explain.explain_missing(at, ASSET),
    "explain.explain_run": lambda at: explain.explain_run(at, RUN),
    "explain.explain_task": lambda at: explain.explain_task(at, RUN, ASSET),
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
    "status.get_status": status.get_status,
}

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
    found = msgspec.json.encode(CALLS[name](workspace))
    again = msgspec.json.decode(found, type=operations()[name].result)
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
