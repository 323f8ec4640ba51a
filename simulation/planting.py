"""A bug, and how it is planted."""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from inspect import getattr_static
from typing import Any

import msgspec

Planting = Callable[[], AbstractContextManager[None]]


class Bug(msgspec.Struct, frozen=True, kw_only=True):
    """A bug, how to plant it, and a seed whose world finds it.

    `world` is the kind of that world.
    """

    what: str
    plant: Planting
    seed: int
    world: str = "plain"


def swap(*changes: tuple[Any, str, Any]) -> Planting:
    """Replace attributes with broken ones for a while."""

    @contextmanager
    def planted() -> Generator[None]:
        with ExitStack() as stack:
            for owner, name, broken in changes:
                sound = getattr_static(owner, name)
                setattr(owner, name, broken)
                stack.callback(setattr, owner, name, sound)
            yield

    return planted
