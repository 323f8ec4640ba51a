"""Durations as people write them: 90s, 30m, 24h, 7d."""

import re
from datetime import timedelta

from servo.errors import Invalid

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_WRITTEN = re.compile(r"(\d{1,9})([smhd])")
MILLISECOND = timedelta(milliseconds=1)


def parse_duration(text: str) -> timedelta:
    """Parse a duration."""
    found = _WRITTEN.fullmatch(text.strip())
    if found is None:
        raise Invalid(
            f"{text!r} is not a duration", remedy="use a duration such as 90s, 30m, 24h or 7d"
        )
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def format_duration(duration: timedelta) -> str:
    """Format a duration in the largest unit that represents it exactly."""
    seconds, rest = divmod(duration // MILLISECOND, 1000)
    if rest:
        return f"{duration // MILLISECOND}ms"
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds and not seconds % size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
