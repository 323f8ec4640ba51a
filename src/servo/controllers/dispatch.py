"""Ready tasks get attempts: fairly across lanes, by priority within one, within all limits.

The work is proportional to what is dispatched. Pools that are full are passed over by pool, not
task by task, so a full pool with a million ready tasks starves nobody and costs nothing.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from heapq import heapify, heappop, heappush

import msgspec

from servo.controllers.actions import Propose, Send
from servo.controllers.fairness import Fairness, share
from servo.core.events.dispatch import DispatchRequested, Handover
from servo.core.fold.dispatch import free_in_pool, free_in_queue, free_slots
from servo.core.fold.quotas import lane_weight
from servo.core.state.index import ReadySet, TaskPk
from servo.core.state.state import State

MAX_PER_ROUND = 1_000


class IdleWorker(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that waits for a task, with the execution id its next one gets.

    With `one_of_many` this is one of several places of the worker, told apart by `exec_id`.
    """

    worker_id: str
    exec_id: str
    one_of_many: bool = False


def hand_over(
    state: State, idle: Sequence[IdleWorker], fairness: Fairness
) -> tuple[list[Propose], Fairness]:
    """Give ready tasks to workers that wait: the grant rides in the dispatch."""
    keys, fairness = pick(state, len(idle), fairness)
    events = [
        _request(state, key, Handover(exec_id=worker.exec_id, worker_id=worker.worker_id))
        for key, worker in zip(keys, idle, strict=False)
    ]
    return _together(events), fairness


def dispatch(state: State, fairness: Fairness) -> tuple[list[Propose], Fairness]:
    """Give ready tasks attempts that a queue will deliver."""
    keys, fairness = pick(state, min(MAX_PER_ROUND, free_in_queue(state)), fairness)
    return _together([_request(state, key, None) for key in keys]), fairness


def _together(events: list[DispatchRequested]) -> list[Propose]:
    """One batch: chosen from one state within all limits, they fit it together."""
    return [Propose(tuple(events))] if events else []


def outbox(state: State, in_flight: dict[tuple[str, int], None]) -> list[Send]:
    """Deliveries that are committed and that no queue has taken yet."""
    rows = state.outbox.rows
    return [Send(rows[key]) for key in state.index.outbox_pending if key not in in_flight]


def _request(state: State, key: TaskPk, handover: Handover | None) -> DispatchRequested:
    return DispatchRequested(
        run_id=key[0],
        task_key=key[1],
        attempt=state.tasks.rows[key].attempt + 1,
        handover=handover,
    )


def pick(state: State, room: int, fairness: Fairness) -> tuple[list[TaskPk], Fairness]:
    """The ready tasks to go next: at most `room`, and no more than slots and pools admit."""
    room = min(room, free_slots(state))
    if room <= 0 or not state.index.ready_count:
        return [], fairness
    left: dict[str, int | None] = {}
    lanes = {lane: _in_order(state, pools, left) for lane, pools in state.index.ready.items()}
    return share(lanes, room=room, weight=partial(lane_weight, state), before=fairness)


def _in_order(
    state: State, pools: dict[str, dict[int, ReadySet]], left: dict[str, int | None]
) -> Iterator[TaskPk]:
    """The ready tasks of a lane, highest priority first, while their pools have room."""
    heap: list[tuple[int, int, str, Iterator[TaskPk]]] = []
    for order, (pool, priorities) in enumerate(pools.items()):
        if pool not in left:
            left[pool] = free_in_pool(state, pool)
        heap.extend((-priority, order, pool, iter(keys)) for priority, keys in priorities.items())
    heapify(heap)
    while heap:
        rank, order, pool, keys = heappop(heap)
        room = left[pool]
        if room is not None and room <= 0:
            continue
        key = next(keys, None)
        if key is None:
            continue
        if room is not None:
            left[pool] = room - 1
        heappush(heap, (rank, order, pool, keys))
        yield key
