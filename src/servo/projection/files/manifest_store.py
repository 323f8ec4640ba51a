"""Manifests in the store: find the newest, read any, create the next.

**Who may race.** Any number of processes may create version v+1; one succeeds, and the nonce rule
of `servo.ledger.slots` decides which. A manifest is never overwritten.

**The hint is only a lower bound.** It is written now and then without any condition, so it may be
old, missing, damaged, or written by a leader that was fenced long ago. Finding the newest starts
there and ends with a listing of everything after it; a bad hint costs requests, never an answer.
Without one, the newest is found by doubling and halving rather than by listing a day of versions.
"""

from collections.abc import Sequence
from contextlib import suppress

import msgspec

from servo.core.manifest import Manifest, check_first, decode, encode
from servo.errors import Corrupt, Invalid, NotFound, ServoError, Unavailable
from servo.ledger.paths import Paths, version_of
from servo.ledger.reader import LedgerReader
from servo.ledger.slots import create_owned
from servo.ports.object_store import ObjectStore

PAGE = 256


class _Hint(msgspec.Struct):
    v: int


class ManifestStore:
    """The manifests of one workspace."""

    def __init__(self, store: ObjectStore, paths: Paths) -> None:
        self.store = store
        self.paths = paths

    def latest(self, *, known: Manifest | None = None) -> Manifest | None:
        """The newest manifest; None in a workspace that has none.

        `known` is a manifest the caller holds: one listing then tells whether it is still the
        newest, and it is returned as it is.
        """
        if known is not None:
            newest = self._newest_after(known.v)
            return known if newest == known.v else self.read(newest)
        hinted = self._hinted()
        newest = self._newest_after(hinted)
        if newest == hinted:
            try:
                return self.read(newest) if newest else None
            except NotFound:  # the hint names a version that never existed: ignore it
                newest = self._newest_after(0)
        return self.read(newest) if newest else None

    def current(self, *, known: Manifest | None = None) -> Manifest | None:
        """The newest manifest; None only in a workspace in which nothing was ever written.

        `Corrupt` if the ledger has entries: the manifests were lost, and whoever took the workspace
        for an empty one would give it another identity. A leader creates the first manifest before
        the first entry, so a manifest that appears after an entry is looked for once more.
        """
        found = self.latest(known=known)
        if found is not None or LedgerReader(self.store, self.paths).ends_after(0):
            return found
        found = self.latest()
        if found is None:
            raise Corrupt(
                "the manifests of this workspace are missing, but its ledger has entries",
                remedy="run `servo admin rebuild`: it writes them again from the ledger",
            )
        return found

    def read(self, v: int) -> Manifest:
        """Version `v`; `NotFound` if there is none or it was collected, `Corrupt` if damaged."""
        key = self.paths.manifest(v)
        found = decode(self.store.get(key).data, what=key)
        if found.v != v:
            raise Corrupt(
                f"{key} holds version {found.v}",
                remedy="restore this object from a backup, or rebuild the projection",
            )
        return found

    def exists_after(self, v: int) -> bool:
        """Whether version `v + 1` is there, for the price of one small read.

        False says nothing to a reader that has not listed for longer than manifests are kept:
        the next version may have been there and collected. `latest` is right at any age.
        """
        try:
            return bool(self.store.get_range(self.paths.manifest(v + 1), start=0, length=1))
        except NotFound:
            return False

    def create(self, manifest: Manifest) -> Manifest | None:
        """Create a version: None if mine is stored, else the one that another process stored.

        Raises `Unavailable` as `create_owned` says: with `may_have_applied` the caller must stop.
        """
        if manifest.v == 1:
            check_first(manifest)
        key = self.paths.manifest(manifest.v)
        data, _ = encode(manifest)
        other = create_owned(
            self.store,
            key,
            data,
            nonce=manifest.nonce,
            nonce_of=lambda found: decode(found, what=key).nonce,
        )
        return None if other is None else decode(other.data, what=key)

    def write_hint(self, v: int) -> None:
        """Leave a hint for later readers, at most once a second; nothing depends on it."""
        with suppress(Unavailable):
            _ = self.store.put(self.paths.manifest_hint, msgspec.json.encode(_Hint(v=v)))

    def versions(self) -> list[int]:
        """Every version that is kept, ascending."""
        prefix = self.paths.manifest_prefix
        return _versions([meta.key for meta in self.store.list_after(prefix)])

    def _hinted(self) -> int:
        try:
            data = self.store.get(self.paths.manifest_hint).data
            hinted = msgspec.json.decode(data, type=_Hint).v
            _ = self.paths.manifest(hinted)
        except (ServoError, msgspec.MsgspecError, UnicodeDecodeError):
            return 0
        return hinted

    def _newest_after(self, v: int) -> int:
        """The greatest version above `v`, or `v`: pages near it, strides further away."""
        stride = PAGE
        while True:
            page = self._after(v, PAGE)
            v = page[-1] if page else v
            if len(page) < PAGE:
                return v
            while beyond := self._after(v + stride, 1):
                v, stride = beyond[0], stride * 2
            while stride > PAGE:
                stride //= 2
                if beyond := self._after(v + stride, 1):
                    v = beyond[0]

    def _after(self, v: int, limit: int) -> Sequence[int]:
        """The next versions after `v`: fewer than `limit` only where there are no more."""
        prefix, after = self.paths.manifest_prefix, self.paths.manifest(v)
        found = [meta.key for meta in self.store.list_after(prefix, after=after, limit=limit)]
        versions = _versions(found)
        if len(versions) < len(found):  # a stray object took the place of a manifest
            return _versions([meta.key for meta in self.store.list_after(prefix, after=after)])
        return versions


def _versions(keys: Sequence[str]) -> list[int]:
    """The versions among `keys`; ignores objects that are not manifests."""
    found: list[int] = []
    for key in keys:
        try:
            found.append(version_of(key))
        except Invalid:
            continue
    return found
