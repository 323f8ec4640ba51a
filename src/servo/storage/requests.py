"""What every adapter refuses about a request besides its key."""

from servo.errors import Invalid


def check_range(*, start: int, length: int) -> None:
    if start < 0 or length < 0:
        raise Invalid(
            f"a range of {length} bytes from {start} does not exist",
            remedy="use numbers that are not negative",
        )


def check_limit(limit: int | None) -> None:
    if limit is not None and limit < 0:
        raise Invalid(
            f"a listing cannot be limited to {limit} entries", remedy="pass None for all of them"
        )
