"""Numbers in requests, and which of them are allowed."""

from servo.errors import Invalid


def check_number(value: int, what: str, allowed: range) -> int:
    """`value` if it is within a range; otherwise `Invalid`, with the range."""
    if value not in allowed:
        raise Invalid(
            f"invalid {what}: {value}",
            remedy=f"use a whole number from {allowed[0]} to {allowed[-1]}",
        )
    return value
