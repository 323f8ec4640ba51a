"""Fetching stored objects, and checking them before they are parsed.

A manifest holds the size and hash of every object it refers to. Bytes that do not match are
`Corrupt` here and never reach a parser; a projection can always be rebuilt from the ledger.
"""

from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from threading import Lock
from typing import Generic, TypeVar

from servo.core.manifest import FileEntry, ObjectRef
from servo.errors import Corrupt, NotFound, Unavailable
from servo.ports.object_store import ObjectStore

READ_TRIES = 3
WRITE_TRIES = 3

V = TypeVar("V")


class Gone(NotFound):
    """A file that a manifest refers to does not exist: it was collected, the manifest is old."""


def fetch(store: ObjectStore, ref: FileEntry | ObjectRef) -> bytes:
    """The bytes of an object; `Gone` if it does not exist, `Corrupt` if they do not match."""
    data = existing(lambda: store.get(ref.key).data, ref.key)
    check(data, ref.key, size=ref.size, digest=ref.sha256)
    return data


def existing(read: Callable[[], bytes], what: str) -> bytes:
    """Call `read`, and retry while the store does not answer; `Gone` if nothing is stored."""
    try:
        return retried(read, tries=READ_TRIES)
    except NotFound as error:
        raise Gone(
            f"{what} does not exist",
            remedy="it was garbage-collected; read the newest manifest again",
        ) from error


def check(data: bytes, what: str, *, size: int, digest: str) -> None:
    """`Corrupt` unless `data` has this size and this hash."""
    if len(data) != size:
        raise _damaged(what, f"it has {len(data)} bytes instead of {size}")
    if sha256(data).hexdigest() != digest:
        raise _damaged(what, "its bytes do not match their hash")


def _damaged(what: str, why: str) -> Corrupt:
    return Corrupt(
        f"{what} is damaged: {why}",
        remedy="rebuild the projection from the ledger, or restore this object from a backup",
    )


def retried(action: Callable[[], V], *, tries: int) -> V:
    """Call `action`, and retry at once while the store does not answer."""
    for _ in range(tries - 1):
        with suppress(Unavailable):
            return action()
    return action()


def upload(store: ObjectStore, key: str, data: bytes) -> None:
    """Write an object that no manifest refers to yet.

    Its name is unique, so writing it again is harmless, and a failure is certain whatever the
    store could say about it: what no manifest names does not exist.
    """
    try:
        _ = retried(lambda: store.put(key, data), tries=WRITE_TRIES)
    except Unavailable as error:
        raise Unavailable(
            f"{key} could not be written: {error.message}",
            remedy="check that the store can be reached and written to, then retry",
            may_have_applied=False,
        ) from error


class Lru(Generic[V]):
    """A bounded cache of immutable values: the least recently used are dropped first.

    Any thread may call. The lock is never held while waiting.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.held_bytes = 0
        self._held: OrderedDict[str, tuple[int, V]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: str) -> V | None:
        with self._lock:
            found = self._held.get(key)
            if found is None:
                return None
            self._held.move_to_end(key)
            return found[1]

    def put(self, key: str, value: V, *, cost: int) -> None:
        """Keep a value, unless it alone exceeds the limit."""
        if cost > self.max_bytes:
            return
        with self._lock:
            known = self._held.pop(key, None)
            self.held_bytes += cost - (0 if known is None else known[0])
            self._held[key] = cost, value
            while self.held_bytes > self.max_bytes:
                _, (freed, _) = self._held.popitem(last=False)
                self.held_bytes -= freed
