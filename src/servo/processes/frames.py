"""Messages between processes as bytes: a length in four bytes, then MessagePack.

Either side may die at any byte: the other sees the end of the stream, never half a message.
"""

import struct
from collections.abc import Iterator
from typing import Any

import msgspec

_length = struct.Struct(">I")


def framed(data: bytes) -> bytes:
    """Bytes with their length before them."""
    return _length.pack(len(data)) + data


def sendable(text: str) -> str:
    """A text that can be sent and stored: what is not Unicode becomes a question mark."""
    return text.encode(errors="replace").decode()


class Frames:
    """Collects bytes as they arrive, and returns complete messages."""

    def __init__(self, decoder: msgspec.msgpack.Decoder[Any]) -> None:
        self._decoder = decoder
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[Any]:
        """The messages that these bytes complete."""
        held = self._held
        held += data
        start = 0
        while len(held) - start >= _length.size:
            (size,) = _length.unpack_from(held, start)
            end = start + _length.size + size
            if len(held) < end:
                break
            yield self._decoder.decode(memoryview(held)[start + _length.size : end])
            start = end
        if start:
            del held[:start]
