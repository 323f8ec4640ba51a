"""Freshness: an asset came to stand otherwise than it did."""

from typing import ClassVar, Literal

from servo.core.events.envelope import Event, EventKind, Instant
from servo.core.freshness import FreshnessState
from servo.core.wire import Id, Int64


class FreshnessChanged(Event, frozen=True, kw_only=True, tag="FreshnessChanged"):
    """An asset is now as fresh as this, and was not before.

    It is decided on the version of its freshness and on the materialization that the event names,
    and refused if either is another by now. `changed_at` is when it came to be so, which may be
    before anybody looked.
    """

    KIND: ClassVar[EventKind] = EventKind.INTENT

    v: Literal[1] = 1
    asset_key: Id
    state: FreshnessState
    expected_version: Int64 = 0
    materialization_seq: Int64 | None = None
    changed_at: Instant
