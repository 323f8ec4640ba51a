"""What values can be told not to be what an annotation says, and what passes because nobody can."""

from collections.abc import Iterator, Mapping, Sequence
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NewType,
    Optional,
    Protocol,
    TypedDict,
    TypeVar,
    Union,
)

import numpy as np
import pandas as pd
import polars as pl
import pytest

from servo.sdk.assets.annotations import fits, name_of, told, value_type
from servo.sdk.assets.results import MaterializeResult, Output, Skip

T = TypeVar("T")
Name = NewType("Name", str)


class Shape(TypedDict):
    a: int


class Row(NamedTuple):
    a: int


class Closes(Protocol):
    def close(self) -> None: ...


class Odd(type):
    def __instancecheck__(cls, instance: object) -> bool:
        raise TypeError("not this way")


class Refuses(metaclass=Odd): ...


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (1, int),
        (True, int),
        (np.int64(1), int),
        (1, float),
        (np.float32(1), float),
        (1.5, complex),
        ("x", Name),
        ("x", Annotated[str, "note"]),
        ("x", Literal["x", "y"]),
        ([1], list[str]),  # what is inside is not looked at
        ([1], Sequence[int]),
        ({}, Mapping[str, int]),
        ({"a": 1}, Shape),
        (Row(1), tuple[int, ...]),
        (None, None),
        (None, Optional[int]),  # noqa: UP045 - the older spelling
        (1, int | None),
        ("x", Union[int, str]),  # noqa: UP007 - the older spelling
        (pl.DataFrame(), pl.DataFrame),
        (pd.DataFrame(), pd.DataFrame),
        (object(), Any),
        (object(), object),
        (object(), T),
        (object(), "Missing"),
        (object(), Closes),
        (object(), Refuses),
    ],
)
def test_what_fits_or_cannot_be_told(value: object, hint: Any) -> None:
    assert fits(value, hint)


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("x", int),
        (1.5, int),
        (np.float64(1), int),
        ("1", float),
        (None, int),
        (1, None),
        (1, Name),
        (1, Annotated[str, "note"]),
        ("z", Literal["x", "y"]),
        ((1,), list[int]),
        ([], Mapping[str, int]),
        ([], Shape),
        ("x", int | None),
        (pd.DataFrame(), pl.DataFrame),
        ({}, pl.DataFrame),
    ],
)
def test_what_does_not_fit(value: object, hint: Any) -> None:
    assert not fits(value, hint)


@pytest.mark.parametrize(
    ("returns", "value"),
    [
        (int, int),
        (None, Any),
        (type(None), Any),
        (Output, Any),
        (Output[int], int),
        (MaterializeResult, Any),
        (MaterializeResult[list[int]], list[int]),
        (Iterator[Output[int]], Any),
        (Skip, Any),
        (int | Skip, int),
        (int | None, int | None),
        (int | str | Skip, int | str),
        (int | MaterializeResult[Any], Any),
        (Output[int] | str, int | str),
    ],
)
def test_the_value_is_read_off_what_is_returned(returns: Any, value: Any) -> None:
    assert value_type(returns) == value


def test_types_and_values_are_told_as_people_write_them() -> None:
    assert [name_of(hint) for hint in (int, list[int], int | None, Any)] == [
        "int",
        "list[int]",
        "int | None",
        "Any",
    ]
    assert [told(value) for value in (None, 1, pl.DataFrame())] == ["None", "an int", "a DataFrame"]
