"""Asking a store, before anything depends on it, whether it keeps the contract.

A server that ignores `If-None-Match` answers 200 to everyone, and two leaders then write one
ledger: the damage shows much later. So a store is tried at start, and refused by name of what it
got wrong. The trial is sequential: it finds a store that does not check conditions or does not
show what was written, and cannot find one whose conditions fail only under a race.

Everything is written below one random folder and removed again, also when the trial fails.
"""

from collections.abc import Callable
from contextlib import suppress

from servo.errors import Conflict, Invalid, NotFound, ServoError
from servo.ports.entropy import Entropy
from servo.ports.object_store import ObjectStore

# In the order of their bytes; a listing folder by folder puts `n/a` first.
_NAMES = ("n-a", "n.a", "n/a", "n0", "é")


def probe(store: ObjectStore, prefix: str, entropy: Entropy, *, quick: bool = False) -> None:
    """Raise `Invalid` if the store breaks the contract; `quick` costs six calls."""
    folder = f"{prefix.rstrip('/')}/" if prefix else ""
    folder += f"probe-{entropy.token_bytes(8).hex()}/"
    try:
        _conditions(store, folder)
        if not quick:
            _swaps(store, folder)
            _order(store, folder)
    except ServoError:
        _clear(store, folder)
        raise


def _conditions(store: ObjectStore, folder: str) -> None:
    key = f"{folder}one"
    store.create(key, b"first")
    _must_conflict(lambda: store.create(key, b"second"), "create overwrites an object")
    _must_conflict(
        lambda: store.replace_if(key, b"third", version='"never given"'),
        "replace_if overwrites an object that has another version",
    )
    _require(store.get(key).data == b"first", "a read does not give what was written")
    listed = [meta.key for meta in store.list_after(folder)]
    _require(listed == [key], "a listing does not show what was written")
    store.delete(key)


def _swaps(store: ObjectStore, folder: str) -> None:
    key = f"{folder}swap"
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


def _order(store: ObjectStore, folder: str) -> None:
    keys = [folder + name for name in _NAMES]
    for key in reversed(keys):
        store.create(key, b"x")
    listed = [meta.key for meta in store.list_after(folder)]
    _require(listed == keys, "a listing is incomplete or not in the order of the keys' bytes")
    tail = [meta.key for meta in store.list_after(folder, after=keys[1], limit=2)]
    _require(tail == keys[2:4], "a listing after a key skips or repeats keys")
    for key in keys:
        store.delete(key)
    _require(not store.list_after(folder), "a listing shows what was deleted")


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


def _clear(store: ObjectStore, folder: str) -> None:
    # The keys by name, not by listing: the listing may be what is broken.
    for name in ("one", "swap", *_NAMES):
        with suppress(ServoError):
            store.delete(folder + name)
