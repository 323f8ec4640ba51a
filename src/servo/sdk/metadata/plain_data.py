"""Values that JSON can represent: strings, numbers, booleans, None, lists and dicts of them.

Numbers that JSON lacks become null.
"""

import json
from collections.abc import Mapping, Sequence
from math import isfinite
from numbers import Integral, Real
from typing import Any, cast

from servo.errors import Invalid


def plain_data(value: Any, where: str) -> Any:
    """`value` after a round trip through JSON; `Invalid` with the path of what JSON lacks."""
    value = unboxed(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Integral | Real):
        return _number(value)
    if isinstance(value, Mapping):
        pairs = cast("Mapping[Any, Any]", value).items()
        return {_name(k, where): plain_data(v, f"{where}.{k}") for k, v in pairs}
    if isinstance(value, list | tuple):
        items = enumerate(cast("Sequence[Any]", value))
        return [plain_data(item, f"{where}[{index}]") for index, item in items]
    raise Invalid(
        f"{where} is a {type_name(value)}, which JSON cannot hold",
        remedy="use strings, numbers, booleans, None, lists and dicts",
    )


def unboxed(value: Any) -> Any:
    """A NumPy number as a Python number, without importing NumPy."""
    return value.item() if getattr(value, "shape", None) == () else value


def type_name(value: object) -> str:
    """The name of the type of a value, for messages."""
    kind = type(value)
    own = kind.__module__ == "builtins"
    return kind.__qualname__ if own else f"{kind.__module__}.{kind.__qualname__}"


def _number(value: Integral | Real) -> int | float | None:
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isfinite(value) else None


def _name(key: Any, where: str) -> str:
    if isinstance(key, str):
        return str(key)
    if key is None or isinstance(key, bool | Integral):
        return json.dumps(key if key is None or isinstance(key, bool) else int(key))
    raise Invalid(f"{where} has the key {key!r}", remedy="use strings as keys")
