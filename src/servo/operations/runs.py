"""Runs: list them, show one, cancel one."""

from collections.abc import Sequence

import msgspec

from servo.core.events.runs import RunCancelRequested
from servo.core.explain.origins import Step, what_caused
from servo.core.explain.records import Records
from servo.core.state.rows.assets import CheckResultRow, MaterializationRow
from servo.core.state.rows.execution import RunRow, TaskRow
from servo.core.state.states import TERMINAL_RUN_STATES, RunState, TaskState
from servo.errors import Conflict, NotFound
from servo.operations.interface.listing import Listing, Page, listing_of
from servo.operations.interface.moments import PRESENT
from servo.operations.interface.roles import operation
from servo.projection.read.lookup import Lookup
from servo.projection.read.reader import Snapshot
from servo.projection.read.replay import AsOf
from servo.workspace.receipt import Receipt
from servo.workspace.workspace import Workspace


class RunDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A run, its tasks (those that failed first) and the checks that did not pass in it.

    `caused_by` is the request of the run, what led to it, what led to that, and so on.
    """

    run: RunRow
    tasks: list[TaskRow]
    failed_checks: list[CheckResultRow] = []
    caused_by: tuple[Step, ...] = ()


class RunListing(Listing[RunRow], frozen=True, kw_only=True):
    """A page of runs; `waiting` names those whose tasks wait for a worker of their location.

    No process has the code of that location; `servo resume` with it finishes them.
    """

    waiting: list[str]


class RunOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a run: its outputs, in order, and the checks that failed."""

    run: RunRow
    materializations: list[MaterializationRow]
    failed_checks: list[CheckResultRow]


class RunCancelled(msgspec.Struct, frozen=True, kw_only=True):
    """A run whose cancellation was requested, and the receipt."""

    run_id: str
    receipt: Receipt


@operation
def list_runs(workspace: Workspace, page: Page, *, as_of: AsOf | None = None) -> RunListing:
    """The newest runs, and which of them wait for a worker that has their code."""
    return workspace.read(lambda snapshot: run_listing(snapshot, page), as_of=as_of)


@operation
def get_run(
    workspace: Workspace, run_id: str | None = None, *, as_of: AsOf | None = None
) -> RunDetail:
    """One run and its tasks, by default the newest. The id can be abbreviated."""

    def detail(snapshot: Snapshot) -> RunDetail:
        return run_detail(snapshot, run_id or newest_run(snapshot).run_id)

    return workspace.read(detail, as_of=as_of)


@operation
def get_runs(
    workspace: Workspace, run_ids: Sequence[str], *, as_of: AsOf | None = None
) -> Listing[RunDetail]:
    """Several runs and their tasks, in the order in which they are named."""

    def details(snapshot: Snapshot) -> Listing[RunDetail]:
        return Listing(items=[run_detail(snapshot, run_id) for run_id in run_ids])

    return workspace.read(details, as_of=as_of)


@operation
def cancel_run(
    workspace: Workspace, run_id: str, *, reason: str = "", force: bool = False
) -> RunCancelled:
    """Cancel a run: no more of its tasks start, and running tasks are interrupted.

    With `force` the run ends at once, even if its workers do not respond.
    """
    run = workspace.read(lambda snapshot: find_run(Lookup(snapshot), run_id), as_of=PRESENT)
    if run.state in TERMINAL_RUN_STATES:
        raise Conflict(
            f"{run.run_id} has already ended: {run.state.value}",
            remedy=f"see `servo run show {run.run_id}`",
        )
    event = RunCancelRequested(
        run_id=run.run_id, requested_by=workspace.actor, reason=reason, force=force
    )
    return RunCancelled(run_id=run.run_id, receipt=workspace.submit(event).checked())


@operation
def get_run_outcome(workspace: Workspace, run_id: str, *, as_of: AsOf | None = None) -> RunOutcome:
    """What a run materialized and which of its checks failed. The id can be abbreviated."""

    def outcome(snapshot: Snapshot) -> RunOutcome:
        run = find_run(Lookup(snapshot), run_id)
        return RunOutcome(
            run=run,
            materializations=outputs_of(snapshot, run.run_id),
            failed_checks=failed_checks(snapshot, run.run_id),
        )

    return workspace.read(outcome, as_of=as_of)


# --- what a snapshot knows ------------------------------------------------------------------------


def newest_runs(snapshot: Snapshot, page: Page) -> Listing[RunRow]:
    """A page of runs, newest first."""
    found = Lookup(snapshot).page(RunRow, page, name="run_id", newest=("created_at",))
    return listing_of(found)


def run_listing(snapshot: Snapshot, page: Page) -> RunListing:
    """A page of runs, newest first, and which of them wait for a worker of their location."""
    found = newest_runs(snapshot, page)
    waiting = [row.run_id for row in waiting_runs(snapshot, found.items)]
    return RunListing(items=found.items, next_cursor=found.next_cursor, waiting=waiting)


def run_detail(snapshot: Snapshot, run_id: str) -> RunDetail:
    """A run and its tasks, those that failed first."""
    lookup = Lookup(snapshot)
    run = find_run(lookup, run_id)
    tasks = lookup.all(TaskRow, run_id=run.run_id)
    return RunDetail(
        run=run,
        tasks=sorted(tasks, key=lambda task: (task.state is not TaskState.FAILED, task.task_key)),
        failed_checks=failed_checks(snapshot, run.run_id),
        caused_by=what_caused(Records(lookup, snapshot.as_of), run),
    )


def newest_run(snapshot: Snapshot) -> RunRow:
    """The run that was created last."""
    newest = newest_runs(snapshot, Page(limit=1)).items
    if not newest:
        raise NotFound("there are no runs yet", remedy="start one with `servo materialize`")
    return newest[0]


def find_run(lookup: Lookup, run_id: str) -> RunRow:
    """The run whose id starts with this text."""
    found = lookup.beginning(RunRow, "run_id", run_id)
    exact = [row for row in found if row.run_id == run_id]
    if exact or len(found) == 1:
        return (exact or found)[0]
    if not found:
        raise NotFound(f"there is no run {run_id}", remedy="see `servo run list`")
    raise Conflict(f"{run_id} matches {len(found)} runs", remedy="use more characters of the id")


def outputs_of(snapshot: Snapshot, run_id: str) -> list[MaterializationRow]:
    """What a run materialized, in order."""
    made = Lookup(snapshot).all(MaterializationRow, run_id=run_id)
    return sorted(made, key=lambda row: row.created_seq)


def failed_checks(snapshot: Snapshot, run_id: str) -> list[CheckResultRow]:
    """The checks of a run whose last result was a failure, by what they check."""
    found = Lookup(snapshot).all(CheckResultRow, run_id=run_id)
    last = {
        (row.asset_key, row.partition_key or "", row.check_name): row
        for row in sorted(found, key=lambda row: row.evaluated_at)
    }
    return [last[key] for key in sorted(last) if not last[key].passed]


def waiting_runs(snapshot: Snapshot, runs: Sequence[RunRow]) -> list[RunRow]:
    """The runs with ready tasks of which none is running: no worker has their code."""
    lookup = Lookup(snapshot)
    open_ = [row for row in runs if row.location and row.state is RunState.RUNNING]
    return [row for row in open_ if _waits(lookup.values("tasks", "state", run_id=row.run_id))]


def _waits(states: Sequence[str]) -> bool:
    return TaskState.READY in states and not {TaskState.DISPATCHED, TaskState.RUNNING} & {*states}
