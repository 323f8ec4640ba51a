"""`servo run cancel` and `servo backfill cancel`, with and without force."""

from pathlib import Path

import pytest

from servo.cli.main import run
from servo.core.events.backfills import (
    BackfillState,
)
from servo.core.events.dispatch import DispatchRequested, Handover
from servo.core.events.runs import PlanCreated
from servo.core.state.states import RunState
from servo.operations.backfills import get_backfill
from servo.operations.runs import get_run
from servo.testing.backfills import backfill_chunk, backfill_created
from servo.testing.builders import specs, task_key
from servo.workspace.address import Address
from servo.workspace.workspace import Workspace, open_workspace


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A workspace in which a worker that no longer answers has begun the run of a backfill."""
    monkeypatch.setenv("SERVO_STORE", str(tmp_path / "store"))
    workspace = open_workspace(Address.of(str(tmp_path / "store")), must_exist=False)
    created = backfill_created("day=d:2026-01-01", name="bf_1")
    workspace.submit(created).checked()
    plan = PlanCreated(run_id="run_1", fingerprint="plan", tasks=specs({"a": ()}))
    workspace.submit(*backfill_chunk(created), plan).checked()
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


@pytest.mark.parametrize(
    ("options", "state"), [([], BackfillState.CANCELLING), (["--force"], BackfillState.CANCELLED)]
)
def test_only_force_ends_a_backfill_whose_worker_does_not_answer(
    workspace: Workspace, options: list[str], state: BackfillState
) -> None:
    assert run(["backfill", "cancel", "bf_1", *options]) == 0
    assert get_backfill(workspace, "bf_1").backfill.state is state
    assert get_run(workspace, "run_1").run.cancel_forced is bool(options)


def test_a_backfill_that_is_being_cancelled_can_be_forced_to_end(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["backfill", "cancel", "bf_1"]) == 0
    assert run(["backfill", "cancel", "bf_1"]) == 4
    assert "`servo backfill cancel --force`" in capsys.readouterr().err
    assert run(["backfill", "cancel", "bf_1", "--force"]) == 0
    assert get_backfill(workspace, "bf_1").backfill.state is BackfillState.CANCELLED
