"""Which files to merge next. Plain decisions over a manifest; nothing here reads a file.

Files of one table, tier and size class are merged once there are eight of them, so a row is
rewritten once per class and not once per publish. The class of the result follows from its rows:
a table whose rows are overwritten again and again stays in its class and never grows levels.

The active tier is merged as a whole when a quarter of it is tombstones: what it keeps then stays
proportional to what is alive, and a start reads little however much has come and gone. The closed
tier stops merging a file that has reached a size; it is read by key or as a whole, never loaded.
"""

from collections.abc import Collection, Iterable, Sequence

import msgspec

from servo.core.manifest import FileEntry, Manifest, Tier
from servo.core.state.tables import TABLES

FAN_IN = 8
CLASS_ROWS = 8_192
MIN_TOMBSTONES = 64


class MergePolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How many files make a merge, and how large a closed file may become."""

    fan_in: int = FAN_IN
    max_rows: int = 2_000_000
    max_bytes: int = 256 * 1024 * 1024


class MergePlan(msgspec.Struct, frozen=True, kw_only=True):
    """Files of one tier to be replaced by one.

    `floor` is the version of the oldest row that stays outside: a tombstone older than that hides
    nothing any more once its merge is done. None: everything is inside.
    """

    table: str
    tier: Tier
    inputs: tuple[FileEntry, ...]
    floor: int | None


def level_for(rows: int) -> int:
    """The size class of a merged file: at least 1, one more for every factor of eight."""
    level = 1
    while rows >= CLASS_ROWS:
        rows //= FAN_IN
        level += 1
    return level


def plan_merge(
    manifest: Manifest, in_flight: Collection[str], policy: MergePolicy
) -> MergePlan | None:
    """The most urgent merge that touches no file in `in_flight`, or None."""
    best: tuple[int, MergePlan] | None = None
    for table, held in manifest.tables.items():
        if table not in TABLES:  # of a later version: named, kept, and left alone
            continue
        for tier in Tier:
            files = held.tier(tier)
            for inputs in _candidates(files, in_flight, policy):
                urgency = _urgency(inputs)
                if best is None or urgency > best[0]:
                    best = urgency, _plan(table, files, inputs)
    return None if best is None else best[1]


def _urgency(inputs: Sequence[FileEntry]) -> int:
    """Unmerged active files first: they are what makes the leader refuse work."""
    unmerged = sum(1 for file in inputs if file.level == 0 and file.tier is Tier.ACTIVE)
    return 1_000 * unmerged + len(inputs)


def _plan(table: str, files: Sequence[FileEntry], inputs: Sequence[FileEntry]) -> MergePlan:
    taken = {file.key for file in inputs}
    outside = [file.min_seq for file in files if file.key not in taken]
    floor = min(outside, default=None)
    return MergePlan(table=table, tier=inputs[0].tier, inputs=tuple(inputs), floor=floor)


def _candidates(
    files: Sequence[FileEntry], in_flight: Collection[str], policy: MergePolicy
) -> Iterable[Sequence[FileEntry]]:
    if not files:
        return
    if _is_mostly_dead(files) and not any(file.key in in_flight for file in files):
        yield files
    levels: dict[int, list[FileEntry]] = {}
    for file in files:
        if file.key not in in_flight:
            levels.setdefault(file.level, []).append(file)
    for members in levels.values():
        if len(members) >= policy.fan_in:
            chosen = _within_limits(members, policy)
            if len(chosen) > 1:
                yield chosen


def _is_mostly_dead(files: Sequence[FileEntry]) -> bool:
    tombstones = sum(file.tombstones for file in files)
    rows = sum(file.rows for file in files)
    active = files[0].tier is Tier.ACTIVE
    return active and tombstones >= MIN_TOMBSTONES and 4 * tombstones >= rows


def _within_limits(files: Sequence[FileEntry], policy: MergePolicy) -> Sequence[FileEntry]:
    """As many of the smallest as fit into one file, in their order; active ones always do."""
    if files[0].tier is Tier.ACTIVE:
        return files
    rows = size = 0
    fits: set[str] = set()
    for file in sorted(files, key=lambda file: (file.size, file.key)):
        rows, size = rows + file.rows, size + file.size
        if rows > policy.max_rows or size > policy.max_bytes:
            break
        fits.add(file.key)
    return [file for file in files if file.key in fits]
