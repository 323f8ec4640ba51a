"""Admit queued runs, and expand large plans one segment at a time.

Lanes share run slots too: the next one goes to the lane with the fewest active runs for its weight.
The active runs determine everything, so nothing carries over between rounds.
"""

from collections import Counter
from heapq import heapify, heappop, heappush

from servo.controllers.actions import Propose
from servo.core.events.runs import PlanSegmentExpanded, RunAdmitted
from servo.core.fold.quotas import MAX_WEIGHT, lane_weight
from servo.core.fold.runs import free_run_slots
from servo.core.state.state import State

MAX_ADMITTED_PER_ROUND = 100


def reconcile(state: State) -> list[Propose]:
    """Admit as many queued runs as fit, and expand one segment of one run.

    One segment per round bounds the round: the run that was expanded least recently goes first, and
    the leader's other work gets its turn between two segments.
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
    return _by_lane(state, room) if room > 0 else []


def _by_lane(state: State, room: int) -> list[str]:
    """The queued runs to start next: by priority within a lane, by weight across lanes."""
    runs = state.runs.rows
    lanes: dict[str, list[str]] = {}
    for run in sorted(state.index.runs_waiting, key=lambda run: runs[run].priority, reverse=True):
        lanes.setdefault(runs[run].lane, []).append(run)
    active = Counter(runs[run].lane for run in state.index.runs_active)
    cost = {lane: MAX_WEIGHT**2 // lane_weight(state, lane) for lane in lanes}
    heap = [((active[lane] + 1) * cost[lane], lane, iter(lanes[lane])) for lane in lanes]
    heapify(heap)
    chosen: list[str] = []
    while heap and len(chosen) < room:
        load, lane, waiting = heappop(heap)
        run = next(waiting, None)
        if run is not None:
            chosen.append(run)
            heappush(heap, (load + cost[lane], lane, waiting))
    return chosen
