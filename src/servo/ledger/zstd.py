"""zstd, by the codec that pyarrow carries.

pyarrow is imported by the first use: a workspace whose ledger was never archived does without it.
Entries repeat each other so much that a higher level of compression costs time and saves nothing.
"""

from importlib import import_module
from typing import Any


def compress(data: bytes) -> bytes:
    return _codec().compress(data, asbytes=True)


def decompress(data: bytes, *, size: int) -> bytes:
    """The `size` bytes that were compressed; `OSError` if these bytes cannot have been."""
    return _codec().decompress(data, decompressed_size=size, asbytes=True)


def _codec() -> Any:
    return import_module("pyarrow").Codec("zstd")
