"""Recorded times that show that a clock was wrong.

The time of a ledger only grows. If a leader's clock was ahead, the ledger still is when the clock
has been put right, and so are the times that were recorded meanwhile. Whoever waits for such a time
would wait as long as the clock was ahead.
"""

from datetime import datetime, timedelta

FAR_AHEAD = timedelta(hours=1)
"""Further in the future than any clock that is right could have recorded a time."""


def is_far_ahead(recorded: datetime, now: datetime) -> bool:
    """Whether a time in the past was recorded by a clock that was far ahead of this one."""
    return recorded - now > FAR_AHEAD
