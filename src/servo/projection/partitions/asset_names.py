"""Finding the asset for a name that a user typed."""

from collections.abc import Collection
from difflib import get_close_matches

from servo.errors import Conflict, NotFound


def find_asset(keys: Collection[str], text: str) -> str:
    """The asset key that `text` is, spells with dots, or is the last part of.

    `NotFound` names the closest keys, `Conflict` all that match.
    """
    for spelled in (text, text.replace(".", "/")):
        if spelled in keys:
            return spelled
    ending = [key for key in keys if key.rpartition("/")[2] == text]
    if len(ending) == 1:
        return ending[0]
    if ending:
        raise Conflict(
            f"{text!r} is the last part of {len(ending)} assets: {', '.join(sorted(ending))}",
            remedy="use the whole key",
        )
    names = {**{key.rpartition("/")[2]: key for key in keys}, **{key: key for key in keys}}
    close = dict.fromkeys(names[name] for name in get_close_matches(text, names, n=3))
    raise NotFound(
        f"there is no asset {text!r}",
        remedy=f"did you mean {' or '.join(close)}?" if close else "see `servo list`",
    )
