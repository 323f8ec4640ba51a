"""Bugs, planted on purpose: a simulator that does not find them proves nothing.

Each bug replaces one piece of the real code by a broken one while a world runs. Production code
has no switches for them.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager as Context
from contextlib import contextmanager, nullcontext
from types import MappingProxyType
from typing import Any

import msgspec


class Bug(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong, how to make it so, and a seed whose world finds it."""

    what: str
    plant: Callable[[], Context[None]]
    seed: int


@contextmanager
def replaced(owner: Any, name: str, broken: Any) -> Iterator[None]:
    """Put `broken` in the place of an attribute for a while."""
    sound = getattr(owner, name)
    setattr(owner, name, broken)
    try:
        yield
    finally:
        setattr(owner, name, sound)


BUGS: Mapping[str, Bug] = MappingProxyType({})


def planted(name: str) -> Context[None]:
    """A context in which the bug of this name is there; none for the empty name."""
    return BUGS[name].plant() if name else nullcontext()
