"""The one thing Servo asks of the world: a place to put objects.

What an adapter owes, each point checked by `tests/contract/test_object_store.py`:

- **Create is atomic and exclusive.** Of any number of racing `create` calls for one key exactly
  one returns; every other one raises `Conflict`. This is the only fencing Servo has.
- **Durable on return.** When a write returns, the bytes survive the death of process and machine.
- **Whole or absent.** No reader ever sees a part of an object, whenever a writer dies.
- **Read after write, list after write.** A key written before a `get` or a listing began is
  seen by it.
- **Listings are complete and ordered** by the UTF-8 bytes of the key. Of keys that are written
  during a listing it may show any: a later one, and not an earlier one.
- **Unknown is said.** A write whose outcome the adapter cannot know raises `Unavailable` with
  `may_have_applied=True`; one that certainly did not happen says `may_have_applied=False`.
  Adapters do not retry conditional writes: the retry would meet its own first try.
- **Keys stay inside.** A key that could leave the root is refused with `Invalid` before any I/O.

Calls block. Any of them may be made from any thread.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

import msgspec


class ObjectMeta(msgspec.Struct, frozen=True, kw_only=True):
    """What a store knows about an object besides its bytes.

    `version` is opaque and changes whenever the object is overwritten with other bytes; a store
    may repeat it for equal bytes, which is why everything Servo creates carries a nonce.
    """

    key: str
    size: int
    modified: datetime
    version: str


class Blob(msgspec.Struct, frozen=True, kw_only=True):
    """An object as read: its bytes and the metadata they were read with."""

    data: bytes
    meta: ObjectMeta


class ObjectStore(Protocol):
    """A flat map from key to bytes, with conditional writes."""

    def get(self, key: str) -> Blob:
        """Read a whole object; `NotFound` if there is none."""
        ...

    def get_range(self, key: str, *, start: int, length: int) -> bytes:
        """Read `length` bytes from `start`, fewer at the end of the object."""
        ...

    def put(self, key: str, data: bytes) -> ObjectMeta:
        """Write an object, replacing what is there."""
        ...

    def create(self, key: str, data: bytes) -> ObjectMeta:
        """Write an object that must not exist yet; `Conflict` if it does."""
        ...

    def replace_if(self, key: str, data: bytes, *, version: str) -> ObjectMeta:
        """Overwrite an object only while it still has `version`; `Conflict` if not."""
        ...

    def list_after(
        self, prefix: str, *, after: str = "", limit: int | None = None
    ) -> Sequence[ObjectMeta]:
        """List keys that begin with `prefix` and sort after `after`, in order."""
        ...

    def delete(self, key: str) -> None:
        """Remove an object; removing what is not there is no error."""
        ...
