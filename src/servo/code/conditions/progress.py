"""Work in progress, as conditions see it: tasks that have not ended, and backfills."""

from collections.abc import Iterable, Mapping

from servo.core.automation.evaluating import Evaluator
from servo.core.events.backfills import BackfillState
from servo.core.keys import TaskOperation
from servo.core.plan import chosen_checks
from servo.core.state.rows.execution import TaskRow
from servo.core.state.state import State
from servo.core.state.states import TERMINAL_TASK_STATES
from servo.sdk.automation.spaces import KeySpace

_OVER = frozenset({BackfillState.SUCCEEDED, BackfillState.FAILED, BackfillState.CANCELLED})

_Subject = tuple[str, str]
"""An asset, or a check of it that runs in a task of its own."""


def bits_of(spaces: Mapping[str, KeySpace], asset: str, partition: str | None) -> int:
    """A partition of an asset, or the asset itself; nothing if it is divided otherwise."""
    space = spaces.get(asset)
    if space is None:
        return 0 if partition else 1
    return space.bit_of(partition or "")


def union(sets: Iterable[int]) -> int:
    """All of several sets."""
    found = 0
    for bits in sets:
        found |= bits
    return found


class ProgressTracker:
    """Keeps what is under way, and tells an evaluation what changed of it."""

    def __init__(self, evaluator: Evaluator, spaces: Mapping[str, KeySpace], state: State) -> None:
        self._world = evaluator.world
        self._graph = evaluator.graph
        self._spaces = spaces
        self._state = state
        self._held: dict[_Subject, dict[tuple[str, str], int]] = {}
        self._places: dict[tuple[str, str], tuple[_Subject, ...]] = {}

    def tell_all(self) -> None:
        """Tell everything that is under way."""
        self.tell_tasks(dict(self._state.tasks.rows))
        self.tell_backfills()

    def tell_tasks(self, changed: Mapping[tuple[str, str], object]) -> None:
        """Tell of the tasks that changed; None is one that is gone."""
        touched: dict[_Subject, None] = {}
        for key, row in changed.items():
            touched |= dict.fromkeys(self._let_go(key))
            if isinstance(row, TaskRow) and row.state not in TERMINAL_TASK_STATES:
                touched |= dict.fromkeys(self._take(key, row))
        for place in sorted(touched.keys() & self._world.facts.keys()):
            asset, check = place
            self._world.running(asset, union(self._held[place].values()), check=check)

    def _let_go(self, key: tuple[str, str]) -> tuple[_Subject, ...]:
        places = self._places.pop(key, ())
        for place in places:
            del self._held[place][key]
        return places

    def _take(self, key: tuple[str, str], row: TaskRow) -> tuple[_Subject, ...]:
        places = self._places[key] = self._made_by(row)
        names = (row.partition_key, *row.also_partitions)
        for place in places:
            bits = union(bits_of(self._spaces, place[0], name) for name in names)
            self._held.setdefault(place, {})[key] = bits
        return places

    def _made_by(self, row: TaskRow) -> tuple[_Subject, ...]:
        """What a task is making: its assets, or checks alone."""
        if row.operation is not TaskOperation.CHECK:
            return tuple((asset, "") for asset in (row.asset_key, *row.also_makes))
        named = chosen_checks(row.tags)
        if named is not None:
            return tuple((asset, check) for asset, _, check in (n.partition(":") for n in named))
        asset = self._graph.assets.get(row.asset_key)
        return tuple((row.asset_key, check.name) for check in (asset.checks if asset else ()))

    def tell_backfills(self) -> None:
        """Tell which partitions backfills make that are not over."""
        busy: dict[str, int] = {}
        for row in list(self._state.backfills.rows.values()):
            for asset in () if row.state in _OVER else row.asset_selection:
                found = (bits_of(self._spaces, asset, key) for key in row.partition_keys)
                busy[asset] = busy.get(asset, 0) | union(found)
        for asset, check in self._world.facts:
            if not check:
                self._world.backfilling(asset, busy.get(asset, 0))
