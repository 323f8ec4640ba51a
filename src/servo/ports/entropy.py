"""Randomness, as an argument to everything that needs it.

Nonces, execution ids and ULIDs come from here, so that a simulation with a seed is a replay.
"""

from typing import Protocol


class Entropy(Protocol):
    """Where unpredictable bytes come from."""

    def token_bytes(self, count: int) -> bytes:
        """`count` bytes that nobody can guess and that never repeat."""
        ...
