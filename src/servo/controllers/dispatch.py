"""Dispatch ready tasks: fairly across lanes, by priority within one, within all limits.

The work is proportional to the number of dispatched tasks. Full pools, and code locations without
an idle worker, are skipped as a whole, not task by task: a million ready tasks of either starve
nobody and cost nothing.
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
from servo.core.state.index import ReadySet, TaskPk, WorkerSlot
from servo.core.state.state import State

MAX_PER_ROUND = 1_000


class IdleWorker(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that waits for a task, with the execution id of its next one.

    With `one_of_many` this is one of several slots of the worker, distinguished by `exec_id`. It
    takes tasks of its code `location`, and those without one; if it has no location, it takes any
    task.
    """

    worker_id: str
    exec_id: str
    one_of_many: bool = False
    location: str = ""


class _Idle:
    """Idle workers by location, and the tasks assigned to them."""

    def __init__(self, workers: Sequence[IdleWorker]) -> None:
        self.given: dict[TaskPk, IdleWorker] = {}
        self._waiting: dict[str, list[IdleWorker]] = {}
        for worker in reversed(workers):
            self._waiting.setdefault(worker.location, []).append(worker)

    def may_take(self, location: str) -> bool:
        """Whether an idle worker takes tasks of a location."""
        waiting = self._waiting
        return location in waiting or ("" in waiting if location else bool(waiting))

    def give(self, key: TaskPk, location: str) -> None:
        """Assign a task to a worker; one that takes any task is chosen last."""
        waiting = self._waiting
        name = location if location in waiting else "" if location else next(iter(waiting))
        workers = waiting[name]
        self.given[key] = workers.pop()
        if not workers:
            del waiting[name]


def hand_over(
    state: State, idle: Sequence[IdleWorker], fairness: Fairness
) -> tuple[list[Propose], Fairness]:
    """Assign ready tasks to idle workers: the dispatch contains the grant."""
    workers = _Idle(idle)
    keys, fairness = pick(state, len(idle), fairness, workers)
    events: list[DispatchRequested] = []
    for key in keys:
        worker = workers.given[key]
        handover = Handover(exec_id=worker.exec_id, worker_id=worker.worker_id)
        events.append(_request(state, key, handover))
    return _together(events), fairness


def dispatch(state: State, fairness: Fairness) -> tuple[list[Propose], Fairness]:
    """Create attempts of ready tasks, which a queue will deliver."""
    keys, fairness = pick(state, min(MAX_PER_ROUND, free_in_queue(state)), fairness)
    return _together([_request(state, key, None) for key in keys]), fairness


def _together(events: list[DispatchRequested]) -> list[Propose]:
    """One batch: chosen from one state within all limits, the events fit together."""
    return [Propose(tuple(events))] if events else []


def outbox(state: State, in_flight: dict[tuple[str, int], None]) -> list[Send]:
    """Committed deliveries that no queue has accepted yet."""
    rows = state.outbox.rows
    return [Send(rows[key]) for key in state.index.outbox_pending if key not in in_flight]


def _request(state: State, key: TaskPk, handover: Handover | None) -> DispatchRequested:
    return DispatchRequested(
        run_id=key[0],
        task_key=key[1],
        attempt=state.tasks.rows[key].attempt + 1,
        handover=handover,
    )


def pick(
    state: State, room: int, fairness: Fairness, workers: _Idle | None = None
) -> tuple[list[TaskPk], Fairness]:
    """The ready tasks to dispatch next: at most `room`, within the limits of slots and pools.

    With `workers`, only tasks that one of them takes, and each is assigned to one.
    """
    room = min(room, free_slots(state))
    if room <= 0 or not state.index.ready_count:
        return [], fairness
    left: dict[str, int | None] = {}
    ready = state.index.ready
    lanes = {lane: _in_order(state, places, left, workers) for lane, places in ready.items()}
    return share(lanes, room=room, weight=partial(lane_weight, state), before=fairness)


def _in_order(
    state: State,
    places: dict[WorkerSlot, dict[int, ReadySet]],
    left: dict[str, int | None],
    workers: _Idle | None,
) -> Iterator[TaskPk]:
    """The ready tasks of a lane, highest priority first, while their pools have room."""
    heap: list[tuple[int, int, WorkerSlot, Iterator[TaskPk]]] = []
    for order, (place, priorities) in enumerate(places.items()):
        location, pool = place
        if workers is not None and not workers.may_take(location):
            continue
        if pool not in left:
            left[pool] = free_in_pool(state, pool)
        heap.extend((-priority, order, place, iter(keys)) for priority, keys in priorities.items())
    heapify(heap)
    while heap:
        rank, order, place, keys = heappop(heap)
        location, pool = place
        room = left[pool]
        if room is not None and room <= 0:
            continue
        if workers is not None and not workers.may_take(location):
            continue
        key = next(keys, None)
        if key is None:
            continue
        if room is not None:
            left[pool] = room - 1
        if workers is not None:
            workers.give(key, location)
        heappush(heap, (rank, order, place, keys))
        yield key
