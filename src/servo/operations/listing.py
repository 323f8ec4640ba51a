"""Lists as operations answer them: one page, and where the next one begins."""

from typing import Generic, TypeVar

import msgspec

from servo.core.state.rows.row import Row
from servo.projection.read.lookup import Page, Paged

T = TypeVar("T")
R = TypeVar("R", bound=Row)

__all__ = ["Listing", "Page", "listing_of"]


class Listing(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One page of a list; `next_cursor` is where the next page begins, None on the last."""

    items: list[T]
    next_cursor: str | None = None


def listing_of(found: Paged[R]) -> Listing[R]:
    """A page of rows as it is answered."""
    return Listing(items=found.rows, next_cursor=found.older)
