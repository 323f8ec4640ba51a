"""Bugs in what the ledger means, in what is published of it, and in workers."""
# ruff: noqa: SLF001 - what is private is exactly what is broken here
# pyright: reportPrivateUsage=false

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from servo.controllers import anti_entropy
from servo.controllers import dispatch as dispatch_controller
from servo.core.events.sensors import SensorEvaluated
from servo.core.events.tasks import TaskOutcome
from servo.core.fold import apply, dispatch, run_lifecycle, sensors, tasks
from servo.core.fold.context import Rejected
from servo.core.state.index import Index
from servo.core.state.state import State
from servo.core.state.states import BLOCKED, RUNNING, Resolution
from servo.leader import engine
from servo.projection.publish.publisher import Publisher
from servo.projection.read import newest
from simulation import executing
from simulation.planting import Bug, swap

# --- the fold -------------------------------------------------------------------------------------

_open_entry = apply.open_entry


def _open_without_takeover_refresh(
    state: State, *, seq: int, epoch: int, ts: Any, stall: bool
) -> None:
    state.epoch = max(state.epoch, epoch)
    _open_entry(state, seq=seq, epoch=epoch, ts=ts, stall=stall)


def _open_without_stall_refresh(
    state: State, *, seq: int, epoch: int, ts: Any, stall: bool
) -> None:
    del stall
    _open_entry(state, seq=seq, epoch=epoch, ts=ts, stall=False)


_evaluated = sensors.RULES[SensorEvaluated]


def _stale_but_followed(state: State, event: Any, ctx: Any) -> None:
    """The head of a batch is refused and its followers apply all the same."""
    try:
        _evaluated(state, event, ctx)
    except Rejected:
        return


def _one_name_per_attempt(tenant: Any, workspace: Any, attempt: Any, delivery: int) -> Any:
    del delivery
    return _message_name(tenant, workspace, attempt, 1)


_message_name = dispatch.queue_message_name


def _one_id_per_attempt(row: Any, attempt: int) -> Any:
    return dispatch.attempt_id(row.run_id, row.task_key, attempt)


_started = tasks.RULES[tasks.TaskStarted]


def _everyone_granted(state: State, event: Any, ctx: Any) -> None:
    try:
        _started(state, event, ctx)
    except Rejected:
        ctx.data["grant"] = "granted"


def _deaf_sweep(state: State, now: Any, beats: Any) -> Any:
    del beats
    return _sweep(state, now, {})


_sweep = anti_entropy.reconcile


def _plenty(state: State) -> int:
    return 1000 + len(state.tasks.rows)


def _lost_and_counted(self: Index, key: Any, old: Any, new: Any) -> None:
    """A task whose worker was lost keeps its slot in its pool."""
    _on_task(self, key, old, new)
    if old is None or new is None or old.state is new.state or not old.pool:
        return
    if old.state is RUNNING and new.outcome is TaskOutcome.INTERRUPTED:
        self.pool_active[old.pool] = self.pool_active.get(old.pool, 0) + 1


_on_task = Index.on_task


def _ready_too_early(state: State, row: Any, how: Any) -> Any:
    """Any resolved upstream counts as a success of the last one."""
    last = row.deps_total - 1
    nearly = replace(row, deps_satisfied_count=last, deps_resolved_count=last)
    return _resolved(state, nearly, Resolution.SUCCESS if row.state is BLOCKED else how)


_resolved = run_lifecycle.resolved


# --- the projection -------------------------------------------------------------------------------


def _oldest_wins(spec: Any, table: Any) -> Any:
    """Rows are merged by something that is not the order of the ledger."""
    upside_down = table.set_column(
        table.column_names.index(newest.VERSION),
        newest.VERSION,
        newest.pc.negate(table.column(newest.VERSION)),
    )
    return _winners(spec, upside_down)


_winners = newest._winners


def _forgetful_restore(self: Publisher, state: State, capture: Any) -> None:
    self._end(state)
    del capture


def _no_claim(world: Any, process: Any, delivery: Any, exec_id: str) -> bool:
    _claim(world, process, delivery, exec_id)
    return True


_claim = executing.claim


BUGS: Mapping[str, Bug] = MappingProxyType(
    {
        "no_claim": Bug(
            what="workers run what they receive without a grant",
            plant=swap((executing, "claim", _no_claim)),
            seed=1,
        ),
        "everyone_granted": Bug(
            what="every claim is granted",
            plant=swap((apply, "RULES", {**apply.RULES, tasks.TaskStarted: _everyone_granted})),
            seed=1,
        ),
        "same_queue_name": Bug(
            what="a delivery is sent again under the same name",
            plant=swap((dispatch, "queue_message_name", _one_name_per_attempt)),
            seed=2,
        ),
        "same_attempt_after_giving_back": Bug(
            what="an execution that was handed back is granted again under the same attempt id",
            plant=swap((dispatch, "_id_of", _one_id_per_attempt)),
            seed=6,
        ),
        "no_refresh_on_takeover": Bug(
            what="a new leader does not renew leases",
            plant=swap(
                (apply, "open_entry", _open_without_takeover_refresh),
                (engine, "open_entry", _open_without_takeover_refresh),
            ),
            seed=3,
        ),
        "no_refresh_after_stall": Bug(
            what="a leader does not renew leases after a stall",
            plant=swap(
                (apply, "open_entry", _open_without_stall_refresh),
                (engine, "open_entry", _open_without_stall_refresh),
            ),
            seed=29,
        ),
        "deaf_sweep": Bug(
            what="the sweep for expired leases ignores heartbeats",
            plant=swap((anti_entropy, "reconcile", _deaf_sweep)),
            seed=1,
        ),
        "half_applied_batch": Bug(
            what="a stale evaluation is rejected, but the runs it requested are created",
            plant=swap((apply, "RULES", {**apply.RULES, SensorEvaluated: _stale_but_followed})),
            seed=0,
        ),
        "cap_ignored": Bug(
            what="the limit on tasks in flight is ignored",
            plant=swap(
                (dispatch, "free_slots", _plenty), (dispatch_controller, "free_slots", _plenty)
            ),
            seed=0,
        ),
        "lost_task_keeps_its_slot": Bug(
            what="a task whose worker was lost keeps its slot in its pool",
            plant=swap((Index, "on_task", _lost_and_counted)),
            seed=5,
        ),
        "ready_too_early": Bug(
            what="a task becomes ready when one of its upstream tasks has ended",
            plant=swap((run_lifecycle, "resolved", _ready_too_early)),
            seed=1,
        ),
        "merge_by_other_order": Bug(
            what="versions of a row are merged in another order than the ledger's",
            plant=swap((newest, "_winners", _oldest_wins)),
            seed=0,
        ),
        "lost_capture": Bug(
            what="rows of a failed publish are never published",
            plant=swap((Publisher, "restore", _forgetful_restore)),
            seed=0,
        ),
    }
)
