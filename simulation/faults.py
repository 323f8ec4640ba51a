"""A store and a queue that misbehave as real ones do.

Every fault is drawn from the world's random source with a probability of the swarm. A request may
be lost, be applied although its answer is lost, be applied after the caller has given up, be
refused, be slow; a read may come back damaged; a hint may be old. None of this ever breaks what
the port promises: a create that is applied is applied once and exclusively.
"""

from bisect import bisect_right, insort
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import msgspec

from servo.errors import Conflict, NotFound, Unavailable
from servo.ports.object_store import Blob, ObjectMeta
from servo.ports.task_queue import Delivery
from simulation.kernel import START, Kernel, Process, Violation

TIMEOUT_MS = 400


class StoreFaults(msgspec.Struct, frozen=True, kw_only=True):
    """How often each misfortune strikes a request."""

    lost: float = 0.0
    answer_lost: float = 0.0
    late: float = 0.0
    refused: float = 0.0
    slow: float = 0.0
    damaged_read: float = 0.0
    stale_hint: float = 0.0
    asleep: float = 0.0


class Bucket:
    """The objects themselves: what is durably true, whatever anybody was told."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.objects: dict[str, tuple[bytes, int, int]] = {}
        self.keys: list[str] = []
        self.watchers: list[Callable[[str, str, bytes], None]] = []
        self.previous: dict[str, bytes] = {}
        self.kept: dict[str, bytes] = {}
        self._writes = 0

    def write(self, key: str, data: bytes) -> ObjectMeta:
        if key not in self.objects:
            insort(self.keys, key)
        else:
            self.previous[key] = self.objects[key][0]
        if "/plans/" in key:
            self.kept[key] = data
        self._writes += 1
        self.objects[key] = (data, self.kernel.now, self._writes)
        self.kernel.note("write", key, len(data))
        for watch in self.watchers:
            watch("write", key, data)
        return self.meta(key)

    def create(self, key: str, data: bytes) -> ObjectMeta:
        if key in self.objects:
            raise Conflict(f"{key} exists")
        return self.write(key, data)

    def replace(self, key: str, data: bytes, version: str) -> ObjectMeta:
        if key not in self.objects or self.meta(key).version != version:
            raise Conflict(f"{key} changed")
        return self.write(key, data)

    def read(self, key: str) -> Blob:
        if key not in self.objects:
            raise NotFound(f"{key} does not exist")
        return Blob(data=self.objects[key][0], meta=self.meta(key))

    def remove(self, key: str) -> None:
        if self.objects.pop(key, None) is not None:
            del self.keys[bisect_right(self.keys, key) - 1]
            self.kernel.note("delete", key)
            for watch in self.watchers:
                watch("delete", key, b"")

    def meta(self, key: str) -> ObjectMeta:
        data, born, version = self.objects[key]
        modified = START + timedelta(microseconds=born)
        return ObjectMeta(key=key, size=len(data), modified=modified, version=str(version))

    def list_after(
        self, prefix: str, *, after: str = "", limit: int | None = None
    ) -> Sequence[ObjectMeta]:
        start = bisect_right(self.keys, max(after, prefix[:-1] if prefix else ""))
        found: list[ObjectMeta] = []
        for key in self.keys[start:]:
            if not key.startswith(prefix):
                if key > prefix:
                    break
                continue
            found.append(self.meta(key))
            if limit is not None and len(found) >= limit:
                break
        return found


class PlainStore:
    """The bucket without misfortune: what an oracle reads through."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self.put = bucket.write
        self.create = bucket.create
        self.get = bucket.read
        self.delete = bucket.remove
        self.list_after = bucket.list_after

    def get_range(self, key: str, *, start: int, length: int) -> bytes:
        return self._bucket.read(key).data[start : start + length]

    def replace_if(self, key: str, data: bytes, *, version: str) -> ObjectMeta:
        return self._bucket.replace(key, data, version)


class FaultyStore:
    """The bucket as one process sees it."""

    def __init__(self, bucket: Bucket, process: Process, faults: StoreFaults) -> None:
        self._bucket = bucket
        self._process = process
        self._kernel = process.kernel
        self._faults = faults

    def get(self, key: str) -> Blob:
        blob: Blob = self._request(lambda: self._read(key), writes=False)
        if self._kernel.chance(self._faults.damaged_read) and blob.data:
            self._kernel.fault("damaged_read")
            place = self._kernel.random.randrange(len(blob.data))
            flipped = bytes([blob.data[place] ^ 0x10])
            data = blob.data[:place] + flipped + blob.data[place + 1 :]
            return Blob(data=data, meta=blob.meta)
        return blob

    def _read(self, key: str) -> Blob:
        old = self._bucket.previous.get(key)
        if old is not None and self._kernel.chance(self._faults.stale_hint):
            self._kernel.fault("stale_hint")
            return Blob(data=old, meta=self._bucket.meta(key))
        return self._bucket.read(key)

    def get_range(self, key: str, *, start: int, length: int) -> bytes:
        return self.get(key).data[start : start + length]

    def put(self, key: str, data: bytes) -> ObjectMeta:
        return self._request(lambda: self._bucket.write(key, data), writes=True)

    def create(self, key: str, data: bytes) -> ObjectMeta:
        if self._kernel.chance(self._faults.asleep):
            # The process stops with everything decided and nothing sent, and wakes in a world
            # in which others have led, published, archived and collected.
            self._kernel.fault("asleep")
            self._process.sleep(self._kernel.random.choice((9_000, 20_000, 35_000)))
        return self._request(lambda: self._bucket.create(key, data), writes=True)

    def replace_if(self, key: str, data: bytes, *, version: str) -> ObjectMeta:
        return self._request(lambda: self._bucket.replace(key, data, version), writes=True)

    def list_after(
        self, prefix: str, *, after: str = "", limit: int | None = None
    ) -> Sequence[ObjectMeta]:
        return self._request(
            lambda: self._bucket.list_after(prefix, after=after, limit=limit), writes=False
        )

    def delete(self, key: str) -> None:
        self._request(lambda: self._bucket.remove(key), writes=True)

    def _request(self, apply: Callable[[], Any], *, writes: bool) -> Any:
        kernel, faults, process = self._kernel, self._faults, self._process
        latency = kernel.random.uniform(1, 30)
        if kernel.chance(faults.lost):
            kernel.fault("store_lost")
            return process.call(TIMEOUT_MS, _timeout)
        if kernel.chance(faults.answer_lost):
            kernel.fault("store_answer_lost")
            kernel.at(latency, lambda: _quietly(apply))
            return process.call(TIMEOUT_MS, _timeout)
        if writes and kernel.chance(faults.late):
            kernel.fault("store_late")
            kernel.at(TIMEOUT_MS + kernel.random.uniform(1, 4000), lambda: _quietly(apply))
            return process.call(TIMEOUT_MS, _timeout)
        if kernel.now < process.cut_off_until or kernel.chance(faults.refused):
            kernel.fault("store_refused")
            return process.call(latency, _refused)
        if kernel.chance(faults.slow):
            kernel.fault("store_slow")
            latency = kernel.random.uniform(100, TIMEOUT_MS - 1)
        return process.call(latency, apply)


def _timeout() -> None:
    raise Unavailable("the store did not answer", may_have_applied=True)


def _refused() -> None:
    raise Unavailable("the store refused", may_have_applied=False)


def _quietly(apply: Callable[[], Any]) -> None:
    try:
        apply()
    except (Conflict, NotFound):
        return


class QueueFaults(msgspec.Struct, frozen=True, kw_only=True):
    lost: float = 0.0
    duplicated: float = 0.0
    delayed: float = 0.0
    redelivered: float = 0.0
    refused: float = 0.0


class FaultyQueue:
    """An at-least-once queue that remembers names, and forgets, repeats and reorders messages."""

    def __init__(self, kernel: Kernel, faults: QueueFaults) -> None:
        self._kernel = kernel
        self._faults = faults
        self._names: dict[str, int] = {}
        self._taken: dict[str, None] = {}
        self._waiting: list[Delivery] = []

    def send_from(self, process: Process, delivery: Delivery) -> None:
        """Send from inside a process."""

        def arrive() -> None:
            if self._kernel.chance(self._faults.refused):
                self._kernel.fault("queue_refused")
                raise Unavailable("the queue refused", may_have_applied=False)
            self._accept(delivery)

        process.call(self._kernel.random.uniform(1, 20), arrive)

    def _accept(self, delivery: Delivery) -> None:
        kernel = self._kernel
        known = self._names.setdefault(delivery.name, delivery.delivery)
        if known != delivery.delivery:
            raise Violation(f"delivery {delivery.delivery} has the name of delivery {known}")
        if delivery.name in self._taken:
            return
        self._taken[delivery.name] = None
        if kernel.chance(self._faults.lost):
            kernel.fault("queue_lost")
            return
        copies = 1
        if kernel.chance(self._faults.duplicated):
            kernel.fault("queue_duplicated")
            copies = 2
        for _ in range(copies):
            delay = kernel.random.uniform(1, 100)
            if kernel.chance(self._faults.delayed):
                kernel.fault("queue_delayed")
                delay = kernel.random.uniform(1000, 60_000)
            kernel.at(delay, lambda: self._waiting.append(delivery))

    def take(self) -> Delivery | None:
        """Any waiting message, in no particular order."""
        if not self._waiting:
            return None
        place = self._kernel.random.randrange(len(self._waiting))
        delivery = self._waiting.pop(place)
        if self._kernel.chance(self._faults.redelivered):
            self._kernel.fault("queue_redelivered")
            self._kernel.at(
                self._kernel.random.uniform(10, 5000), lambda: self._waiting.append(delivery)
            )
        return delivery


class QueueOf:
    """The queue as one process sees it."""

    def __init__(self, queue: FaultyQueue, process: Process) -> None:
        self._queue = queue
        self._process = process

    def send(self, delivery: Delivery) -> None:
        self._queue.send_from(self._process, delivery)
