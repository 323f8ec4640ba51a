"""Checks of ranges and limits that every adapter applies to a request."""

from servo.errors import Invalid


def check_range(*, start: int, length: int) -> None:
    if start < 0 or length < 0:
        raise Invalid(
            f"invalid range: {length} bytes from {start}",
            remedy="use 0 or more for both",
        )


def check_limit(limit: int | None) -> None:
    if limit is not None and limit < 0:
        raise Invalid(
            f"invalid limit of a listing: {limit}", remedy="use 0 or more, or None for all"
        )
