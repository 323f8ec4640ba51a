"""Batches from producers that cannot reach the leader.

They drop objects under the inbox prefix. The leader lists the prefix whole, never "after" some id
(a late object with an early id would be lost), puts every object into the ledger and deletes it
once its entry is durable. The name of the object is its idempotency key unless its batch brings
one, so an object that was sequenced but not yet deleted when a leader died is recognised by the
next.
"""

from msgspec.structs import replace

from servo.core.actors import ActorKind, is_actor
from servo.core.events.codec import decode_batch, encode_batch
from servo.core.events.envelope import Answer, Batch
from servo.core.events.validate import check_batch
from servo.errors import Invalid, NotFound, ServoError, Unavailable
from servo.leader.requests import Reply, Request
from servo.ledger.paths import Paths
from servo.ports.object_store import ObjectStore

PAGE = 1_000


class InboxFeed:
    """Turns inbox objects into requests and removes what was sequenced."""

    def __init__(self, store: ObjectStore, paths: Paths) -> None:
        self._store = store
        self._paths = paths
        self._under_way: dict[str, None] = {}
        self._done: list[str] = []

    def collect(self) -> list[Request]:
        """Requests for the objects that are not yet being processed."""
        try:
            listed = self._store.list_after(self._paths.inbox_prefix, limit=PAGE)
            fresh = [meta.key for meta in listed if meta.key not in self._under_way]
            return [item for key in fresh for item in self._read(key)]
        except Unavailable:
            return []

    def forget(self) -> None:
        """Delete the objects whose batches are durable."""
        while self._done:
            try:
                self._store.delete(self._done[-1])
            except Unavailable:
                return
            self._under_way.pop(self._done.pop(), None)

    def _read(self, key: str) -> list[Request]:
        try:
            data = self._store.get(key).data
        except NotFound:
            return []
        name = f"inbox:{key.rpartition('/')[2].removesuffix('.json')}"
        batch, raw = _batch(name, data)
        self._under_way[key] = None
        return [Request(batch=batch, raw=raw, reply=self._on(key), trigger=False)]

    def _on(self, key: str) -> Reply:
        def reply(answer: Answer | ServoError) -> None:
            if isinstance(answer, Answer):
                self._done.append(key)
            else:
                self._under_way.pop(key, None)

        return reply


def _actor(told: str, name: str) -> str:
    """The actor an object names, `inbox:` before a bare name; without one, the object itself."""
    if not told:
        return name
    return told if is_actor(told) else f"{ActorKind.INBOX}:{told}"


def _batch(name: str, data: bytes) -> tuple[Batch, bytes]:
    """The batch in an inbox object, or a quarantined one with the error; and its encoding."""
    try:
        found = decode_batch(data)
        found = replace(found, actor=_actor(found.actor, name))
        check_batch(found, data)
        batch = Batch(
            id=found.id,
            events=found.events,
            request_id=found.request_id or name,
            actor=found.actor,
            correlation=found.correlation,
            cause=found.cause,
            sent_at=found.sent_at,
            parkable=True,
        )
        return batch, encode_batch(batch)
    except Invalid as error:
        text = data[:1000].decode(errors="replace")
        aside = Batch(id=name, request_id=name, actor=name, quarantined=f"{error} in {text!r}")
        return aside, encode_batch(aside)
