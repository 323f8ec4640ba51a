"""The identity of a partition: named, typed values in one canonical text.

    day=d:2025-01-15,region=s:ZXU

Dimensions are sorted by name; the letter before the colon is the type. Strings are base64url
without padding, so no value can contain a separator. Equal keys have equal text and different
keys different text: the text *is* the identity, which also keeps apart what Python calls equal
(`1` and `true`). `parse` accepts exactly what `canonical` writes. People see and type the plain
value where there is one dimension, and `day=2025-01-15,region=eu` where there are more.
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Self

import msgspec

from servo.core.ids import PartitionKeyStr, check_text
from servo.errors import Invalid

Scalar = str | int | bool | date | datetime | None

DEFAULT_DIMENSION = "partition"
MAX_DIMENSIONS = 16

_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
_ITEM = re.compile(r"([a-z][a-z0-9_]*)=([sibdtn]):(.*)")
_EXAMPLE = "write it like day=d:2025-01-15,region=s:ZXU, with the dimensions sorted"


class ValueType(StrEnum):
    """The type of a dimension; the value is the letter that marks it in the canonical text."""

    STRING = "s"
    INTEGER = "i"
    BOOLEAN = "b"
    DATE = "d"
    TIMESTAMP = "t"
    NULL = "n"


class PartitionKey(msgspec.Struct, frozen=True, order=True):
    """One partition of an asset. Make one with `of`, `single`, `parse` or `from_display`."""

    _text: PartitionKeyStr

    @classmethod
    def of(cls, values: Mapping[str, Scalar]) -> Self:
        """The key with these values by dimension."""
        if not 0 < len(values) <= MAX_DIMENSIONS:
            raise Invalid(
                f"a partition key has {len(values)} dimensions",
                remedy=f"use 1 to {MAX_DIMENSIONS}, and no key at all for an unpartitioned asset",
            )
        items = [f"{_check_dimension(name)}={_encode(values[name])}" for name in sorted(values)]
        return cls(PartitionKeyStr(",".join(items)))

    @classmethod
    def single(cls, value: Scalar, dimension: str = DEFAULT_DIMENSION) -> Self:
        """The key of an asset with one dimension."""
        return cls.of({dimension: value})

    @classmethod
    def joined(cls, parts: Mapping[str, "PartitionKey"]) -> Self:
        """The key with the values of keys of one dimension each, under these names."""
        items = [f"{name}={parts[name].canonical().partition('=')[2]}" for name in sorted(parts)]
        return cls(PartitionKeyStr(",".join(items)))

    @classmethod
    def parse(cls, text: str) -> Self:
        """The key whose canonical text this is; `Invalid` for any other spelling of it."""
        try:
            key = cls.of({name: _decode(tag, body) for name, tag, body in _items(text)})
        except (ValueError, KeyError, Invalid) as error:
            raise Invalid(f"{text!r} is not a partition key", remedy=_EXAMPLE) from error
        if key.canonical() != text:
            raise Invalid(f"{text!r} is not in canonical form", remedy=f"write {key.canonical()}")
        return key

    @classmethod
    def from_display(cls, text: str, dimensions: Mapping[str, ValueType]) -> Self:
        """The key of an asset with these dimensions that is displayed as `text`."""
        names = sorted(dimensions)
        parts = {names[0]: text} if len(names) == 1 else split_display(text, names)
        return cls.of({name: _read(parts[name], dimensions[name]) for name in names})

    def canonical(self) -> PartitionKeyStr:
        """The form that is hashed, sorted and stored."""
        return self._text

    def values(self) -> dict[str, Scalar]:
        """The values by dimension, sorted by dimension."""
        return {name: _decode(tag, body) for name, tag, body in _items(self._text)}

    def dimensions(self) -> dict[str, ValueType]:
        """The types by dimension, sorted by dimension."""
        return {name: ValueType(tag) for name, tag, _ in _items(self._text)}

    def display(self) -> str:
        """The form for people: the plain value, with dimension names if there are several."""
        shown = {name: _plain(value) for name, value in self.values().items()}
        if len(shown) == 1:
            return next(iter(shown.values()))
        return ",".join(f"{name}={value}" for name, value in shown.items())

    def __str__(self) -> str:
        return self.display()


def _check_dimension(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise Invalid(
            f"{name!r} cannot name a partition dimension",
            remedy="use 1 to 63 of a-z, 0-9 and '_', beginning with a letter",
        )
    return name


def _encode(value: object) -> str:
    match value:
        case None | bool():
            return "n:null" if value is None else f"b:{_plain(value)}"
        case int():
            return f"i:{_check_integer(value)}"
        case str():
            return f"s:{urlsafe_b64encode(_check_string(value).encode()).decode().rstrip('=')}"
        case datetime():
            return f"t:{_utc(value).isoformat(timespec='microseconds')[:-6]}Z"
        case date():
            return f"d:{value.isoformat()}"
        case _:
            raise Invalid(
                f"a partition value cannot be a {type(value).__name__}",
                remedy="use a string, integer, boolean, date, aware datetime or None",
            )


def _check_integer(value: int) -> int:
    if not -(2**63) <= value < 2**63:
        raise Invalid(f"partition value {value} is beyond 64 bits", remedy="use a string")
    return value


def _check_string(value: str) -> str:
    _ = check_text(value, "partition value")
    if "%" in value:
        raise Invalid(f"partition value {value!r} contains '%'", remedy="decode it first")
    return value


def _utc(value: datetime) -> datetime:
    try:
        if value.tzinfo is not None:
            return value.astimezone(UTC)
    except OverflowError:
        pass
    raise Invalid(
        f"partition value {value} is not a UTC timestamp in the years 1 to 9999",
        remedy="use an aware datetime, such as datetime(2025, 1, 15, tzinfo=UTC)",
    )


def _items(text: str) -> Iterable[tuple[str, str, str]]:
    for item in text.split(","):
        match = _ITEM.fullmatch(item)
        if match is None:
            raise Invalid(f"{item!r} is not a dimension of a partition key", remedy=_EXAMPLE)
        name, tag, body = match.groups()
        yield name, tag, body


# Each reads what its type writes and may accept more; the caller compares with the written form.
_READERS: dict[str, Callable[[str], Scalar]] = {
    ValueType.INTEGER: int,
    ValueType.BOOLEAN: {"true": True, "false": False}.__getitem__,
    ValueType.DATE: date.fromisoformat,
    ValueType.TIMESTAMP: datetime.fromisoformat,
    ValueType.NULL: {"null": None}.__getitem__,
}


def _decode(tag: str, body: str) -> Scalar:
    if tag == ValueType.STRING:
        return urlsafe_b64decode(body + "=" * (-len(body) % 4)).decode()
    return _READERS[tag](body)


def _plain(value: Scalar) -> str:
    match value:
        case None | bool():
            return "null" if value is None else str(value).lower()
        case datetime():
            return f"{_utc(value).isoformat()[:-6]}Z"
        case _:
            return str(value)


def _read(text: str, kind: ValueType) -> Scalar:
    if kind is ValueType.STRING:
        return text
    try:
        value = _READERS[kind](text)
        # An instant may be written in several ways; all other types only in one.
        if kind is ValueType.TIMESTAMP or _plain(value) == text:
            return value
    except (ValueError, KeyError):
        pass
    raise Invalid(
        f"{text!r} is not a valid {kind.name.lower()}", remedy=f"write it like {_LIKE[kind]}"
    )


_LIKE: dict[ValueType, str] = {
    ValueType.INTEGER: "42",
    ValueType.BOOLEAN: "true or false",
    ValueType.DATE: "2025-01-15",
    ValueType.TIMESTAMP: "2025-01-15T08:30:00Z",
    ValueType.NULL: "null",
}


def split_display(text: str, names: Sequence[str]) -> dict[str, str]:
    """The plain value of each of these dimensions in a string that names them."""
    # Values may contain commas and equals signs. Each name must then occur exactly once as
    # `name=` at the start or after a comma, or the text could be read in two ways.
    marks = list(re.finditer(rf"(?:^|,)({'|'.join(names)})=", text))
    if not marks or marks[0].start() != 0 or sorted(mark[1] for mark in marks) != sorted(names):
        raise Invalid(
            f"{text!r} does not contain each of {', '.join(names)} once",
            remedy=f"write {','.join(f'{name}=...' for name in names)}, or the canonical form",
        )
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    return {mark[1]: text[mark.end() : end] for mark, end in zip(marks, ends, strict=True)}


def shown_partition(key: str | None) -> str | None:
    """A partition as people write it."""
    if key is None:
        return None
    try:
        return PartitionKey.parse(key).display()
    except Invalid:
        return key
