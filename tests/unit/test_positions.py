"""Positions: how they are written, read and ordered."""

import pytest

from servo.core.positions import MAX_SEQ, Position, check_position, parse_position
from servo.errors import Invalid


@pytest.mark.parametrize("position", [Position(1, 0), Position(123, 4), Position(MAX_SEQ, 10)])
def test_a_position_is_read_as_it_was_written(position: Position) -> None:
    assert parse_position(str(position)) == position
    assert check_position(str(position), "cause") == str(position)


def test_a_position_is_written_as_two_numbers() -> None:
    assert str(Position(123, 4)) == "123.4"


@pytest.mark.parametrize(
    "text",
    ["", "1", "1.", ".1", "0.1", "01.1", "1.01", "-1.0", "1.0.0", " 1.0", "1.0\n", "9" * 19 + ".0"],
)
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(Invalid, match=r"such as 123\.4"):
        parse_position(text)


def test_what_is_wrong_is_named() -> None:
    with pytest.raises(Invalid, match="cause 'x' is not a ledger position"):
        check_position("x", "cause")


def test_positions_order_as_the_events_do() -> None:
    shuffled = [Position(10, 0), Position(9, 11), Position(9, 2)]
    assert sorted(shuffled) == [Position(9, 2), Position(9, 11), Position(10, 0)]
