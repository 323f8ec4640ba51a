"""Points in the past of a workspace: a ledger entry or a time."""

from datetime import UTC, datetime

from servo.errors import Invalid
from servo.projection.read.reader import Snapshot
from servo.projection.read.replay import PRESENT, AsOf, ReplayProgress

__all__ = ["PRESENT", "AsOf", "ReplayProgress", "instant_of", "parse_moment"]


def parse_moment(text: str) -> AsOf:
    """Parse a ledger entry or a time; without a time zone it is UTC."""
    if text.isdecimal():
        return int(text)
    try:
        found = datetime.fromisoformat(text)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):  # an offset may lead out of the years that there are
        raise Invalid(
            f"{text!r} is neither the number of a ledger entry nor a time",
            remedy="use 1234, 2026-01-31 or 2026-01-31T12:00:00Z",
        ) from None


def instant_of(snapshot: Snapshot, as_of: AsOf | None, now: datetime) -> datetime:
    """What time it was at a moment, for whatever depends on the clock: freshness, partitions."""
    if as_of is None:
        return now
    return snapshot.as_of if isinstance(as_of, int) else min(as_of, now)
