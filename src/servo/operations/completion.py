"""Shell completion: names in a workspace that start with the typed text."""

import msgspec

from servo.core.state.rows.assets import AssetRow
from servo.core.state.rows.automation import BackfillRow
from servo.core.state.rows.execution import RunRow
from servo.operations.interface.roles import operation
from servo.projection.read.lookup import Lookup
from servo.workspace.workspace import Workspace

MOST = 100


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """A name and its description."""

    value: str
    description: str = ""


@operation
def complete_assets(workspace: Workspace, typed: str) -> list[Completion]:
    """Asset keys that start with this text, in order."""
    rows = workspace.read(lambda snapshot: Lookup(snapshot).beginning(AssetRow, "asset_key", typed))
    return [Completion(value=key) for key in sorted(row.asset_key for row in rows)][:MOST]


@operation
def complete_runs(workspace: Workspace, typed: str) -> list[Completion]:
    """Ids of runs that start with this text, newest first, with their states."""
    rows = workspace.read(lambda snapshot: Lookup(snapshot).beginning(RunRow, "run_id", typed))
    rows.sort(key=lambda row: row.created_at, reverse=True)
    return [Completion(value=row.run_id, description=row.state.value) for row in rows[:MOST]]


@operation
def complete_backfills(workspace: Workspace, typed: str) -> list[Completion]:
    """Ids of backfills that start with this text, newest first, with their states."""
    rows = workspace.read(
        lambda snapshot: Lookup(snapshot).beginning(BackfillRow, "backfill_id", typed)
    )
    rows.sort(key=lambda row: row.created_at, reverse=True)
    return [Completion(value=row.backfill_id, description=row.state.value) for row in rows[:MOST]]
