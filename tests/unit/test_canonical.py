"""Canonical JSON: what it looks like, and what has none."""

import math
from collections import OrderedDict
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Any

import msgspec
import pytest

from servo.core.canonical import (
    MAX_DEPTH,
    canonical_bytes,
    canonical_str,
    intern_defaults,
    sha256_hex,
)
from servo.errors import Invalid


class Colour(StrEnum):
    RED = "red"
    BROKEN = "\ud800"


class Ratio(Enum):
    HALF = 0.5


class Level(IntEnum):
    LOW = 1


class Point(msgspec.Struct, frozen=True, kw_only=True):
    y: Any
    x: Any = None


class Tagged(msgspec.Struct, frozen=True, tag="tagged", tag_field="m", rename={"a": "z"}):
    b: int
    a: int
    c: int | msgspec.UnsetType = msgspec.UNSET


class Sparse(msgspec.Struct, frozen=True, omit_defaults=True):
    number: int = 300_000
    text: str = "a default"
    flag: bool = True
    ratio: float = 0.5

    def __post_init__(self) -> None:
        intern_defaults(self)


class Plain(msgspec.Struct, frozen=True, omit_defaults=True):
    number: int = 300_000


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def refusal(value: object) -> str:
    with pytest.raises(Invalid) as caught:
        canonical_bytes(value)
    return caught.value.message


def test_keys_are_sorted_and_nothing_is_spaced_or_escaped() -> None:
    value: Any = {"b": [1, None, True], "a": "é🎉/", "A": {}}
    assert canonical_str(value) == '{"A":{},"a":"é🎉/","b":[1,null,true]}'
    assert canonical_bytes(value) == canonical_str(value).encode()


def test_keys_are_sorted_by_utf_8_bytes_not_by_utf_16_units() -> None:
    assert canonical_str({"\U00010000": 1, "\uffff": 2}) == '{"\uffff":2,"\U00010000":1}'


def test_a_tuple_is_written_as_a_list() -> None:
    assert canonical_bytes((1, (2,))) == canonical_bytes([1, [2]])


def test_a_member_of_a_string_enum_is_its_value_also_as_a_key() -> None:
    assert canonical_str({Colour.RED: Colour.RED}) == '{"red":"red"}'


def test_a_struct_is_written_with_its_fields_sorted_by_the_names_they_are_written_under() -> None:
    assert canonical_str(Point(x=1, y=[Tagged(2, 3)])) == '{"x":1,"y":[{"b":2,"m":"tagged","z":3}]}'


def test_the_hash_is_taken_over_the_canonical_bytes() -> None:
    assert sha256_hex({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    assert sha256_hex({"a": 1, "b": 2}) == sha256_hex({"b": 2, "a": 1})


@pytest.mark.parametrize("number", [1.0, 0.1, 1e300, -0.0, math.nan, math.inf, -math.inf])
def test_no_float_has_a_canonical_form(number: float) -> None:
    assert refusal(number) == "no canonical JSON for a float at $"


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"a": [1, {"b": 1.5}]}, "$['a'][1]['b']"),
        (Point(y=(1, {"q": math.nan})), "$.y[1]['q']"),
        ([Point(x=1.0, y=2.0)], "$[0].y"),
        ({"\ud800": 1, "a": 1.0}, "$"),
        ([{"it's": 0.5}], '$[0]["it\'s"]'),
        ([{"a": {"b": 1.0}}, 2.0], "$[0]['a']['b']"),
    ],
)
def test_the_refusal_names_the_first_place_that_is_wrong(value: object, path: str) -> None:
    assert refusal(value).endswith(f" at {path}")


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (b"x", "a bytes"),
        (bytearray(b"x"), "a bytearray"),
        ({1}, "a set"),
        (frozenset({1}), "a frozenset"),
        (Decimal(1), "a Decimal"),
        (datetime(2025, 1, 1, tzinfo=UTC), "a datetime"),
        (Ratio.HALF, "a Ratio"),
        (Level.LOW, "a Level"),
        (OrderedDict([("a", 1)]), "a OrderedDict"),
        (msgspec.Raw(b"1"), "a Raw"),
        (msgspec.UNSET, "a UnsetType"),
        (object(), "a object"),
        ({1: 2}, "a key of type int"),
        ({None: 2}, "a key of type NoneType"),
        ({Level.LOW: 2}, "a key of type Level"),
        ("\ud800", "a lone surrogate"),
        ("ok\udfff", "a lone surrogate"),
        (Colour.BROKEN, "a lone surrogate"),
        ({"\udfff": 1}, "a key with a lone surrogate"),
        ({Colour.BROKEN: 1}, "a key with a lone surrogate"),
        (2**64, "an integer beyond 64 bits"),
        (-(2**63) - 1, "an integer beyond 64 bits"),
    ],
)
def test_what_json_has_no_one_spelling_for_is_refused(value: object, what: str) -> None:
    assert refusal([value]) == f"no canonical JSON for {what} at $[0]"


def test_a_refusal_ends_with_what_to_use_instead() -> None:
    with pytest.raises(Invalid, match="use strings, 64-bit integers"):
        canonical_bytes(1.5)


@pytest.mark.parametrize("number", [2**64 - 1, -(2**63), 0, -1])
def test_the_whole_range_of_64_bits_is_accepted(number: int) -> None:
    assert canonical_bytes(number) == str(number).encode()


def test_nesting_up_to_the_limit_is_accepted_and_one_more_is_refused() -> None:
    assert canonical_str(nested(MAX_DEPTH)) == "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert "deeper than 100 levels" in refusal(nested(MAX_DEPTH + 1))


def test_a_scalar_inside_the_deepest_list_is_no_deeper() -> None:
    value: Any = Colour.RED
    for _ in range(MAX_DEPTH):
        value = [value]
    assert canonical_bytes(value).count(b"red") == 1


def test_a_depth_bomb_is_refused_with_a_short_message() -> None:
    bomb: dict[str, Any] = {}
    for _ in range(100_000):
        bomb = {"key" * 50: bomb}
    assert len(refusal(bomb)) < 300


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.extend([loop, loop])
    assert "deeper" in refusal(loop)


def test_a_field_that_is_not_set_is_neither_written_nor_refused() -> None:
    assert canonical_str(Tagged(1, 2)) == '{"b":1,"m":"tagged","z":2}'
    assert canonical_str(Tagged(1, 2, 3)) == '{"b":1,"c":3,"m":"tagged","z":2}'


def test_a_default_that_is_not_written_is_not_refused() -> None:
    assert canonical_str(Sparse()) == "{}"
    assert refusal(Sparse(ratio=0.25)) == "no canonical JSON for a float at $.ratio"


def test_equal_structs_that_omit_defaults_are_written_equally_once_interned() -> None:
    computed = int("300000"), "a " + "default".lower()
    assert canonical_str(Sparse(*computed)) == "{}"
    assert msgspec.json.encode(msgspec.json.decode(b'{"number":300000}', type=Sparse)) == b"{}"


def test_msgspec_still_omits_by_identity_which_is_why_interning_exists() -> None:
    assert msgspec.json.encode(Plain(int("300000"))) == b'{"number":300000}'


def test_interning_leaves_alone_what_only_python_calls_equal() -> None:
    value = Sparse(flag=1)  # pyright: ignore[reportArgumentType] - it is wrong
    assert canonical_str(value) == '{"flag":1}'
