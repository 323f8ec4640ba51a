"""Results of operations as JSON: the same bytes for the API and for `--json`."""

from typing import Any

import msgspec

# SQL may return decimals, and values that JSON does not know, such as durations.
_ENCODER = msgspec.json.Encoder(decimal_format="number", enc_hook=str)


def encode_result(result: Any) -> bytes:
    """A result of an operation as JSON."""
    return _ENCODER.encode(result)
