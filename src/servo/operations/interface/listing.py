"""Pages of lists, with the cursor of the next page."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import msgspec

from servo.core.state.rows.row import Row
from servo.errors import NotFound
from servo.projection.read.lookup import DEFAULT_LIMIT, MAX_LIMIT, Page, Paged, check_limit

T = TypeVar("T")
R = TypeVar("R", bound=Row)

__all__ = [
    "DEFAULT_LIMIT",
    "MAX_LIMIT",
    "Listing",
    "Page",
    "check_limit",
    "listing_of",
    "page_of",
]


class Listing(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One page of a list; `next_cursor` is where the next page begins, None on the last."""

    items: list[T]
    next_cursor: str | None = None


def listing_of(found: Paged[R]) -> Listing[R]:
    """A page of rows as a listing."""
    return Listing(items=found.rows, next_cursor=found.older)


def page_of(found: Sequence[T], page: Page, name: Callable[[T], str]) -> Listing[T]:
    """A page of the rows found, newest first; it starts after the row `before`."""
    names = [name(one) for one in found]
    if page.before is not None and page.before not in names:
        raise NotFound(
            f"{page.before!r} is not in the list", remedy="pass the cursor from the previous page"
        )
    start = 0 if page.before is None else names.index(page.before) + 1
    shown = list(found[start : start + page.limit])
    more = start + page.limit < len(found)
    return Listing(items=shown, next_cursor=name(shown[-1]) if more else None)
