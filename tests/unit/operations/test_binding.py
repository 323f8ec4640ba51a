"""A route is one line over an operation: requests are bound to any operation by its types alone."""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec
import pytest

from servo.errors import Invalid, NotFound
from servo.operations.interface.binding import (
    LOCATION,
    PROVIDED,
    Binder,
    Dependencies,
    InvalidParameter,
    OperationRequest,
    parameter_names,
)
from servo.operations.interface.catalog import operations
from servo.operations.interface.evaluating import Evaluates
from servo.operations.interface.listing import Page
from servo.operations.partitions import PartitionQuery
from servo.operations.runs import get_run, list_runs
from servo.operations.stale import StaleQuery
from servo.testing.shop import RUN, copy_of, evaluator_of, shop
from servo.workspace.workspace import Workspace

ROUTES: dict[tuple[str, str], str] = {
    ("GET", "/status"): "status.get_status",
    ("GET", "/runs"): "runs.list_runs",
    ("POST", "/runs"): "run_requests.trigger_run",
    ("POST", "/runs/plan"): "run_requests.plan_run",
    ("GET", "/runs/{run_id}"): "runs.get_run",
    ("GET", "/runs/{run_id}/outcome"): "runs.get_run_outcome",
    ("POST", "/runs/{run_id}/cancel"): "runs.cancel_run",
    ("POST", "/runs/{run_id}/retry"): "run_requests.retry_run",
    ("GET", "/runs/{run_id}/tasks/{task}/why"): "explain.explain_task",
    ("GET", "/runs/{run}/logs"): "logs.get_logs",
    ("GET", "/runs/{run}/logs/stream"): "logs.follow_logs",
    ("POST", "/backfills"): "backfill_requests.create_backfill",
    ("POST", "/backfills/preview"): "backfill_requests.preview_backfill",
    ("GET", "/automation/evaluate"): "condition_previews.preview_automation",
    ("POST", "/schedules/{name}/trigger"): "ticks.trigger_schedule",
    ("GET", "/schedules/{name}/tick"): "ticks.preview_tick",
    ("POST", "/sensors/{name}/evaluate"): "sensor_trials.evaluate_sensor",
    ("PUT", "/quotas"): "quotas.set_quota",
}


@pytest.fixture(scope="module")
def filled() -> Workspace:
    """The shop, which takes seconds to fill; only copies of it are changed."""
    return shop()


@pytest.fixture
def workspace(filled: Workspace) -> Workspace:
    """A workspace of this test alone, in which something of every kind has happened."""
    return copy_of(filled)


class Server:
    """A server that knows nothing but the table of routes."""

    def __init__(self, workspace: Workspace) -> None:
        self.locations: list[str] = []
        self._workspace = workspace
        self._binder = Binder(workspace, Dependencies(self._evaluator, wait=pytest.fail))

    def answer(self, method: str, target: str, body: Any = None) -> Any:
        """What a request answers: a value, or the list of what a stream sends."""
        url, data = urlsplit(target), b"" if body is None else msgspec.json.encode(body)
        for (verb, pattern), name in ROUTES.items():
            place = re.fullmatch(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", pattern), url.path)
            if verb == method and place is not None:
                path = {key: unquote(text) for key, text in place.groupdict().items()}
                request = OperationRequest(path=path, query=parse_qsl(url.query), body=data)
                return _read(self._binder.respond(operations()[name], request))
        raise NotFound(f"there is no route {method} {url.path}")

    def _evaluator(self, location: str) -> Evaluates:
        self.locations.append(location)
        return evaluator_of(self._workspace)


def _read(answered: bytes | Iterator[bytes]) -> Any:
    if isinstance(answered, bytes):
        return msgspec.json.decode(answered)
    return [msgspec.json.decode(item) for item in answered]


@pytest.fixture
def server(workspace: Workspace) -> Server:
    return Server(workspace)


# --- routes ---------------------------------------------------------------------------------------


def test_a_read_takes_its_parameters_from_path_and_query(server: Server) -> None:
    assert server.answer("GET", f"/runs/{RUN}")["run"]["run_id"] == RUN
    listed = server.answer("GET", "/runs?limit=2")
    assert [row["run_id"] for row in listed["items"]] == ["run_chunk", RUN]
    assert listed["waiting"] == []
    older = server.answer("GET", f"/runs?limit=2&before={listed['next_cursor']}")
    assert [row["state"] for row in older["items"]] == ["SUCCEEDED"]
    outcome = server.answer("GET", f"/runs/{older['items'][0]['run_id']}/outcome")
    assert [row["asset_key"] for row in outcome["materializations"]] == ["numbers", "prices"]
    task = server.answer("GET", f"/runs/{RUN}/tasks/numbers%3Amaterialize/why?whole=true")
    assert task["findings"][0]["subject"] == "numbers:materialize"


def test_a_read_takes_moments_as_entries_or_instants(server: Server) -> None:
    now = server.answer("GET", "/status")
    assert now["runs"] == {"RUNNING": 1, "FAILED": 1, "SUCCEEDED": 1}
    before = server.answer("GET", "/status?as_of=2")
    assert (before["applied_seq"], before["runs"]) == (2, {})
    assert server.answer("GET", "/status?as_of=2999-01-01T00:00:00Z")["runs"] == now["runs"]


def test_a_write_takes_its_parameters_from_the_path_and_a_body(
    server: Server, workspace: Workspace
) -> None:
    cancelled = server.answer("POST", f"/runs/{RUN}/cancel", {"reason": "too late"})
    assert cancelled["receipt"]["status"] == "applied"
    assert get_run(workspace, RUN).run.cancel_reason == "too late"
    changed = server.answer("PUT", "/quotas", {"limits": {"max_concurrent_runs": None}})
    assert changed["limits"] == {"max_concurrent_runs": None}


def test_a_run_is_triggered_by_a_body_and_planned_by_the_evaluator_of_its_location(
    server: Server, workspace: Workspace
) -> None:
    body = {"select": ["total"], "tags": {"team": "a"}, "priority": 3, "location": "shop.py"}
    planned = server.answer("POST", "/runs/plan", body)
    assert [task["asset_key"] for task in planned["tasks"]] == ["total"]
    triggered = server.answer("POST", "/runs", body)
    assert triggered["created"] is True
    assert server.locations == ["shop.py", "shop.py"]
    newest = list_runs(workspace, Page(limit=1)).items[0]
    assert newest.run_id == triggered["run_id"]
    assert newest.labels["team"] == "a"


def test_other_operations_with_an_evaluator_are_routes_too(server: Server) -> None:
    again = server.answer("POST", f"/runs/{RUN}/retry", {"everything": True})
    assert again["created"] is True
    chosen = {"choice": {"keys": ["c"]}, "request_id": "new", "location": "shop.py"}
    begun = server.answer("POST", "/backfills", {"select": ["letter"], **chosen})
    assert (begun["partitions"], begun["runs"]) == (1, 1)
    asked = server.answer("GET", "/automation/evaluate?select=total&select=numbers")
    assert [one["asset_key"] for one in asked["items"]] == ["total"]
    tick = server.answer("GET", "/schedules/hourly/tick?at=2026-01-31T12:00:00Z")
    assert tick["scheduled_for"] == "2026-01-31T12:00:00Z"
    assert len(server.answer("POST", "/schedules/hourly/trigger")["run_ids"]) == 1
    seen = server.answer("POST", "/sensors/files/evaluate", {"commit": True})
    assert (seen["message"], seen["receipt"]["status"]) == ("no files", "applied")
    assert server.locations == ["", "shop.py", "", "", "", ""]


def test_a_stream_answers_item_by_item(server: Server, workspace: Workspace) -> None:
    rows = list_runs(workspace, Page(limit=10)).items
    run = next(row.run_id for row in rows if row.state.value == "SUCCEEDED")
    chunks = server.answer("GET", f"/runs/{run}/logs/stream?asset=numbers")
    assert [chunk["text"] for chunk in chunks] == ["counting\n"]
    assert server.answer("GET", f"/runs/{run}/logs")["items"] == chunks


def test_a_tick_without_an_offset_is_in_the_time_zone_of_its_schedule(server: Server) -> None:
    tick = server.answer("GET", "/schedules/hourly/tick?at=2026-01-31T12:00:00")
    assert tick["scheduled_for"] == "2026-01-31T12:00:00Z"


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "parameter", "message"),
    [
        ("/runs?limit=many", "limit", "invalid value for limit: 'many'; pass an integer"),
        ("/runs?limit=1&limit=2", "limit", "the parameter limit is given 2 times; give it once"),
        (
            "/status?colour=red",
            "colour",
            "status.get_status has no parameter colour; remove it, or use some of: as_of",
        ),
        (
            "/status?as_of=noon",
            "as_of",
            "invalid value for as_of: 'noon'; "
            "pass an integer or an instant such as 2026-01-31T12:00:00Z or null",
        ),
        (
            "/status?as_of=2026-01-31T12:00:00",
            "as_of",
            "invalid value for as_of: '2026-01-31T12:00:00'; "
            "pass an integer or an instant such as 2026-01-31T12:00:00Z or null",
        ),
        (
            f"/runs/{RUN}?run_id=other",
            "run_id",
            "the parameter run_id is given in two places; "
            "give it once: in the path, in the query or in the body",
        ),
    ],
)
def test_a_parameter_that_does_not_fit_is_named(
    target: str, parameter: str, message: str, server: Server
) -> None:
    with pytest.raises(InvalidParameter) as refused:
        server.answer("GET", target)
    assert (refused.value.parameter, str(refused.value)) == (parameter, message)


@pytest.mark.parametrize(
    ("body", "parameter", "message"),
    [
        ({"priority": "3"}, "priority", "invalid value for priority: '3'; pass an integer"),
        ({"select": "total"}, "select", "invalid value for select: 'total'; pass a list"),
        (
            {"select": ["total", 1]},
            "select[1]",
            "invalid value for select[1]: expected str, got int; see the schema of select",
        ),
        ({"location": 1}, "location", "invalid value for location: 1; pass text"),
    ],
)
def test_a_value_of_a_body_that_does_not_fit_is_named(
    body: Any, parameter: str, message: str, server: Server
) -> None:
    with pytest.raises(InvalidParameter) as refused:
        server.answer("POST", "/runs", body)
    assert (refused.value.parameter, str(refused.value)) == (parameter, message)


def test_a_parameter_that_is_missing_is_named(server: Server) -> None:
    with pytest.raises(InvalidParameter) as refused:
        server.answer("PUT", "/quotas", {})
    message = "the parameter limits is missing; pass limits"
    assert (refused.value.parameter, str(refused.value)) == ("limits", message)


def test_a_body_that_is_no_json_object_is_refused(workspace: Workspace) -> None:
    binder = Binder(workspace, Dependencies(pytest.fail, wait=pytest.fail))
    one = operations()["runs.list_runs"]
    with pytest.raises(Invalid, match="the body is not a JSON object"):
        binder.respond(one, OperationRequest(body=b"[1]"))
    with pytest.raises(Invalid, match="invalid JSON in the body"):
        binder.respond(one, OperationRequest(body=b"{"))


PAGED: list[tuple[str, dict[str, str]]] = [
    ("runs.list_runs", {}),
    ("stale.list_stale", {}),
    ("partitions.list_partitions", {"asset": "orders"}),
]


@pytest.mark.parametrize(("name", "path"), PAGED)
@pytest.mark.parametrize("limit", ["0", "-1", "501", "9" * 18])
def test_the_size_of_a_page_has_a_range(
    name: str, path: dict[str, str], limit: str, workspace: Workspace
) -> None:
    binder = Binder(workspace, Dependencies(pytest.fail, wait=pytest.fail))
    with pytest.raises(Invalid) as refused:
        binder.respond(operations()[name], OperationRequest(path=path, query=[("limit", limit)]))
    assert str(refused.value) == f"invalid limit: {limit}; use a whole number from 1 to 500"


def test_a_page_has_fifty_rows_unless_told() -> None:
    assert Page().limit == PartitionQuery().limit == StaleQuery().limit == 50
    assert Page(limit=500).limit == 500


@pytest.mark.parametrize("priority", [-1_000_000_001, 1_000_000_001])
def test_a_priority_out_of_range_is_refused(priority: int, server: Server) -> None:
    with pytest.raises(Invalid, match=f"invalid priority: {priority}; use a whole number from -1"):
        server.answer("POST", "/runs", {"select": ["total"], "priority": priority})


# --- every operation ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(operations()))
def test_every_operation_can_be_bound(name: str) -> None:
    """No name means two parameters, and a server can supply all that no request carries."""
    one = operations()[name]
    names = parameter_names(one)
    assert len(names) == len(set(names))
    assert {name for name, needed in one.dependencies.items() if needed} <= PROVIDED


def test_location_is_no_parameter_of_operations_but_whose_code_it_is() -> None:
    named = [name for name, one in operations().items() if LOCATION in parameter_names(one)]
    assert named == ["backfill_requests.create_backfill", "backfill_requests.preview_backfill"]
