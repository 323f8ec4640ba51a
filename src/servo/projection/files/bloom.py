"""A Bloom filter over primary keys: "certainly not in this file", for ten bits a key.

Keys are hashed once with BLAKE2b into two numbers; the seven positions of a filter follow from
those by steps, so one hash serves every file that is asked. A key that was added is always
admitted; one that was not is admitted about once in a hundred and twenty.
"""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import msgspec

BITS_PER_KEY = 10
HASHES = 7

Probe = tuple[int, int]

_encode = msgspec.json.Encoder().encode


def probe(key: tuple[Any, ...]) -> Probe:
    """The two numbers that stand for a key in every filter."""
    digest = blake2b(_encode(key), digest_size=16).digest()
    # An even step could walk in a short circle.
    return int.from_bytes(digest[:8]), int.from_bytes(digest[8:]) | 1


class Bloom(msgspec.Struct, frozen=True, kw_only=True):
    """A filter as it is stored."""

    bits: bytes
    hashes: int

    def admits(self, asked: Probe) -> bool:
        """False if no such key was added."""
        position, step = asked
        bits = self.bits
        size = len(bits) * 8
        for _ in range(self.hashes):
            at = position % size
            if not bits[at >> 3] >> (at & 7) & 1:
                return False
            position += step
        return True


class BloomBuilder:
    """Builds a filter for at most about `capacity` keys."""

    def __init__(self, capacity: int) -> None:
        self._bits = bytearray(max(8, (capacity * BITS_PER_KEY + 7) // 8))

    def add(self, keys: Iterable[tuple[Any, ...]]) -> None:
        bits = self._bits
        size = len(bits) * 8
        for key in keys:
            position, step = probe(key)
            for _ in range(HASHES):
                at = position % size
                bits[at >> 3] |= 1 << (at & 7)
                position += step

    def build(self) -> Bloom:
        return Bloom(bits=bytes(self._bits), hashes=HASHES)
