"""Numbers the fold depends on. They are part of its meaning: changing one is a new fold version."""

from datetime import timedelta
from functools import lru_cache

FOLD_VERSION = 1

PLAN_TIMEOUT = timedelta(minutes=10)
CANCEL_GRACE = timedelta(seconds=30)
MAX_DELIVERIES = 8
MAX_DOUBLINGS = 4
MIN_HEARTBEAT_TIMEOUT_MS = 5_000
MAX_TASKS_PER_RUN = 1_000_000
DEFAULT_MAX_CONCURRENT_TASKS = 1_000

MAX_WAITING_MESSAGES = 100_000
MAX_MESSAGE_ATTEMPTS = 5

PARK_FOR = timedelta(hours=24)
MAX_PARKED_PER_RUN = 1_000
ANSWERS_KEPT_FOR = timedelta(days=30)

LONGEST = timedelta(days=3650)
_LONGEST_MS = LONGEST // timedelta(milliseconds=1)


@lru_cache(1024)
def span(milliseconds: int) -> timedelta:
    """A duration from the wire, brought into a range that no arithmetic on time can leave.

    Few different ones are in use, and making one takes longer than adding it to a time.
    """
    return timedelta(milliseconds=clamp_ms(milliseconds))


def clamp_ms(milliseconds: int) -> int:
    """A number of milliseconds, at least none and at most ten years."""
    return min(max(milliseconds, 0), _LONGEST_MS)
