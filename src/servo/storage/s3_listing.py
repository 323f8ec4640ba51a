"""Listing a bucket in the order of the keys' bytes, whichever order its server has.

Amazon lists by bytes. Servers that keep a tree of folders list folder by folder, so that `a/x`
comes before `a-b`, though '-' sorts before '/'; for them "start after `a-b`" skips `a/x`, and
"start after `a`" skips all that is in `a/`. Nothing in an answer tells which kind answered.

So what is asked and believed holds for both. The two orders disagree only where one key goes on
with '/' and the other with one of the bytes before it (space to '.'). Hence:

- **Where to start**: not at `after` but a little before it, at a string with none of those bytes,
  cut so that nothing wanted lies in the folder of that name. What comes too early is dropped.
- **When to stop**: not at the limit's key but when nothing still to come can sort before it. For
  keys in one folder that is at once; below sub-folders it can take the rest of a sub-folder.
"""

from collections.abc import Iterable

from servo.ports.object_store import ObjectMeta
from servo.storage.keys import folder_of

_SLASH = "/"


def start_before(prefix: str, after: str) -> str:
    """From where to list what begins with `prefix` and sorts after `after`; '' for the start."""
    folder = folder_of(prefix)
    bound = max(prefix, after)
    wanted = bound[len(folder) :]
    cut = next((at for at, char in enumerate(wanted) if char < _SLASH), len(wanted))
    start = wanted[:cut]
    while start:
        last, start = start[-1], start[:-1]
        # Stopping at a '/' on either side would name a folder that holds wanted keys.
        if last != _SLASH and not start.endswith(_SLASH):
            break
    return folder + start if start else ""


def first_in_order(
    found: Iterable[ObjectMeta], prefix: str, *, after: str, limit: int | None
) -> list[ObjectMeta]:
    """The wanted among the `found`, in order and up to the limit, read no further than needed."""
    wanted: list[ObjectMeta] = []
    folder = folder_of(prefix)
    for meta in found:
        # By the name in the folder, whose order is the same in both.
        name = meta.key[: (meta.key + _SLASH).index(_SLASH, len(folder))]
        if name > prefix and not name.startswith(prefix):
            break
        if meta.key > after and meta.key.startswith(prefix):
            wanted.append(meta)
        if limit is not None and len(wanted) >= limit:
            wanted.sort(key=_key_of)
            if limit == 0 or _settled(wanted[limit - 1].key, meta.key, folder):
                break
    return sorted(wanted, key=_key_of)[:limit]


def _key_of(meta: ObjectMeta) -> str:
    return meta.key


def _settled(last: str, reached: str, folder: str) -> bool:
    """Whether no key that a listing has still to come to can sort before `last`.

    Such a key has the name of one of `last`'s folders and then a byte before '/'. A tree lists
    those right after the folder; the listing has to be past all of them.
    """
    at = last.find(_SLASH, len(folder))
    while at >= 0:
        if reached.startswith(last[:at]) and reached[at : at + 1] <= _SLASH:
            return False
        at = last.find(_SLASH, at + 1)
    return True
