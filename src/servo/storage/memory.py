"""`ObjectStore` in the memory of one process: for tests, simulation and throw-away workspaces.

Every call holds one lock, so each is atomic and any thread may make it. Versions count the writes
to the store and never repeat. Nothing survives the process, which is all this store promises less
than the others. Like a folder on disk, and unlike a bucket, it refuses a key that would be a
folder of another, so that a layout tried here works everywhere.
"""

import threading
from bisect import bisect_left, bisect_right, insort

from servo.errors import Conflict, Invalid, NotFound
from servo.ports.clock import Clock
from servo.ports.object_store import Blob, ObjectMeta
from servo.storage.keys import check_key, check_prefix
from servo.storage.requests import check_limit, check_range


class MemoryStore:
    """A sorted map under a lock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._blobs: dict[str, Blob] = {}
        self._keys: list[str] = []  # code points sort as their UTF-8 bytes do
        self._writes = 0

    def get(self, key: str) -> Blob:
        check_key(key)
        with self._lock:
            blob = self._blobs.get(key)
        if blob is None:
            raise NotFound(f"there is no object {key!r}", remedy="check the key")
        return blob

    def get_range(self, key: str, *, start: int, length: int) -> bytes:
        check_range(start=start, length=length)
        return self.get(key).data[start : start + length]

    def put(self, key: str, data: bytes) -> ObjectMeta:
        check_key(key)
        with self._lock:
            return self._write(key, data)

    def create(self, key: str, data: bytes) -> ObjectMeta:
        check_key(key)
        with self._lock:
            if key in self._blobs:
                raise Conflict(f"the object {key!r} exists", remedy="read it and decide again")
            return self._write(key, data)

    def replace_if(self, key: str, data: bytes, *, version: str) -> ObjectMeta:
        check_key(key)
        with self._lock:
            blob = self._blobs.get(key)
            if blob is None or blob.meta.version != version:
                raise Conflict(
                    f"the object {key!r} does not have version {version!r}", remedy="read it again"
                )
            return self._write(key, data)

    def list_after(
        self, prefix: str, *, after: str = "", limit: int | None = None
    ) -> list[ObjectMeta]:
        check_prefix(prefix)
        check_prefix(after)
        check_limit(limit)
        with self._lock:
            first = max(bisect_left(self._keys, prefix), bisect_right(self._keys, after))
            last = _end_of(prefix, self._keys)
            if limit is not None:
                last = min(last, first + limit)
            return [self._blobs[key].meta for key in self._keys[first:last]]

    def delete(self, key: str) -> None:
        check_key(key)
        with self._lock:
            if self._blobs.pop(key, None) is not None:
                del self._keys[bisect_left(self._keys, key)]

    def _write(self, key: str, data: bytes) -> ObjectMeta:
        if key not in self._blobs:
            self._refuse_nesting(key)
            insort(self._keys, key)
        self._writes += 1
        meta = ObjectMeta(
            key=key, size=len(data), modified=self._clock.now(), version=str(self._writes)
        )
        self._blobs[key] = Blob(data=bytes(data), meta=meta)
        return meta

    def _refuse_nesting(self, key: str) -> None:
        at = bisect_left(self._keys, f"{key}/")
        if at < len(self._keys) and self._keys[at].startswith(f"{key}/"):
            raise Invalid(
                f"the key {key!r} is a folder of other objects", remedy="choose another key"
            )
        cut = key.find("/")
        while cut >= 0:
            if key[:cut] in self._blobs:
                raise Invalid(
                    f"the key {key!r} lies under the object {key[:cut]!r}",
                    remedy="choose another key",
                )
            cut = key.find("/", cut + 1)


def _end_of(prefix: str, keys: list[str]) -> int:
    """Where the keys that begin with `prefix` end."""
    return bisect_right(keys, prefix, key=lambda key: key[: len(prefix)])
