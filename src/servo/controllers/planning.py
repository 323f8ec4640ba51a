"""Runs that wait for a slot are admitted; large plans become tasks a segment at a time."""

from servo.controllers.actions import Propose
from servo.core.events.runs import PlanSegmentExpanded, RunAdmitted
from servo.core.fold.runs import free_run_slots
from servo.core.state.state import State

MAX_ADMITTED_PER_ROUND = 100


def reconcile(state: State) -> list[Propose]:
    """Admit as many waiting runs as fit, and expand one segment of one run.

    One segment a round bounds the round: the run that was expanded least recently goes first,
    and everything else the leader does gets its turn between two segments.
    """
    actions = [Propose((RunAdmitted(run_id=run),)) for run in _admissible(state)]
    for run_id in state.index.runs_expanding:
        run = state.runs.rows[run_id]
        index = run.segments_expanded
        digest = run.plan_segments[index].digest
        event = PlanSegmentExpanded(run_id=run_id, index=index, digest=digest)
        actions.append(Propose((event,)))
        break
    return actions


def _admissible(state: State) -> list[str]:
    waiting = state.index.runs_waiting
    if not waiting:
        return []
    room = min(MAX_ADMITTED_PER_ROUND, free_run_slots(state))
    by_priority = sorted(waiting, key=lambda run: -state.runs.rows[run].priority)
    return by_priority[: max(room, 0)]
