"""Automation conditions: list them, explain their evaluations, pause and resume their sensors."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from servo.core.automation.telling import lacking, read_tree
from servo.core.automation.trees import Tree
from servo.core.events.runs import AutomationSource
from servo.core.events.sensors import SensorPaused, SensorResumed
from servo.core.explain.conditions import requested_words
from servo.core.state.rows.conditions import AutomationEvaluationRow
from servo.core.state.rows.execution import RunRow
from servo.core.state.states import SensorStatus
from servo.errors import NotFound
from servo.operations.interface.listing import Listing, Page
from servo.operations.interface.moments import PRESENT, AsOf
from servo.operations.interface.roles import operation
from servo.operations.triggers.conditions import (
    ListedCondition,
    all_conditions,
    condition_of,
    find_condition_sensor,
)
from servo.operations.triggers.sensors import SensorChanged, check_not_paused, check_stopped
from servo.projection.read.lookup import Lookup, Paged
from servo.projection.read.reader import Snapshot
from servo.workspace.workspace import Workspace


class ConditionEvaluation(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded evaluation of a condition, without its tree, and the run that it requested.

    `outcome` says in words what it requested.
    """

    sensor_id: str
    asset_key: str
    tick: int
    evaluated_at: datetime
    requested: str
    requested_count: int
    outcome: str
    row_version: int
    run_id: str | None = None


class ConditionDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A condition, an evaluation of it with its tree, and what has to become true for a request.

    The tree is None if nothing was evaluated yet, or if it was too large to be kept.
    """

    asset: ListedCondition
    evaluation: ConditionEvaluation | None
    tree: Tree | None
    lacking: list[str]


# --- reading --------------------------------------------------------------------------------------


@operation
def list_conditions(workspace: Workspace, *, as_of: AsOf | None = None) -> Listing[ListedCondition]:
    """Every asset and check with an automation condition, by its key."""
    return workspace.read(lambda snapshot: Listing(items=all_conditions(snapshot)), as_of=as_of)


@operation
def get_condition(
    workspace: Workspace, name: str, *, tick: int | None = None, as_of: AsOf | None = None
) -> ConditionDetail:
    """The condition of an asset or a check (`asset:check`) and its newest evaluation, or one."""

    def detail(snapshot: Snapshot) -> ConditionDetail:
        listed = condition_of(snapshot, name)
        if tick is None:
            row = next(iter(_page(snapshot, listed, Page(limit=1)).rows), None)
        else:
            row = _evaluation_at(snapshot, listed, tick)
        tree = None if row is None else read_tree(row.tree)
        return ConditionDetail(
            asset=listed,
            evaluation=None if row is None else _with_runs(snapshot, [row])[0],
            tree=tree,
            lacking=[] if tree is None else lacking(tree),
        )

    return workspace.read(detail, as_of=as_of)


@operation
def list_condition_evaluations(
    workspace: Workspace, name: str, page: Page, *, as_of: AsOf | None = None
) -> Listing[ConditionEvaluation]:
    """The newest recorded evaluations of the condition of an asset or a check."""

    def history(snapshot: Snapshot) -> Listing[ConditionEvaluation]:
        found = _page(snapshot, condition_of(snapshot, name), page)
        return Listing(items=_with_runs(snapshot, found.rows), next_cursor=found.older)

    return workspace.read(history, as_of=as_of)


# --- changing -------------------------------------------------------------------------------------


@operation
def pause_automation(workspace: Workspace, name: str | None = None) -> SensorChanged:
    """Pause a sensor that evaluates conditions: the named one, the default one, or the only one."""
    sensor, status = _present(workspace, name)
    check_not_paused(sensor, status)
    event = SensorPaused(sensor_id=sensor, changed_by=workspace.actor)
    return SensorChanged(sensor_id=sensor, receipt=workspace.submit(event).checked())


@operation
def resume_automation(workspace: Workspace, name: str | None = None) -> SensorChanged:
    """Resume a sensor that evaluates conditions; it takes into account what changed meanwhile."""
    sensor, status = _present(workspace, name)
    check_stopped(sensor, status)
    event = SensorResumed(sensor_id=sensor, changed_by=workspace.actor)
    return SensorChanged(sensor_id=sensor, receipt=workspace.submit(event).checked())


def _present(workspace: Workspace, name: str | None) -> tuple[str, SensorStatus]:
    return workspace.read(lambda found: find_condition_sensor(found, name), as_of=PRESENT)


# --- what a snapshot knows ------------------------------------------------------------------------


def _page(
    snapshot: Snapshot, listed: ListedCondition, page: Page
) -> Paged[AutomationEvaluationRow]:
    """The evaluations of a condition, newest first, whichever sensor evaluated it."""
    return Lookup(snapshot).page(
        AutomationEvaluationRow, page, name="tick", asset_key=listed.asset_key
    )


def _evaluation_at(
    snapshot: Snapshot, listed: ListedCondition, tick: int
) -> AutomationEvaluationRow:
    where = {"asset_key": listed.asset_key, "tick": str(tick)}
    for row in Lookup(snapshot).rows("automation_evaluations", most=1, **where):
        if isinstance(row, AutomationEvaluationRow):
            return row
    raise NotFound(
        f"evaluation {tick} of {listed.asset_key} was not recorded",
        remedy=f"see the recorded ones with `servo automation history {listed.asset_key}`",
    )


def _with_runs(
    snapshot: Snapshot, rows: Sequence[AutomationEvaluationRow]
) -> list[ConditionEvaluation]:
    """Evaluations with the runs that they requested."""
    runs = {
        (run.source.sensor_id, run.source.tick): run.run_id
        for run in (snapshot.rows("runs") if any(row.requested_count for row in rows) else ())
        if isinstance(run, RunRow) and isinstance(run.source, AutomationSource)
    }
    return [
        ConditionEvaluation(
            sensor_id=row.sensor_id,
            asset_key=row.asset_key,
            tick=row.tick,
            evaluated_at=row.evaluated_at,
            requested=row.requested,
            requested_count=row.requested_count,
            outcome=requested_words(row.requested_count, read_tree(row.tree)),
            row_version=row.row_version,
            run_id=runs.get((row.sensor_id, row.tick)) if row.requested_count else None,
        )
        for row in rows
    ]
