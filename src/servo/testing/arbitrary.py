"""Any value of a struct, from a random source: for tests that must hold for whatever arrives.

Strings come from a small pool, so that generated events meet each other and the rows they make.
"""

import types
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum
from random import Random
from typing import Any, Literal, NewType, Union, get_args, get_origin, get_type_hints

import msgspec

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
WORDS = ("a", "b", "run_1", "run_2", "ns/a:materialize", "ns/b:materialize", "p=s:YQ", "")
INSTANTS = tuple(EPOCH + timedelta(seconds=s) for s in (-(10**8), -1, 0, 1, 60, 10**8))
NUMBERS = (0, 1, 2, 3, 10, 1_000, -1, 2**31, 2**62)


def arbitrary(kind: Any, rng: Random, words: Sequence[str] = WORDS) -> Any:
    """Some value of type `kind`."""
    if isinstance(kind, NewType):
        return arbitrary(kind.__supertype__, rng, words)
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return arbitrary(rng.choice(get_args(kind)), rng, words)
    if origin is Literal:
        return rng.choice(get_args(kind))
    if origin is tuple:
        return tuple(arbitrary(get_args(kind)[0], rng, words) for _ in range(rng.randrange(3)))
    if origin is dict:
        return {rng.choice(words): rng.choice(words) for _ in range(rng.randrange(2))}
    return _plain(kind, rng, words)


def _plain(kind: Any, rng: Random, words: Sequence[str]) -> Any:
    pools: dict[Any, Sequence[Any]] = {
        type(None): (None,),
        bool: (False, True),
        int: NUMBERS,
        str: words,
        datetime: INSTANTS,
    }
    if kind in pools:
        return rng.choice(pools[kind])
    return rng.choice(list(kind)) if issubclass(kind, Enum) else struct(kind, rng, words)


def struct(kind: type[msgspec.Struct], rng: Random, words: Sequence[str] = WORDS) -> Any:
    """Some value of a struct; fields with a default are left out half of the time."""
    hints = get_type_hints(kind)
    chosen = {
        field.name: arbitrary(hints[field.name], rng, words)
        for field in msgspec.structs.fields(kind)
        if field.required or rng.random() < 0.5
    }
    return kind(**chosen)
