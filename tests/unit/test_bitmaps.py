"""Sets of partitions as bitmaps behave as sets of numbers do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servo.core import bitmaps
from servo.errors import Corrupt

SETS = st.sets(st.integers(min_value=0, max_value=500))


@given(SETS)
def test_a_bitmap_holds_what_it_was_made_of(members: set[int]) -> None:
    bits = bitmaps.bitmap(members)
    assert list(bitmaps.numbers(bits)) == sorted(members)
    assert bits.bit_count() == len(members)
    assert bitmaps.first(bits) == min(members, default=None)
    assert bitmaps.last(bits) == max(members, default=None)


@pytest.mark.parametrize(
    ("members", "first", "last"), [((), None, None), ((0,), 0, 0), ((3, 70, 5), 3, 70)]
)
def test_the_first_and_the_last_of_a_set(
    members: tuple[int, ...], first: int | None, last: int | None
) -> None:
    bits = bitmaps.bitmap(members)
    assert (bitmaps.first(bits), bitmaps.last(bits)) == (first, last)


@given(SETS, SETS)
def test_operators_are_those_of_sets(left: set[int], right: set[int]) -> None:
    one, other = bitmaps.bitmap(left), bitmaps.bitmap(right)
    assert one & other == bitmaps.bitmap(left & right)
    assert one | other == bitmaps.bitmap(left | right)
    assert one & ~other == bitmaps.bitmap(left - right)


@given(SETS)
def test_a_stored_bitmap_is_read_back(members: set[int]) -> None:
    bits = bitmaps.bitmap(members)
    assert bitmaps.from_text(bitmaps.to_text(bits)) == bits
    assert bitmaps.from_ranges(bitmaps.ranges(bits)) == bits


def test_what_is_dense_is_stored_as_its_ranges() -> None:
    bits = bitmaps.span(0, 365) | bitmaps.span(400, 401) | bitmaps.span(403, 405)
    assert bitmaps.to_text(bits) == "0-364,400,403-404"
    assert bitmaps.ranges(bits) == [(0, 364), (400, 400), (403, 404)]


def test_a_span_without_length_is_empty() -> None:
    assert bitmaps.span(5, 5) == bitmaps.EMPTY == bitmaps.span(7, 5)


@pytest.mark.parametrize("text", ["a", "1-", "-1", "1,,2", "1-2-3", "1 ", "²"])
def test_a_text_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(Corrupt, match="not a range of partitions"):
        _ = bitmaps.from_text(text)
