"""What threads beside the leader's see of its state.

A leader folds a batch before it writes the entry. Until the entry is durable, it may never exist:
whoever saw it in the state could tell somebody what never happened. So whatever is read of the
state, or shown to those that watch it, ends with an entry that is in the ledger.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from servo.core.state.state import State
from servo.leader.service import Service
from simulation.kernel import Violation, this_process
from simulation.oracle import Oracle

T = TypeVar("T")
_Look = Callable[[State], T]


class ShownLaw:
    """Only durable state is shown."""

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle

    def changes(self) -> list[tuple[Any, str, Any]]:
        """What a service that is watched does instead."""
        read, watch = Service.read, Service.watch

        def judged_read(service: Service, look: _Look[T]) -> T:
            return read(service, self._judging(look))

        def judged_watch(service: Service, look: _Look[None]) -> None:
            watch(service, self._judging(look))

        return [(Service, "read", judged_read), (Service, "watch", judged_watch)]

    def _judging(self, look: _Look[T]) -> _Look[T]:
        def judged(state: State) -> T:
            self._check(state)
            return look(state)

        return judged

    def _check(self, state: State) -> None:
        found = self._oracle.slots.get(state.seq)
        if found is None or found[1] != state.last_hash:
            raise Violation(
                f"{this_process().name} shows what entry {state.seq} would change before the "
                "entry is durable"
            )
