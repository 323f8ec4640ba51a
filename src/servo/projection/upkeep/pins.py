"""Pins hold a version of the projection for as long as somebody works on it.

A pin is an object of its own, written by whoever needs the version: a long query, a rebuild, an
audit. It is written first and the version looked up after, so that a version which was collected
in between is noticed by who pinned it. An expired pin holds nothing and is removed.
"""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from servo.errors import Corrupt, NotFound
from servo.ledger.paths import Paths
from servo.ports.object_store import ObjectStore
from servo.projection.files.manifest_store import ManifestStore


class Pin(msgspec.Struct, frozen=True, kw_only=True):
    """Version `v` is needed until `expires`."""

    id: str
    v: int
    expires: datetime


_pin = msgspec.json.Decoder(Pin)


def pin(store: ObjectStore, paths: Paths, wanted: Pin) -> None:
    """Hold a version; `NotFound` if it is gone, `Conflict` if the id of the pin is taken."""
    key = paths.pin(wanted.id)
    _ = store.create(key, msgspec.json.encode(wanted))
    if not ManifestStore(store, paths).exists_after(wanted.v - 1):
        store.delete(key)
        raise NotFound(
            f"version {wanted.v} of the projection has been deleted",
            remedy="pin a version that `servo admin inspect` lists",
        )


def read_pins(store: ObjectStore, paths: Paths) -> Sequence[Pin]:
    """Every pin, expired ones too; `Corrupt` if one cannot be read, for it may hold anything."""
    return [
        _decoded(meta.key, store.get(meta.key).data) for meta in store.list_after(paths.pins_prefix)
    ]


def _decoded(key: str, data: bytes) -> Pin:
    try:
        return _pin.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Corrupt(
            f"the pin {key} cannot be read: {error}",
            remedy="delete or rewrite it; nothing is garbage-collected until then",
        ) from None
