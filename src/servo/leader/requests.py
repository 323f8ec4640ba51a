"""Requests to a leader from other threads: batches, heartbeats, and reads of its state.

Callers leave requests and are called back with the answer from the leader's own thread. Worker
callbacks go before triggers: a storm of new runs never keeps a finished task waiting. Reads are
answered between two entries, so no reader sees state that is folded but not yet durable.
"""

from collections import deque
from collections.abc import Callable
from threading import Lock

import msgspec

from servo.core.events.backfills import BackfillCreated
from servo.core.events.codec import encode_batch, read_back
from servo.core.events.envelope import Answer, Batch
from servo.core.events.runs import RunRequested
from servo.core.events.validate import check_batch
from servo.core.fold.context import HEADS
from servo.core.state.state import State
from servo.errors import ServoError

Reply = Callable[[Answer | ServoError], None]

_TRIGGERS = frozenset({RunRequested, BackfillCreated, *HEADS})


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A batch for the ledger, encoded once, with the callback for its answer.

    `original` is what its producer sent, where that is kept if the batch is refused.
    """

    batch: Batch
    raw: bytes
    reply: Reply
    trigger: bool
    original: bytes = b""

    @property
    def most_bytes(self) -> int:
        """How much of an entry it can take up, whatever becomes of it."""
        kept = self.batch.original
        return len(self.raw) + (0 if kept is None else len(kept.data))


class Beat(msgspec.Struct, frozen=True, kw_only=True):
    """A sign that an execution is alive; the reply says whether it should continue."""

    run_id: str
    task_key: str
    attempt_id: str
    exec_id: str
    worker_id: str = ""


class BeatRequest(msgspec.Struct, frozen=True, kw_only=True):
    beat: Beat
    reply: Callable[[str | ServoError], None]


class ReadRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A look at the state; `fail` is called instead if this leader ends first."""

    look: Callable[[State], None]
    fail: Callable[[ServoError], None]


def request(batch: Batch, reply: Reply) -> Request:
    """Check and encode a batch; `Invalid` before anything is queued."""
    raw = encode_batch(batch)
    stored = read_back(raw)
    check_batch(stored, raw)
    trigger = not _TRIGGERS.isdisjoint({type(event) for event in stored.events})
    return Request(batch=stored, raw=raw, reply=reply, trigger=trigger)


class Inbox:
    """Requests waiting for the next commit. Deques are safe to use from several threads."""

    def __init__(self) -> None:
        self._urgent: deque[Request] = deque()
        self._triggers: deque[Request] = deque()
        self.beats: deque[BeatRequest] = deque()
        self.reads: deque[ReadRequest] = deque()
        self._closed: ServoError | None = None
        self._lock = Lock()

    def put(self, item: Request) -> None:
        with self._lock:
            if self._closed is None:
                (self._triggers if item.trigger else self._urgent).append(item)
                return
        item.reply(self._closed)

    def put_beat(self, item: BeatRequest) -> None:
        with self._lock:
            if self._closed is None:
                self.beats.append(item)
                return
        item.reply(self._closed)

    def put_read(self, item: ReadRequest) -> None:
        with self._lock:
            if self._closed is None:
                self.reads.append(item)
                return
        item.fail(self._closed)

    def __len__(self) -> int:
        return self.batches + len(self.beats) + len(self.reads)

    @property
    def batches(self) -> int:
        """How many batches wait."""
        return len(self._urgent) + len(self._triggers)

    def drain(self, *, max_batches: int, max_bytes: int) -> list[Request]:
        """Take what fits into one entry, worker callbacks first; at least one if any waits."""
        taken: list[Request] = []
        size = 0
        for lane in (self._urgent, self._triggers):
            while lane and len(taken) < max_batches:
                if taken and size + lane[0].most_bytes > max_bytes:
                    return taken
                item = lane.popleft()
                size += item.most_bytes
                taken.append(item)
        return taken

    def close(self, why: ServoError) -> list[Request]:
        """Refuse further requests; return the waiting ones, which the caller has to answer."""
        with self._lock:
            self._closed = why
            waiting = [*self._urgent, *self._triggers]
            self._urgent.clear()
            self._triggers.clear()
        return waiting
