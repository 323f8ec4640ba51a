"""Stored values as tables, and names as people type them."""

import json
import pickle
from typing import Any

import pytest

from servo.errors import Conflict, Invalid, NotFound
from servo.execution.outputs.data import as_table
from servo.projection.partitions.asset_names import find_asset

KEYS = {"orders", "shop/orders", "shop/daily", "left/same", "right/same"}


PLAIN: list[tuple[Any, list[dict[str, Any]]]] = [
    ([{"a": 1, "b": "x"}, {"a": 2}], [{"a": 1, "b": "x"}, {"a": 2, "b": None}]),
    ({"a": [1, 2], "b": {"c": 1}}, [{"a": [1, 2], "b": {"c": 1}}]),
    ([1, None, 3], [{"value": 1}, {"value": None}, {"value": 3}]),
    ([], []),
    ([{}, {}], [{"value": None}, {"value": None}]),
    (7, [{"value": 7}]),
    (None, [{"value": None}]),
]


@pytest.mark.parametrize(("value", "rows"), PLAIN)
def test_plain_values_have_a_form_as_a_table(value: Any, rows: list[dict[str, Any]]) -> None:
    assert as_table("k", "json", json.dumps(value).encode()).to_pylist() == rows


def test_text_and_bytes_are_one_row() -> None:
    assert as_table("k", "text", b"hello").to_pylist() == [{"value": "hello"}]
    assert as_table("k", "bytes", b"\xff").to_pylist() == [{"value": b"\xff"}]


@pytest.mark.parametrize("value", [[1, "x"], [{"a": 1}, {"a": "x"}], [2**70], [{"a": 1}, 2]])
def test_values_of_several_kinds_are_refused_with_the_way_out(value: Any) -> None:
    with pytest.raises(Invalid, match="load_asset"):
        as_table("k", "json", json.dumps(value).encode())


def test_a_pickle_is_not_opened() -> None:
    with pytest.raises(Invalid, match="only Python can read"):
        as_table("k", "pickle", pickle.dumps(Bomb()))


class Bomb:
    """Opening it would be noticed."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (pytest.fail, ("a pickle was opened",))


@pytest.mark.parametrize(
    ("typed", "key"),
    [
        ("orders", "orders"),
        ("shop/orders", "shop/orders"),
        ("shop.orders", "shop/orders"),
        ("daily", "shop/daily"),
    ],
)
def test_a_key_is_found_whole_with_dots_or_by_its_last_part(typed: str, key: str) -> None:
    assert find_asset(KEYS, typed) == key


def test_what_could_be_several_or_none_is_said() -> None:
    with pytest.raises(Conflict, match="left/same, right/same"):
        find_asset(KEYS, "same")
    with pytest.raises(NotFound, match="did you mean shop/daily"):
        find_asset(KEYS, "dailly")
    with pytest.raises(NotFound, match="servo list"):
        find_asset(KEYS, "zzzz")
