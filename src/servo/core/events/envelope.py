"""What a ledger entry holds: batches of events, and how a batch was answered.

A **batch** is the unit of atomicity: it applies whole or not at all. An **entry** is the unit of
durability: one object in the store, made of the batches that one commit cycle accepted. An event
carries only what happened; who said it and under which id stands on its batch, and when and in
which order on its entry, so that an event costs a few hundred bytes.

Events are commands (a person or an API asked), intents (a controller decided on what it saw) or
facts (a worker or the outside world reports). Facts and intents are deduplicated by state: sent
again they find the world moved on and change nothing. Some commands would apply twice (set the
limit to 5, then to 10, then the first again), so a batch with a command is remembered by key.
"""

import re
from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar

import msgspec

from servo.core.positions import Position

Instant = Annotated[datetime, msgspec.Meta(tz=True)]


class EventKind(StrEnum):
    """Where an event comes from, and so how a repetition of it is recognised."""

    COMMAND = "command"
    INTENT = "intent"
    FACT = "fact"


class Event(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", gc=False
):
    """Something that happened, in the past tense. Every subclass has an explicit tag."""

    KIND: ClassVar[EventKind] = EventKind.FACT
    VERSION: ClassVar[int] = 1
    SINCE: ClassVar[int] = 1
    """The format version that introduced the event, or the last field of it that counts."""


class UnknownEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event this version of Servo does not know: kept and counted, never applied."""

    type: str
    v: int
    raw: bytes


class Status(StrEnum):
    """What became of a batch."""

    APPLIED = "applied"
    REJECTED = "rejected"
    CONFLICT = "conflict"
    PARKED = "parked"
    QUARANTINED = "quarantined"


class Encoding(StrEnum):
    """How the bytes of an original are kept."""

    TEXT = "utf-8"
    BASE64 = "base64"
    STORED = "stored"


class Original(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a producer without an answer left, byte for byte.

    `source` names it: `inbox:` and the name of the object. Bytes that are too many for an entry
    are stored in an object of their own, under their hash.
    """

    source: str
    sha256: str
    size: int
    encoding: Encoding
    data: str = ""


class WaitsUntil(StrEnum):
    """What a parked batch waits for to become of its run."""

    REQUESTED = "requested"
    PLANNED = "planned"
    ACTIVE = "active"


RULE_FAILED = "rule_failed"
PRECONDITION_FAILED = "precondition_failed"
"""The code of a refusal whose reason does not begin with one: the state is not as required."""

_CODE = re.compile(r"[a-z][a-z0-9_]*(?=:|$)")


def code_of(reason: str) -> str:
    """The code that the reason of a refusal begins with."""
    found = _CODE.match(reason)
    return PRECONDITION_FAILED if found is None else found[0]


class Verdict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a batch that stands in an entry was not applied.

    It is decided once, by the leader that wrote the entry: a replay does not apply the batch,
    whatever its own rules would say. `event` is the place in the batch of the event that was
    refused; `waits_for` is the run that a parked batch waits for, and `waits_until` what must have
    become of it.
    """

    status: Status
    code: str
    reason: str = ""
    event: int = 0
    waits_for: str = ""
    waits_until: WaitsUntil = WaitsUntil.REQUESTED


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The fold's answer to the sender of a batch.

    `data` holds what the caller needs to continue (the run id, the grant); `repeated` says that the
    same batch was applied before and this is the answer given then. `index` is the place of the
    batch's first event in entry `seq`; None if the batch is in no entry, or its place is not known
    any more.
    """

    status: Status
    seq: int = 0
    index: int | None = None
    reason: str = ""
    data: dict[str, str | int] = {}
    repeated: bool = False

    @property
    def applied(self) -> bool:
        return self.status is Status.APPLIED

    @property
    def position(self) -> Position | None:
        """The position of the batch's first event: its `accepted_event_id`."""
        return None if self.index is None else Position(self.seq, self.index)


class Batch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Events that are applied together or not at all.

    `request_id` is the idempotency key of the request, `key` in the ledger. `actor` is who sent it
    (see `servo.core.actors`), `cause` the position of the event that led to it, and `correlation`
    the one id of everything that follows from the same request; where it is left out, the position
    of the batch's first event is that. `parkable` is set for producers that get no answer
    (the inbox): batches that they send too early wait for their prerequisite instead of being
    refused. The leader writes `verdict` on a batch that was not applied, and with it `original`,
    what its producer sent, if the producer gets no answer.
    """

    id: str
    events: tuple["Event | UnknownEvent", ...] = ()
    request_id: str = msgspec.field(default="", name="key")
    actor: str = ""
    correlation: str = ""
    cause: str = ""
    sent_at: Instant | None = None
    parkable: bool = False
    verdict: Verdict | None = None
    original: Original | None = None


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One ledger object, decoded.

    `ts` is the leader's clock made monotonic, the only time the fold knows. `stall` says that the
    leader was not serving for a while, so that no lease may expire on account of that silence.
    An entry with a higher epoch than the one before is a fence: its writer took over. The first
    entry carries the `identity` of the workspace, as its manifests do, and no other entry does.
    `format`, `min_reader` and `min_servo` say who can fold the ledger up to it: see
    `servo.core.format`.
    """

    seq: int
    epoch: int
    owner: str
    nonce: str
    ts: datetime
    prev_hash: str
    fold_version: int
    stall: bool = False
    identity: str = ""
    batches: tuple[Batch, ...] = ()
    format: int = 1
    min_reader: int = 1
    min_servo: str = ""
