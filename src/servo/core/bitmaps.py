"""Sets of whole numbers as bitmaps: which of a million partitions, in one `int`.

Bit *n* is set if *n* is in the set, so `&`, `|`, `^` and `& ~` are the operations of sets and
`int.bit_count` counts. Python does them over whole words: a million partitions are 125 kB and a
few microseconds. What is slow on such a number is to change or read one bit at a time, so this
module makes bitmaps from many numbers, and reads many numbers from them, in one pass each.

A stored bitmap is a string of its ranges: `0-364,400` is short for what is dense, and can be read.
"""

import re
from collections.abc import Iterable, Iterator

from servo.errors import Corrupt

EMPTY = 0
_BYTE = 8
_WIDTH = 4_096
_WINDOW = (1 << _WIDTH) - 1
_SOME = re.compile(rb"[^\0]", re.DOTALL)


def span(start: int, stop: int) -> int:
    """Every number from `start` up to and without `stop`."""
    return ((1 << (stop - start)) - 1) << start if stop > start else EMPTY


def bitmap(numbers: Iterable[int]) -> int:
    """The set of these numbers."""
    found = sorted(numbers)
    if not found:
        return EMPTY
    held = bytearray(found[-1] // _BYTE + 1)
    for number in found:
        held[number // _BYTE] |= 1 << number % _BYTE
    return int.from_bytes(held, "little")


def numbers(bits: int) -> Iterator[int]:
    """What is in a set, in order; where nothing is, it is skipped at the speed of a search."""
    data = _bytes(bits)
    for found in _SOME.finditer(data):
        index = found.start()
        for place in _PLACES[data[index]]:
            yield index * _BYTE + place


def first(bits: int) -> int | None:
    """The least number of a set, if it has any."""
    return (bits & -bits).bit_length() - 1 if bits else None


def last(bits: int) -> int | None:
    """The greatest number of a set, if it has any."""
    return bits.bit_length() - 1 if bits else None


def ranges(bits: int) -> list[tuple[int, int]]:
    """What is in a set as pairs of first and last number, both included, in order."""
    starts = bits & ~(bits << 1)
    ends = bits & ~(bits >> 1)
    return list(zip(numbers(starts), numbers(ends), strict=True))


def first_ranges(bits: int, most: int) -> tuple[list[tuple[int, int]], bool]:
    """The first pairs of a set, and whether there are more; without looking at all of it."""
    found: list[tuple[int, int]] = []
    start, rest = 0, bits
    while rest and len(found) <= most:
        gap = (rest & -rest).bit_length() - 1
        start, rest = start + gap, rest >> gap
        pairs = ranges(rest & _WINDOW)
        if pairs[0][1] == _WIDTH - 1:  # the range continues after the window: find its end
            pairs = [(0, (~rest & (rest + 1)).bit_length() - 2)]
        elif pairs[-1][1] == _WIDTH - 1:
            pairs.pop()
        found += [(start + low, start + high) for low, high in pairs]
        behind = pairs[-1][1] + 1
        start, rest = start + behind, rest >> behind
    return found[:most], len(found) > most


def from_ranges(pairs: Iterable[tuple[int, int]]) -> int:
    """The set of the numbers in these pairs of first and last number."""
    held = bytearray()
    bits = EMPTY
    for low, high in pairs:
        if low == high:
            _ = held.extend(bytes(max(low // _BYTE + 1 - len(held), 0)))
            held[low // _BYTE] |= 1 << low % _BYTE
        else:
            bits |= span(low, high + 1)
    return bits | int.from_bytes(held, "little")


def to_text(bits: int) -> str:
    """A set as it is stored; an empty text for one with nothing in it."""
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges(bits))


def from_text(text: str) -> int:
    """The set that was stored as this text."""
    if not text:
        return EMPTY
    pairs: list[tuple[int, int]] = []
    for part in text.split(","):
        low, dash, high = part.partition("-")
        if not low.isdecimal() or (dash and not high.isdecimal()):
            raise Corrupt(
                f"{part[:40]!r} is not a range of partitions", remedy="report this as a bug"
            )
        pairs.append((int(low), int(high) if dash else int(low)))
    return from_ranges(pairs)


def _bytes(bits: int) -> bytes:
    return bits.to_bytes((bits.bit_length() + _BYTE - 1) // _BYTE, "little")


_PLACES = tuple(
    tuple(place for place in range(_BYTE) if byte >> place & 1) for byte in range(1 << _BYTE)
)
