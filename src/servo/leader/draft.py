"""A ledger entry that is not written yet."""

from msgspec.structs import replace

from servo.core.events.codec import encode_batch
from servo.core.events.envelope import Answer, Batch, Status
from servo.core.fold.apply import apply_batch
from servo.core.state.state import State
from servo.leader.assignments import Assignment
from servo.leader.requests import Reply, Request


class Draft:
    """Encoded batches, the callers to answer, and the effects of the durable entry."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.batches: list[bytes] = []
        self.replies: list[tuple[Reply, Answer]] = []
        self.assignments: list[Assignment] = []
        self.waiting: list[Request] = []
        self.planned = False
        self._events = 0

    def fold(self, batch: Batch, raw: bytes) -> Answer:
        """Fold a batch; it becomes part of the entry if it changed anything."""
        mark = len(self._state.journal)
        answer = apply_batch(self._state, batch, len(self.batches), self._events)
        if len(self._state.journal) > mark:
            if answer.status is Status.QUARANTINED and not batch.quarantined:
                raw = encode_batch(replace(batch, quarantined=answer.reason or "unknown"))
            self.batches.append(raw)
            self._events += len(batch.events)
        return answer
