"""Moments of a workspace's past, as people name them: an entry of the ledger, or an instant."""

from datetime import UTC, datetime

from servo.errors import Invalid
from servo.projection.read.replay import AsOf

__all__ = ["AsOf", "parse_moment"]


def parse_moment(text: str) -> AsOf:
    """A ledger entry or an instant, as people write them; without a zone it is UTC."""
    if text.isdecimal():
        return int(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise Invalid(
            f"{text!r} is neither the number of a ledger entry nor an instant",
            remedy="write 1234, 2026-01-31 or 2026-01-31T12:00:00Z",
        ) from None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
