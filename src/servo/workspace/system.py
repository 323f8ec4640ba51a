"""The real clock and the real source of randomness.

This is the only file that reads either: the linter refuses both everywhere else. Only the
composition root imports it, and hands both down: a simulation that hands down others controls all.
"""

import secrets
import time
from datetime import UTC, datetime

from servo.errors import Invalid


class SystemClock:
    """`Clock` over the operating system's clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


class SystemEntropy:
    """`Entropy` over the operating system's generator."""

    def token_bytes(self, count: int) -> bytes:
        # No bytes would be the same token every time, which the port excludes.
        if count < 1:
            raise Invalid(f"a token cannot have {count} bytes", remedy="use at least one byte")
        return secrets.token_bytes(count)
