"""The status of a workspace: its assets, its runs and its leader."""

from collections import Counter
from datetime import datetime

import msgspec
from msgspec.structs import replace

from servo.core.events.backfills import BackfillState
from servo.core.freshness import FreshnessState
from servo.core.manifest import Manifest, check_leadable
from servo.core.state.rows.assets import AssetRow
from servo.core.state.rows.automation import BackfillRow
from servo.core.state.rows.conditions import AssetFreshnessRow
from servo.core.state.rows.execution import RunRow
from servo.core.state.states import TERMINAL_RUN_STATES, RunState
from servo.errors import NeedsUpgrade
from servo.leader.leases.lease import LeaderAdvert
from servo.operations.interface.listing import Page
from servo.operations.interface.roles import operation
from servo.operations.runs import newest_runs, waiting_runs
from servo.projection.read.lookup import Lookup
from servo.projection.read.reader import Snapshot
from servo.projection.read.replay import AsOf
from servo.workspace.answering import why_silent
from servo.workspace.workspace import Workspace

NEWEST = 5
MOST_LOOKED_AT = 20
"""Of so many open runs the tasks are looked at."""

_PAUSED = BackfillState.PAUSED

TOLD = (FreshnessState.FAIL, FreshnessState.WARN)


class WorkspaceStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A workspace in a few numbers and names, after the entry `applied_seq`.

    `failing` are assets whose last attempt failed, `missing` those that were never materialized.
    `open_backfills` have not finished, and those in `paused_backfills` are paused.
    `freshness` names the assets that miss their freshness policy, or are about to. `leader` is
    always the current one: past leaders are not recorded. `leader_silent` says why it does not
    respond and what to do; it is empty if it responds or is on another machine. `not_loaded` says
    why the leader could not load the current version of a code location, by location. `waiting` are
    open runs whose tasks wait for a worker of a code location that no process has loaded.
    `needs_upgrade` says why this version of Servo cannot lead the workspace; it is empty if it can.
    """

    applied_seq: int
    as_of: datetime
    assets: int
    failing: list[str]
    missing: list[str]
    freshness: dict[FreshnessState, list[str]]
    runs: dict[RunState, int]
    open_runs: list[str]
    waiting: list[RunRow]
    newest_runs: list[RunRow]
    open_backfills: list[str]
    paused_backfills: list[str]
    leader: LeaderAdvert | None = None
    leader_silent: str = ""
    not_loaded: dict[str, str] = {}
    needs_upgrade: str = ""


@operation
def get_status(workspace: Workspace, *, as_of: AsOf | None = None) -> WorkspaceStatus:
    """The status of the workspace, now or in the past."""
    leader = workspace.leader() if as_of is None else None
    found = workspace.read(lambda snapshot: _status(snapshot, leader), as_of=as_of)
    if leader is None:
        return found
    return replace(
        found,
        leader=replace(leader, code={}),  # long lists of files
        leader_silent=why_silent(leader),
        not_loaded={name: one.error for name, one in leader.code.items() if one.error},
    )


def _status(snapshot: Snapshot, leader: LeaderAdvert | None) -> WorkspaceStatus:
    lookup = Lookup(snapshot)
    assets = sorted(
        (row for row in lookup.all(AssetRow) if row.defined), key=lambda row: row.asset_key
    )
    states = _states(snapshot)
    open_runs = [run for run, state in states.items() if state not in TERMINAL_RUN_STATES]
    backfills = _unfinished_backfills(lookup)
    return WorkspaceStatus(
        applied_seq=snapshot.applied_seq,
        as_of=snapshot.as_of,
        assets=len(assets),
        failing=[row.asset_key for row in assets if row.consecutive_failures],
        missing=[row.asset_key for row in assets if row.last_materialization_id is None],
        freshness=_freshness(lookup, {row.asset_key for row in assets}),
        runs=dict(Counter(states.values())),
        open_runs=open_runs,
        waiting=_waiting(snapshot, open_runs[:MOST_LOOKED_AT]),
        newest_runs=newest_runs(snapshot, Page(limit=NEWEST)).items,
        open_backfills=[one.backfill_id for one in backfills if one.state is not _PAUSED],
        paused_backfills=[one.backfill_id for one in backfills if one.state is _PAUSED],
        leader=leader,
        needs_upgrade=_needs_upgrade(snapshot.manifest),
    )


def _needs_upgrade(manifest: Manifest) -> str:
    try:
        check_leadable(manifest)
    except NeedsUpgrade as error:
        return str(error)
    return ""


def _unfinished_backfills(lookup: Lookup) -> list[BackfillRow]:
    """Backfills that have not finished, newest first."""
    found = [row for row in lookup.all(BackfillRow) if row.finished_at is None]
    return sorted(found, key=lambda row: row.created_at, reverse=True)


def _waiting(snapshot: Snapshot, open_runs: list[str]) -> list[RunRow]:
    rows = Lookup(snapshot).any(RunRow, "run_id", open_runs) if open_runs else []
    return waiting_runs(snapshot, rows)


def _freshness(lookup: Lookup, defined: set[str]) -> dict[FreshnessState, list[str]]:
    judged = [row for row in lookup.all(AssetFreshnessRow) if row.asset_key in defined]
    return {state: sorted(row.asset_key for row in judged if row.state is state) for state in TOLD}


def _states(snapshot: Snapshot) -> dict[str, RunState]:
    """The state of every run, newest first, without making rows of them."""
    columns = snapshot.table("runs", only=("run_id", "state", "created_at"))
    rows: list[dict[str, str]] = columns.sort_by([("created_at", "descending")]).to_pylist()
    return {row["run_id"]: RunState(row["state"]) for row in rows}
