"""Fetching stored objects, checked before anybody parses them.

Every object a manifest names comes with its size and hash. Bytes that do not match are `Corrupt`
here and never reach a parser; a projection can always be rebuilt from the ledger.
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
    """A file that a manifest names does not exist: it was collected, the manifest is old."""


def fetch(store: ObjectStore, ref: FileEntry | ObjectRef) -> bytes:
    """The bytes of an object; `Gone` if there is none, `Corrupt` if they are not its own."""
    data = existing(lambda: store.get(ref.key).data, ref.key)
    check(data, ref.key, size=ref.size, digest=ref.sha256)
    return data


def existing(read: Callable[[], bytes], what: str) -> bytes:
    """What `read` reads, tried again while the store does not answer; `Gone` if it is not there."""
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
    """What `action` returns; tried again at once while the store does not answer."""
    for _ in range(tries - 1):
        with suppress(Unavailable):
            return action()
    return action()


def upload(store: ObjectStore, key: str, data: bytes) -> None:
    """Write an object that nothing names yet.

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
    """A bounded memory of immutable things: the least recently used leave first.

    Any thread may call. The lock is never held while something else is waited for.
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
        """Remember a value; one that costs more than everything may is not remembered."""
        if cost > self.max_bytes:
            return
        with self._lock:
            known = self._held.pop(key, None)
            self.held_bytes += cost - (0 if known is None else known[0])
            self._held[key] = cost, value
            while self.held_bytes > self.max_bytes:
                _, (freed, _) = self._held.popitem(last=False)
                self.held_bytes -= freed
