"""Every kept version of the projection, checked by itself and against the one kept before it.

Versions are read in order and forgotten: a busy day has hundreds of thousands. What stays is how
each of their files is described, once for every different description, and where in the ledger
each version stands. `check_standing` compares that with the entries, once they were read.
"""

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime

import msgspec

from servo.core.manifest import (
    FileEntry,
    Manifest,
    ObjectRef,
    check_first,
    check_later,
    check_successor,
)
from servo.core.state.state import EPOCH_START
from servo.core.state.tables import TABLES
from servo.errors import Corrupt, Internal
from servo.ledger.paths import Paths

REBUILD = "rebuild the projection from the ledger with `servo admin rebuild`"


class Place(msgspec.Struct, frozen=True):
    """The ledger after an entry: the hash of the entry, the epoch and the time it had reached."""

    digest: str
    epoch: int
    ts: datetime


START = Place("", 0, EPOCH_START)


class DescribedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file as a version describes it; `v` is the first one that does."""

    v: int
    table: str
    file: FileEntry


class ManifestSurvey:
    """What the kept versions say, taken in one by one, oldest first."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self.newest: Manifest | None = None
        self.described: dict[str, list[DescribedFile]] = {}
        self._standing: list[tuple[int, int, Place]] = []
        self._unknown: set[str] = set()

    def add(self, manifest: Manifest) -> Iterator[Corrupt]:
        """Take in the next version; what is wrong with it."""
        before, self.newest = self.newest, manifest
        place = Place(manifest.last_hash, manifest.applied_epoch, manifest.applied_ts)
        self._standing.append((manifest.v, manifest.applied_seq, place))
        yield from _check_succession(before, manifest)
        for table, held in manifest.tables.items():
            if before is None or held != before.tables.get(table):
                yield from self._add_files(manifest.v, table, held.files)

    def _add_files(self, v: int, table: str, files: Collection[FileEntry]) -> Iterator[Corrupt]:
        if table not in TABLES and table not in self._unknown:
            self._unknown.add(table)
            yield Corrupt(
                f"manifest {v} names the table {table}, which this version of Servo does not know",
                remedy="verify with the version of Servo that wrote it, or a later one",
            )
        for file in files:
            known = self.described.setdefault(file.key, [])
            if all((one.table, one.file) != (table, file) for one in known):
                known.append(DescribedFile(v=v, table=table, file=file))
                yield from self._check_key(v, table, file)

    def _check_key(self, v: int, table: str, file: FileEntry) -> Iterator[Corrupt]:
        folder = self._paths.state_file(table, "x").removesuffix("x")
        for key in [file.key, *([] if file.bloom is None else [file.bloom.key])]:
            if not key.startswith(folder):
                what = f"manifest {v} names {key} as a file of {table}, which is not in {folder}"
                yield Corrupt(what, remedy=REBUILD)

    @property
    def applied(self) -> frozenset[int]:
        """The entries at which versions stand."""
        return frozenset(seq for _, seq, _ in self._standing)

    def is_current(self, one: DescribedFile) -> bool:
        """Whether the newest version describes the file like this."""
        held = None if self.newest is None else self.newest.tables.get(one.table)
        return held is not None and one.file in held.files

    def objects(self) -> Mapping[str, FileEntry | ObjectRef]:
        """Every object that a version consists of."""
        found: dict[str, FileEntry | ObjectRef] = {}
        for described in self.described.values():
            for one in described:
                found[one.file.key] = one.file
                if one.file.bloom is not None:
                    found[one.file.bloom.key] = one.file.bloom
        return found

    def check_standing(
        self, places: Mapping[int, Place], unread: Collection[int]
    ) -> Iterator[Corrupt]:
        """Versions that do not stand where they say; entries in `unread` are known as damaged."""
        for v, seq, place in self._standing:
            if seq in unread:
                continue
            newest = self.newest is not None and v == self.newest.v
            yield from _check_place(v, seq, place, START if not seq else places.get(seq), newest)


def _check_succession(before: Manifest | None, new: Manifest) -> Iterator[Corrupt]:
    try:
        if new.v == 1:
            check_first(new)
        if before is not None and new.v == before.v + 1:
            check_successor(before, new)
        elif before is not None:
            check_later(before, new)
    except Internal as error:
        after = "begin a workspace" if before is None else f"follow manifest {before.v}"
        what = f"manifest {new.v} cannot {after}: {error.message}"
        remedy = f"{REBUILD}, and report this with both manifests"
        yield Corrupt(what, remedy=remedy)


def _check_place(
    v: int, seq: int, said: Place, found: Place | None, newest: bool
) -> Iterator[Corrupt]:
    if found is None or found.digest != said.digest:
        what = f"manifest {v} applies entry {seq}, which is not in this ledger"
        remedy = "restore the ledger from a backup: its end is missing or it was replaced"
        yield Corrupt(what, remedy=remedy) if newest else past(what, v)
        return
    if found != said:
        what = (
            f"manifest {v} says that the ledger had reached epoch {said.epoch} and the time "
            f"{said.ts.isoformat()} with entry {seq}; it had reached epoch {found.epoch} and "
            f"{found.ts.isoformat()}"
        )
        yield Corrupt(what, remedy=REBUILD) if newest else past(what, v)


def past(what: str, v: int) -> Corrupt:
    """The same about a version that is not the newest."""
    return Corrupt(
        f"{what} (in the past version {v})",
        remedy="the current version does not need it; `--as-of` falls back to an older version",
    )
