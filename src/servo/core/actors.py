"""Actors: who requested or reported something.

An actor is a person or a machine, written `KIND:NAME`: `user:ada@laptop`, `worker:POOL`,
`schedule:NAME`. Every batch has one. Kinds are open: an unknown one is read like any other, so that
ledgers of later versions can be read.
"""

import re
from enum import StrEnum
from functools import lru_cache

import msgspec

from servo.core.ids import check_text
from servo.errors import Invalid

MAX_ACTOR_BYTES = 512

_KIND = re.compile(r"[a-z][a-z0-9_-]{0,31}")


class ActorKind(StrEnum):
    """The kinds of actors that Servo itself creates."""

    USER = "user"
    WORKER = "worker"
    SCHEDULE = "schedule"
    SENSOR = "sensor"
    AUTOMATION = "automation"
    BACKFILL = "backfill"
    LEADER = "leader"
    INBOX = "inbox"


class Actor(msgspec.Struct, frozen=True):
    """A person or a machine; `str()` of it is how it is written."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Who sent a batch, what caused it, and the request it belongs to."""

    actor: str
    cause: str = ""
    correlation: str = ""


def actor(kind: ActorKind, name: str) -> str:
    """The text of an actor; `Invalid` if its name cannot be one."""
    return str(parse_actor(f"{kind}:{name}"))


@lru_cache(maxsize=1024)
def parse_actor(text: str) -> Actor:
    """The actor that a string stands for, or `Invalid`. Workers send theirs very often."""
    kind, colon, name = text.partition(":")
    if not colon or not name or not _KIND.fullmatch(kind):
        raise Invalid(
            f"actor {text[:80]!r} does not say what kind of actor it is",
            remedy="write KIND:NAME, such as user:ada@laptop or worker:etl",
        )
    _ = check_text(text, "actor", MAX_ACTOR_BYTES)
    return Actor(kind, name)


def is_actor(text: str) -> bool:
    """Whether a string stands for an actor."""
    try:
        _ = parse_actor(text)
    except Invalid:
        return False
    return True
