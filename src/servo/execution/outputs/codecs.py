"""Values as bytes.

A value is stored in the plainest form that brings it back as it was: text and bytes as they are,
what JSON can hold as JSON, and the rest as a pickle, which only Python can read.
"""

import json
import math
import pickle
from collections.abc import Callable
from typing import Any, cast

from servo.errors import Corrupt, Invalid


def encode(value: Any) -> tuple[str, bytes]:
    """The name of the codec and the bytes; `Invalid` if a value cannot be stored."""
    if isinstance(value, bytes):
        return "bytes", value
    if type(value) is str:
        try:
            return "text", value.encode()
        except UnicodeEncodeError:
            pass
    if _is_json(value):
        return "json", json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    try:
        return "pickle", pickle.dumps(value, protocol=5)
    except Exception as error:
        raise Invalid(
            f"a value of type {type(value).__qualname__} cannot be stored: {error}",
            remedy="return plain data or a table, or give the asset an IO manager",
        ) from error


def decode(codec: str, data: bytes) -> Any:
    """The value that was stored."""
    match codec:
        case "bytes":
            return data
        case "text":
            return data.decode()
        case "json":
            return json.loads(data)
        case "pickle":
            return pickle.loads(data)  # noqa: S301 - see above
        case _:
            raise Corrupt(
                f"no codec {codec!r}", remedy="upgrade Servo, or materialize the asset again"
            )


def _is_json(value: Any, depth: int = 20) -> bool:
    """Whether JSON gives back exactly this value, types included."""
    kind = cast("type[Any]", type(value))
    if kind in _LEAVES:
        return _LEAVES[kind](value)
    if depth == 0 or kind not in (list, dict):
        return False
    if kind is list:
        return all(_is_json(item, depth - 1) for item in value)
    return all(type(k) is str and _encodes(k) and _is_json(v, depth - 1) for k, v in value.items())


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _always(_: object) -> bool:
    return True


_LEAVES: dict[type, Callable[[Any], bool]] = {
    type(None): _always,
    bool: _always,
    int: _always,
    float: math.isfinite,
    str: _encodes,
}
