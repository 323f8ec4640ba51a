"""Check values against the annotations of functions.

A function annotated `-> int` that returns a string, or that takes `orders: DataFrame` and gets a
dict, has a bug, and reporting it early helps. Only what is certain is checked: the class of a
value, not the contents of containers. An annotation that is not a class (a name that is not
imported, a type variable, a protocol) accepts everything. Numbers are treated as numbers: a NumPy
integer is an `int`, and an `int` is a `float`.
"""

import numbers
from collections import abc
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NewType,
    Union,
    get_args,
    get_origin,
    is_typeddict,
)

from servo.sdk.assets.results import MaterializeResult, Output, Skip

_NUMBERS: dict[type, type] = {
    int: numbers.Integral,
    float: numbers.Real,
    complex: numbers.Complex,
}
_RESULTS = (MaterializeResult, Output)
_YIELDED = (
    abc.Iterable,
    abc.Iterator,
    abc.Generator,
    abc.AsyncIterable,
    abc.AsyncIterator,
    abc.AsyncGenerator,
    abc.Awaitable,
    abc.Coroutine,
)


def value_type(returns: Any) -> Any:
    """The type of the value that a function returns, from its annotation."""
    if _is_union(returns):
        members = [
            member if member is NoneType else value_type(member)
            for member in get_args(returns)
            if member is not Skip
        ]
        return Any if Any in members or not members else Union[tuple(members)]  # noqa: UP007 - of a tuple
    kind = get_origin(returns) or returns
    if kind in _RESULTS:
        return next(iter(get_args(returns)), Any)
    says_nothing = returns is None or returns is NoneType or kind in _YIELDED
    return Any if says_nothing or kind is Skip else returns


def fits(value: object, hint: Any) -> bool:
    """Whether a value can have a type; True if that cannot be decided."""
    if _is_union(hint):
        return any(fits(value, member) for member in get_args(hint))
    origin = get_origin(hint)
    if origin is Annotated:
        return fits(value, get_args(hint)[0])
    if origin is Literal:
        return value in get_args(hint)
    if isinstance(hint, NewType):
        return fits(value, hint.__supertype__)
    if hint is None:
        return value is None
    return _is_instance(value, origin or hint)


def told(value: object) -> str:
    """The type of a value, for messages."""
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def name_of(hint: Any) -> str:
    """A type as it is written in code."""
    plain = isinstance(hint, type) and get_origin(hint) is None
    return hint.__name__ if plain else str(hint).replace("typing.", "")


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, UnionType)


def _is_instance(value: object, kind: Any) -> bool:
    if not isinstance(kind, type) or getattr(kind, "_is_protocol", False):
        return True
    if is_typeddict(kind):
        return isinstance(value, dict)
    try:
        return isinstance(value, _NUMBERS.get(kind, kind))
    except TypeError:  # some classes do not support isinstance
        return True
