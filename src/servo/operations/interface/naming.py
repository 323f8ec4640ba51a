"""The error for unknown names."""

from collections.abc import Iterable
from difflib import get_close_matches

from servo.errors import NotFound

MOST_NAMED = 10


def unknown(kind: str, name: str, known: Iterable[str]) -> NotFound:
    """The error for an unknown name, with a suggestion."""
    names = list(known)
    problem = f"there is no {kind} {name} in this workspace"
    if not names:
        return NotFound(problem, remedy=f"deploy {kind}s with `servo dev`")
    if close := get_close_matches(name, names, n=1):
        return NotFound(problem, remedy=f"did you mean {close[0]}?")
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return NotFound(problem, remedy=f"choose one of: {', '.join(names[:MOST_NAMED])}{more}")
