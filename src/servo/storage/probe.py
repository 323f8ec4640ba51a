"""Asking a store, before anything depends on it, whether it keeps the contract.

A server that ignores `If-None-Match` answers 200 to everyone, and two leaders then write one
ledger: the damage shows much later. So a store is tried at start, and refused by name of what it
got wrong. The trial is sequential: it finds a store that does not check conditions or does not
show what was written, and cannot find one whose conditions fail only under a race.

Everything is written under `probe/` with a random name and removed again, also when the trial
fails. The folders are the same each time: a folder on disk outlives what was in it.
"""

from collections.abc import Callable
from contextlib import suppress

from servo.errors import Conflict, Invalid, NotFound, ServoError
from servo.ports.entropy import Entropy
from servo.ports.object_store import ObjectStore

# What begins the names of a trial's objects; the last five in the order of their bytes, which a
# listing folder by folder does not keep.
_ONE, _SWAP = "one-", "swap-"
_ORDERED = ("n-", "n.", "n/", "n0", "é")


def probe(store: ObjectStore, prefix: str, entropy: Entropy, *, quick: bool = False) -> None:
    """Raise `Invalid` if the store breaks the contract; `quick` costs six calls."""
    folder = f"{prefix.rstrip('/')}/probe/" if prefix else "probe/"
    token = entropy.token_bytes(8).hex()
    try:
        _conditions(store, f"{folder}{_ONE}{token}")
        if not quick:
            _swaps(store, f"{folder}{_SWAP}{token}")
            _order(store, folder, token)
    except ServoError:
        _clear(store, folder, token)
        raise


def _conditions(store: ObjectStore, key: str) -> None:
    store.create(key, b"first")
    _must_conflict(lambda: store.create(key, b"second"), "create overwrites an object")
    _must_conflict(
        lambda: store.replace_if(key, b"third", version='"never given"'),
        "replace_if overwrites an object that has another version",
    )
    _require(store.get(key).data == b"first", "a read does not give what was written")
    listed = [meta.key for meta in store.list_after(key)]
    _require(listed == [key], "a listing does not show what was written")
    store.delete(key)


def _swaps(store: ObjectStore, key: str) -> None:
    old = store.create(key, b"first").version
    new = store.replace_if(key, b"second", version=old).version
    _require(old != new, "the version of an object does not change with its bytes")
    _must_conflict(
        lambda: store.replace_if(key, b"third", version=old),
        "replace_if overwrites an object that has changed",
    )
    blob = store.get(key)
    _require(blob.data == b"second", "a read does not give what replace_if wrote")
    _require(blob.meta.version == new, "a read gives another version than the write")
    store.delete(key)
    _must_be_gone(store, key)


def _order(store: ObjectStore, folder: str, token: str) -> None:
    def listed(*, after: str = "") -> list[str]:  # without those of another process's trial
        return [meta.key for meta in store.list_after(folder, after=after) if token in meta.key]

    keys = [f"{folder}{name}{token}" for name in _ORDERED]
    for key in reversed(keys):
        store.create(key, b"x")
    _require(listed() == keys, "a listing is incomplete or not in the order of the keys' bytes")
    for at, key in enumerate(keys):
        _require(listed(after=key) == keys[at + 1 :], "a listing after a key skips or repeats keys")
    _require(len(store.list_after(folder, limit=2)) == 2, "a listing does not keep to its limit")
    for key in keys:
        store.delete(key)
    _require(not listed(), "a listing shows what was deleted")


def _must_conflict(write: Callable[[], object], complaint: str) -> None:
    try:
        write()
    except Conflict:
        return
    raise _broken(complaint)


def _must_be_gone(store: ObjectStore, key: str) -> None:
    try:
        store.get(key)
    except NotFound:
        return
    raise _broken("delete leaves the object readable")


def _require(holds: bool, complaint: str) -> None:
    if not holds:
        raise _broken(complaint)


def _broken(complaint: str) -> Invalid:
    return Invalid(
        f"the store cannot hold a workspace: {complaint}",
        remedy="use a store with conditional writes and consistent reads and listings",
    )


def _clear(store: ObjectStore, folder: str, token: str) -> None:
    # By name, not by listing: the listing may be what is broken.
    for name in (_ONE, _SWAP, *_ORDERED):
        with suppress(ServoError):
            store.delete(f"{folder}{name}{token}")
