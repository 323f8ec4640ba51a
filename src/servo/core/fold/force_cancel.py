"""End a run, or all runs of a backfill, at once, although executions may still be running.

Their leases are revoked: from now on no task of the run holds a slot, and the run is over, whether
or not a worker ever answers again. The executions stay named in their rows, so a late report of one
of them is recorded as late and promotes nothing.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from servo.core.events.runs import RunCancelRequested
from servo.core.events.tasks import TaskOutcome
from servo.core.fold.assets import record_attempt
from servo.core.fold.context import Ctx
from servo.core.fold.run_lifecycle import cancel_reason, end_tasks, ended
from servo.core.fold.tasks import partitions_made
from servo.core.state.rows.execution import TaskRow
from servo.core.state.state import State
from servo.core.state.states import CANCELLED, RUNNING, RunState


def end_executions(state: State, run_id: str, ctx: Ctx) -> None:
    """End the running executions of a run that is being stopped, and with them the run."""
    run = state.runs.rows[run_id]
    if run.state is not RunState.CANCELLING:
        return
    run = replace(run, cancel_forced=True, row_version=state.seq)
    state.runs.put(run_id, run)
    over: list[TaskRow] = []
    for row in _running(state, run_id):
        record_attempt(state, row, TaskOutcome.CANCELLED)
        stopped = ended(state, row, CANCELLED, cancel_reason(run))
        over.append(replace(stopped, outcome=TaskOutcome.CANCELLED))
    end_tasks(state, run, over, ctx)


def partitions_of_executions(
    state: State, event: RunCancelRequested
) -> Iterable[tuple[str, object]]:
    """The partitions whose rows note how the executions of a run ended."""
    return partitions_running(state, event.run_id) if event.force else ()


def partitions_running(state: State, run_id: str) -> list[tuple[str, object]]:
    """The partitions that the executions of a run are materializing."""
    return [place for row in _running(state, run_id) for place in partitions_made(row)]


def _running(state: State, run_id: str) -> list[TaskRow]:
    names = state.index.run_tasks.get(run_id, ())
    rows = (state.tasks.rows[run_id, name] for name in names)
    return [row for row in rows if row.state is RUNNING]
