"""The one way Servo turns a value into bytes that are hashed or compared.

Canonical JSON: object keys sorted by their UTF-8 bytes, no white space, UTF-8 without ASCII
escapes (only the quote, the backslash and U+0000–U+001F are escaped, in the short form where JSON
has one). Equal values give equal bytes on every machine and in every language. A value is one of

- `None`, `bool`, `str` without lone surrogates, and `int` from -2^63 (the smallest signed) to
  2^64 - 1 (the largest unsigned 64-bit number);
- `list` and `tuple` (both are arrays) and `dict` with `str` keys;
- a member of a `StrEnum`, also as a key, or a `msgspec.Struct`, which is written as msgspec writes
  it (renamed, tagged, defaults omitted where the class says so) with its fields sorted.

Everything else is refused with `Invalid` and the path to it: floats first of all (their text
differs between languages), but also bytes, sets, dates, decimals and other enums, for which JSON
has no one spelling. Nesting deeper than `MAX_DEPTH` is refused too, and so is a value that
contains itself.
"""

import re
from collections.abc import Collection, Iterator
from enum import Enum, StrEnum
from functools import cache
from hashlib import sha256
from typing import cast

import msgspec

from servo.errors import Invalid

MAX_DEPTH = 100
MIN_INT = -(2**63)
MAX_INT = 2**64 - 1

_USE = "use strings, 64-bit integers, booleans, null, lists and objects with string keys"
_MAX_PATH = 200
_SURROGATE = re.compile("[\ud800-\udfff]")

# Walking the value before encoding it is not optional: msgspec writes NaN as null, bytes as
# base64 and a set as an array without complaint.
_encode = msgspec.json.Encoder(order="sorted").encode


def canonical_bytes(value: object) -> bytes:
    """The canonical JSON of `value`; `Invalid` if it has none."""
    if not _is_canonical(value):
        # The walk above carries no path, which makes it several times as fast; this one does.
        raise _refusal(value)
    return _encode(value)


def canonical_str(value: object) -> str:
    """The canonical JSON of `value` as text."""
    return canonical_bytes(value).decode()


def sha256_hex(value: object) -> str:
    """The SHA-256 of the canonical JSON of `value`, as 64 lower-case hex digits."""
    return sha256(canonical_bytes(value)).hexdigest()


def intern_defaults(value: msgspec.Struct) -> None:
    """Make equal structs of a class with `omit_defaults` encode to equal bytes.

    msgspec omits a field whose value *is* the default, not one that merely equals it, so a struct
    that was decoded, or built from a computed integer, would be written differently from its
    equal. A class with `omit_defaults` whose bytes are hashed calls this from `__post_init__`.
    """
    for name, default in _defaults(type(value)):
        held = cast("object", getattr(value, name))
        if held is not default and type(held) is type(default) and held == default:
            msgspec.structs.force_setattr(value, name, default)


@cache
def _defaults(kind: type[msgspec.Struct]) -> tuple[tuple[str, object], ...]:
    # Python keeps one object each for None, 0, "", () and every enum member.
    pairs = zip(kind.__struct_fields__, _default_values(kind), strict=True)
    return tuple([pair for pair in pairs if pair[1] and not isinstance(pair[1], Enum)])


def _default_values(kind: type[msgspec.Struct]) -> tuple[object, ...]:
    # The leading fields that have none are left out by msgspec.
    defaults = cast("tuple[object, ...]", kind.__struct_defaults__)
    return (msgspec.UNSET,) * (len(kind.__struct_fields__) - len(defaults)) + defaults


@cache
def _unwritten(kind: type[msgspec.Struct]) -> tuple[object, ...]:
    """For each field the object that is not written if the field holds it."""
    if kind.__struct_config__.omit_defaults:
        return _default_values(kind)
    return (msgspec.UNSET,) * len(kind.__struct_fields__)


def _is_canonical(root: object) -> bool:
    # A stack of iterators: its height is the depth, so neither a deep value nor one that contains
    # itself exhausts anything. The leaves are repeated from `_fault` to spare them a call.
    stack: list[Iterator[object]] = [iter((root,))]
    while stack:
        for value in stack[-1]:
            if type(value) is str:
                if not _is_utf8(value):
                    return False
            elif type(value) is int:
                if not MIN_INT <= value <= MAX_INT:
                    return False
            elif value is not None and type(value) is not bool:
                if _fault(value, len(stack)):
                    return False
                if inner := _children(value):
                    stack.append(iter(inner))
                    break
        else:
            _ = stack.pop()
    return True


def _refusal(root: object) -> Invalid:
    """The first fault in the order of the document; only called where there is one."""
    stack: list[tuple[str, object, int]] = [("$", root, 1)]
    while True:
        path, value, depth = stack.pop()
        if fault := _fault(value, depth):
            return Invalid(f"no canonical JSON for {fault} at {_short(path)}", remedy=_USE)
        inner = zip(_steps(value), _children(value), strict=True)
        stack.extend(reversed([(path + step, child, depth + 1) for step, child in inner]))


def _fault(value: object, depth: int) -> str:
    """What is wrong with `value`, leaving aside what it contains; empty if nothing is."""
    if type(value) is dict:
        return _keys_fault(cast("dict[object, object]", value)) or _depth_fault(depth)
    if type(value) is list or type(value) is tuple or isinstance(value, msgspec.Struct):
        return _depth_fault(depth)
    if type(value) is int:
        return "" if MIN_INT <= value <= MAX_INT else "an integer beyond 64 bits"
    if type(value) is str or isinstance(value, StrEnum):
        return "" if _is_utf8(value) else "a lone surrogate"
    return "" if value is None or type(value) is bool else f"a {type(value).__name__}"


def _keys_fault(value: dict[object, object]) -> str:
    for key in value:
        if type(key) is not str and not isinstance(key, StrEnum):
            return f"a key of type {type(key).__name__}"
        if not _is_utf8(key):
            return "a key with a lone surrogate"
    return ""


def _depth_fault(depth: int) -> str:
    return "" if depth <= MAX_DEPTH else f"nesting deeper than {MAX_DEPTH} levels"


def _children(value: object) -> Collection[object]:
    if type(value) is dict:
        return cast("dict[object, object]", value).values()
    if isinstance(value, msgspec.Struct):
        return [held for _, held in _written(value)]
    return cast("list[object]", value) if type(value) in (list, tuple) else ()


def _steps(value: object) -> Collection[str]:
    if type(value) is dict:
        return [f"[{key!r}]" for key in cast("dict[object, object]", value)]
    if isinstance(value, msgspec.Struct):
        return [f".{name}" for name, _ in _written(value)]
    return [f"[{index}]" for index in range(len(_children(value)))]


def _written(value: msgspec.Struct) -> list[tuple[str, object]]:
    # UNSET is written nowhere, and refused anywhere but in a field.
    fields = zip(
        value.__struct_fields__,
        msgspec.structs.astuple(value),
        _unwritten(type(value)),
        strict=True,
    )
    return [
        (name, held) for name, held, no in fields if held is not no and held is not msgspec.UNSET
    ]


def _is_utf8(text: str) -> bool:
    return text.isascii() or not _SURROGATE.search(text)


def _short(path: str) -> str:
    half = _MAX_PATH // 2
    return path if len(path) <= _MAX_PATH else f"{path[:half]}…{path[-half:]}"
