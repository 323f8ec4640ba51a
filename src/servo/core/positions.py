"""Positions: the ids of events.

An event is identified by where it stands: the number of its ledger entry, and its place among all
events of that entry, counted from 0 over all its batches. The two are known once the entry is
durable, never change, and are the same on every machine that reads the ledger. Written `123.4`, a
position is the `accepted_event_id` that callers are given and the `cause` that batches carry.
"""

import re

import msgspec

from servo.errors import Invalid

MAX_SEQ = 2**63 - 1

_TEXT = re.compile(r"([1-9][0-9]{0,18})\.(0|[1-9][0-9]{0,9})")


class Position(msgspec.Struct, frozen=True, order=True):
    """Where an event stands in the ledger. Positions order as the events do."""

    seq: int
    index: int

    def __str__(self) -> str:
        return f"{self.seq}.{self.index}"


def parse_position(text: str, what: str = "position") -> Position:
    """The position that a string stands for; `Invalid` if it is none."""
    found = _TEXT.fullmatch(text)
    if found is None or int(found[1]) > MAX_SEQ:
        raise Invalid(
            f"{what} {text[:80]!r} is not a ledger position",
            remedy="write the ledger entry and the index of the event in it, such as 123.4",
        )
    return Position(int(found[1]), int(found[2]))


def check_position(text: str, what: str) -> str:
    """`text` if it is written as a position."""
    _ = parse_position(text, what)
    return text
