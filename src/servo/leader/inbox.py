"""Batches from producers that cannot reach the leader.

They drop objects under the inbox prefix. The leader lists the prefix whole, never "after" some id
(a late object with an early id would be lost), puts every object into the ledger and deletes it
once its entry is durable. The name of the object is its idempotency key unless its batch brings
one, so an object that was sequenced but not yet deleted when a leader died is recognised by the
next.

**Nothing disappears.** Its producer gets no answer, so an object that is refused, for whatever
reason, becomes a dead letter with its verdict and its bytes: in the entry if they are few, and
otherwise in an object of their own, which is stored before the entry that names it.
"""

import msgspec
from msgspec.structs import replace

from servo.core.actors import ActorKind, is_actor
from servo.core.events.codec import MAX_BATCH_BYTES, decode_batch, encode_batch, encode_judged
from servo.core.events.envelope import (
    Answer,
    Batch,
    Original,
    Status,
    UnknownEvent,
    Verdict,
)
from servo.core.events.originals import MAX_INLINE, inbox_source, original_of
from servo.core.events.registry import EVENTS
from servo.core.events.validate import check_batch
from servo.core.sealed import UNREADABLE
from servo.errors import Conflict, Invalid, NotFound, ServoError, Unavailable
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
        found: list[Request] = []
        try:
            for meta in self._store.list_after(self._paths.inbox_prefix, limit=PAGE):
                if meta.key not in self._under_way:
                    found += self._read(meta.key)
        except Unavailable:
            pass  # what was read is under way; the rest is found the next time
        return found

    def keep(self, originals: list[bytes]) -> None:
        """Store what was refused and is too large for an entry, before the entry that names it."""
        for data in originals:
            self._keep(data)

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
        name = key.removeprefix(self._paths.inbox_prefix).removesuffix(".json")
        batch, raw = self._judged(original_of(inbox_source(name), data), data)
        self._under_way[key] = None
        return [
            Request(
                batch=batch,
                raw=raw,
                reply=self._on(key),
                trigger=False,
                original=data if len(data) > MAX_INLINE else b"",
            )
        ]

    def _judged(self, original: Original, data: bytes) -> tuple[Batch, bytes]:
        """The batch in an inbox object, or one with the verdict; and its encoding if it applies."""
        try:
            batch, raw = _batch(original.source, data, self._paths)
        except _Unacceptable as refusal:
            source = original.source
            batch = Batch(
                id=source,
                request_id=source,
                actor=source,
                parkable=True,
                verdict=Verdict(status=Status.REJECTED, code=refusal.code, reason=refusal.reason),
            )
            raw = encode_judged(batch)
        return replace(batch, original=original), raw

    def _keep(self, data: bytes) -> None:
        key = self._paths.dead_letter(original_of("", data).sha256)
        try:
            _ = self._store.create(key, data)
        except Conflict:
            pass  # stored by a leader that died before its entry, or sent twice
        except Unavailable as error:
            # Whether it was stored or not: the entry that names it was not written.
            raise Unavailable(error.message, remedy=error.remedy, may_have_applied=False) from error

    def _on(self, key: str) -> Reply:
        def reply(answer: Answer | ServoError) -> None:
            if isinstance(answer, Answer):
                self._done.append(key)
            else:
                self._under_way.pop(key, None)

        return reply


class _Unacceptable(Exception):
    """The content of an inbox object cannot be a request to this workspace."""

    def __init__(self, code: str, why: str) -> None:
        super().__init__(why)
        self.code = code
        self.reason = f"{code}: {why}"


class _Addressed(msgspec.Struct):
    """An inbox object may name the workspace that it is meant for."""

    workspace: str = ""


_addressed = msgspec.json.Decoder(_Addressed)


def _batch(name: str, data: bytes, paths: Paths) -> tuple[Batch, bytes]:
    """The batch in an inbox object, and its encoding."""
    if len(data) > MAX_BATCH_BYTES:
        why = f"the object has {len(data)} bytes; the limit is {MAX_BATCH_BYTES}"
        raise _Unacceptable("too_large", why)
    found = _decoded(data)
    _check_workspace(data, paths)
    _check_known(found)
    found = replace(found, actor=_actor(found.actor, name))
    try:
        check_batch(found, data)
    except Invalid as error:
        raise _Unacceptable("invalid_batch", str(error)) from None
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
    try:
        return batch, encode_batch(batch)
    except Invalid as error:
        raise _Unacceptable("too_large", str(error)) from None


def _decoded(data: bytes) -> Batch:
    try:
        return decode_batch(data)
    except Invalid as error:
        raise _Unacceptable("undecodable", str(error)) from None


def _check_workspace(data: bytes, paths: Paths) -> None:
    try:
        meant = _addressed.decode(data).workspace
    except UNREADABLE as error:
        raise _Unacceptable("undecodable", str(error)) from None
    here = f"{paths.tenant}/{paths.workspace}"
    if meant not in ("", here):
        raise _Unacceptable("other_workspace", f"the batch is for {meant}, and this is {here}")


def _check_known(batch: Batch) -> None:
    for event in batch.events:
        if isinstance(event, UnknownEvent):
            if event.type in EVENTS and event.v <= EVENTS[event.type].VERSION:
                raise _Unacceptable(
                    "invalid_event", f"{event.type} does not have the documented fields"
                )
            raise _Unacceptable("unknown_event", f"unknown event {event.type!r} version {event.v}")


def _actor(told: str, name: str) -> str:
    """The actor an object names, `inbox:` before a bare name; without one, the object itself."""
    if not told:
        return name
    return told if is_actor(told) else f"{ActorKind.INBOX}:{told}"
