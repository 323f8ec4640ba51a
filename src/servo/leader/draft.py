"""A ledger entry that is not written yet."""

from servo.core.events.codec import encode_judged
from servo.core.events.envelope import Answer, Batch
from servo.core.fold.apply import judge_batch
from servo.core.format import MIN_READER, reader_of
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
        self.originals: list[bytes] = []
        self.planned = False
        self.min_reader = MIN_READER
        self._events = 0

    def fold(self, batch: Batch, raw: bytes, original: bytes = b"") -> Answer:
        """Fold a batch; it becomes part of the entry if it changed anything.

        `raw` is how it stands there if it is applied: without what its producer sent. `original` is
        that, if it must be stored before an entry that refuses the batch.
        """
        mark = len(self._state.journal)
        answer, judged = judge_batch(self._state, batch, len(self.batches), self._events)
        if len(self._state.journal) > mark:
            self.batches.append(raw if judged.verdict is None else encode_judged(judged))
            if judged.verdict is not None and original:
                self.originals.append(original)
            self.min_reader = max(self.min_reader, reader_of(batch.events))
            self._events += len(batch.events)
        return answer
