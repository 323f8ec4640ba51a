"""`servo run cancel`, with and without force."""

from pathlib import Path

import pytest

from servo.cli.main import run
from servo.core.events.dispatch import DispatchRequested, Handover
from servo.core.events.runs import PlanCreated, RunRequested
from servo.core.state.states import RunState
from servo.operations.runs import get_run
from servo.testing.builders import specs, task_key
from servo.workspace.address import Address
from servo.workspace.workspace import Workspace, open_workspace


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A workspace in which a worker that no longer answers has begun the task of a run."""
    monkeypatch.setenv("SERVO_STORE", str(tmp_path / "store"))
    workspace = open_workspace(Address.of(str(tmp_path / "store")), must_exist=False)
    request = RunRequested(run_id="run_1", run_key="k", request_fingerprint="fp")
    plan = PlanCreated(run_id="run_1", fingerprint="plan", tasks=specs({"a": ()}))
    workspace.submit(request, plan).checked()
    gone = Handover(exec_id="x", worker_id="gone")
    grant = DispatchRequested(run_id="run_1", task_key=task_key("a"), attempt=1, handover=gone)
    workspace.submit(grant).checked()
    return workspace


@pytest.mark.parametrize(
    ("options", "state"), [([], RunState.CANCELLING), (["--force"], RunState.CANCELLED)]
)
def test_only_force_ends_a_run_whose_worker_does_not_answer(
    workspace: Workspace, options: list[str], state: RunState
) -> None:
    assert run(["run", "cancel", "run_1", *options]) == 0
    found = get_run(workspace, "run_1").run
    assert (found.state, found.cancel_forced) == (state, bool(options))
