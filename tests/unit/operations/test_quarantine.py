"""Operations on quarantine: what waits, why, and what a decision does."""

import pytest

from servo import asset, checks, materialize
from servo.core.state.rows.assets import MaterializationRow
from servo.errors import Conflict, NotFound
from servo.operations.assets import get_asset
from servo.operations.interface.listing import Page
from servo.operations.quarantine import approve_output, list_quarantine, reject_output
from servo.testing.operating import workspace_of
from servo.workspace.instance.instance import ServoInstance
from servo.workspace.workspace import Workspace

ALL = Page(limit=100)


@asset(quarantine=True)
def orders() -> list[dict[str, int]]:
    return [{"id": 1}, {"id": 1}]


CHECKS = [
    checks.unique(orders, "id", blocking=True),
    checks.row_count(orders, max=1, severity="WARN"),
]


@pytest.fixture
def workspace() -> Workspace:
    instance = ServoInstance.ephemeral()
    for _ in range(3):
        _ = materialize([orders, *CHECKS], instance=instance)
    return workspace_of(instance)


def latest(workspace: Workspace) -> str | None:
    return get_asset(workspace, "orders").asset.last_materialization_id


def test_what_waits_is_paged_newest_first_with_the_checks_that_hold_it(
    workspace: Workspace,
) -> None:
    first = list_quarantine(workspace, Page(limit=2))
    rest = list_quarantine(workspace, Page(limit=2, before=first.next_cursor))
    found = [*first.items, *rest.items]
    assert (len(found), rest.next_cursor) == (3, None)
    assert [row.created_seq for row in found] == sorted(
        (row.created_seq for row in found), reverse=True
    )
    for row in found:
        assert [check.check_name for check in row.failed_checks] == ["unique_id"]
    with pytest.raises(NotFound):
        _ = list_quarantine(workspace, Page(limit=2, before="nothing"))


def test_an_approved_output_is_the_latest_unless_a_newer_one_is(workspace: Workspace) -> None:
    newest, middle, oldest = list_quarantine(workspace, ALL).items
    approved = approve_output(workspace, middle.materialization_id, reason="looked at it")
    assert (approved.is_latest, approved.receipt.applied) == (True, True)
    assert latest(workspace) == middle.materialization_id
    late = approve_output(workspace, oldest.materialization_id)
    assert late.is_latest is False
    assert latest(workspace) == middle.materialization_id
    left = list_quarantine(workspace, ALL).items
    assert [row.materialization_id for row in left] == [newest.materialization_id]
    then = list_quarantine(workspace, ALL, as_of=approved.receipt.seq - 1).items
    assert then == [newest, middle, oldest]


def test_a_decision_keeps_who_made_it_and_why_and_is_made_once(workspace: Workspace) -> None:
    newest = list_quarantine(workspace, ALL).items[0].materialization_id
    assert reject_output(workspace, newest, reason="bad").approved is False
    rows = workspace.read(lambda snapshot: snapshot.rows("materializations"))
    (row,) = (
        row
        for row in rows
        if isinstance(row, MaterializationRow) and row.materialization_id == newest
    )
    assert (row.decided_by, row.decision_reason) == ("user:ada@laptop", "bad")
    with pytest.raises(Conflict, match="already rejected"):
        _ = approve_output(workspace, newest)
    assert latest(workspace) is None


def test_an_id_that_begins_several_outputs_or_none_is_refused(workspace: Workspace) -> None:
    with pytest.raises(Conflict, match="matches 3 outputs in quarantine"):
        _ = approve_output(workspace, "")
    with pytest.raises(NotFound, match="no output nothing in quarantine"):
        _ = approve_output(workspace, "nothing")
