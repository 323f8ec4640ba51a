"""Options whose values are of a kind, told apart early: a wrong one would only break a run."""

from collections.abc import Iterable
from typing import Any, TypeVar

from servo.errors import Invalid

T = TypeVar("T")


def of_kind(value: Any, kind: Any, *, what: str, remedy: str) -> None:
    """`Invalid` if a value was given and is of another kind."""
    if value is not None and not isinstance(value, kind):
        raise Invalid(f"{what} is {value!r}", remedy=remedy)


def several(values: Iterable[T] | None, *, what: str) -> tuple[T, ...]:
    """The values that were given; `Invalid` for one text, which would be taken for its letters."""
    if isinstance(values, str):
        raise Invalid(f"{what} is one text", remedy=f"write [{values!r}]")
    return tuple(values or ())
