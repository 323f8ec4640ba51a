"""Values from the wire that a row can hold.

A well-formed event may carry any integer and any instant. What would later overflow a 64-bit
column, or raise when it is compared with the time of an entry, is refused where it enters.
"""

from datetime import UTC, datetime

from servo.core.fold.context import Rejected

MOST = 2**63 - 1


def number(value: int, what: str, *, least: int = 0, most: int = MOST) -> int:
    """`value` if it lies between these two, inclusive."""
    if not least <= value <= most:
        raise Rejected(f"out_of_range: {what} must be between {least} and {most}")
    return value


def instant(value: datetime, what: str) -> datetime:
    """`value` in UTC."""
    try:
        if value.tzinfo is not None:
            return value.astimezone(UTC)
    except OverflowError:  # within a day of year 1 or 9999 some offsets have no UTC
        pass
    raise Rejected(f"invalid_instant: {what} needs a time zone and a year from 1 to 9999 in UTC")
