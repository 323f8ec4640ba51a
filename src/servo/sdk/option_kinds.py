"""Type checks of options, made early: a wrong one would otherwise only break a run."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, cast

from servo.errors import Invalid

T = TypeVar("T")


def of_kind(value: Any, kind: Any, *, what: str, remedy: str) -> None:
    """Raise `Invalid` if a value is given and has another type."""
    if value is not None and not isinstance(value, kind):
        raise Invalid(f"{what} is {value!r}", remedy=remedy)


def several(values: Iterable[T] | None, *, what: str) -> tuple[T, ...]:
    """The values as a tuple; `Invalid` for a string, which would be split into characters."""
    given: Any = values
    if isinstance(values, str):
        raise Invalid(f"{what} is a single string", remedy=f"write [{values!r}]")
    if given is not None and not isinstance(given, Iterable):
        raise Invalid(f"{what} is {given!r}", remedy="write a list: [...]")
    return tuple(values or ())


def by_name(values: Mapping[str, T] | None, *, what: str) -> dict[str, T]:
    """The values as a dict; `Invalid` for anything but a mapping with string keys."""
    given: Any = {} if values is None else values
    if not isinstance(given, Mapping):
        raise Invalid(f"{what} is {given!r}", remedy='write a dict: {"name": ...}')
    pairs = dict(cast("Mapping[Any, T]", given))
    for name in pairs:
        if not isinstance(name, str):
            raise Invalid(f"{what} has the key {name!r}", remedy="use strings as keys")
    return pairs
