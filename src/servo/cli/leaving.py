"""Requests that wait in the inbox for a leader."""

from servo.cli.workspace import Where
from servo.errors import NotFound


def count_left(where: Where) -> int:
    """How many requests wait for somebody to lead; none where there is no workspace yet."""
    try:
        target = where.open()
    except NotFound:
        return 0
    return sum(1 for _ in target.store.list_after(target.paths.inbox_prefix))
