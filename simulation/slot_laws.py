"""Slots: how many tasks are in flight at once, in the workspace and in each pool.

- Exactly the tasks in flight hold a slot. A task that ended, or whose worker was lost, gives its
  slot back in the same entry.
- Nothing is dispatched beyond a limit. One that was lowered is not exceeded further.

The law counts the rows of tasks itself. It does not trust the counts that the dispatcher uses.
"""

from collections import Counter
from collections.abc import Sequence

from servo.core.events.envelope import Answer, Entry
from servo.core.state.index import WORKSPACE_QUOTA
from servo.core.state.state import State
from servo.core.state.states import DISPATCHED, RUNNING
from simulation.kernel import Violation
from simulation.laws import Law


class SlotLaw(Law):
    """Slots are held by tasks in flight and by nothing else, within every limit."""

    def __init__(self) -> None:
        self._before = Counter[tuple[str, str]]()

    def committed(self, entry: Entry, answers: Sequence[Answer], state: State) -> None:
        del answers
        held = _held(state)
        for key, quota in state.index.quotas.items():
            limit = quota.max_concurrent_tasks
            if limit is not None and held[key] > max(limit, self._before[key]):
                raise Violation(f"{_named(key)}: {held[key]} in flight at entry {entry.seq}")
        self._before = held
        taken = _taken(state)
        for key in (*held, *taken):
            if taken[key] != held[key]:
                raise Violation(
                    f"{_named(key)}: {taken[key]} slots are taken at entry {entry.seq}, but "
                    f"{held[key]} tasks are in flight"
                )


def _held(state: State) -> Counter[tuple[str, str]]:
    """How many tasks are in flight in the workspace, and in each pool."""
    held = Counter[tuple[str, str]]()
    for row in state.tasks.values():
        if row.state is DISPATCHED or row.state is RUNNING:
            held[WORKSPACE_QUOTA] += 1
            if row.pool:
                held["pool", row.pool] += 1
    return held


def _taken(state: State) -> Counter[tuple[str, str]]:
    """How many slots the dispatcher believes are taken."""
    taken = Counter({("pool", name): count for name, count in state.index.pool_active.items()})
    taken[WORKSPACE_QUOTA] = state.index.active
    return taken


def _named(key: tuple[str, str]) -> str:
    return "the workspace" if key == WORKSPACE_QUOTA else f"{key[0]} {key[1]}"
