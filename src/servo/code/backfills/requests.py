"""Creating a backfill: its partitions, what it will do, and its first event.

The list of partitions is worked out once, here, and frozen in the event; a long one is stored first
and named by its digest. A request has an id, and the id of the backfill is derived from it:
repeating a request with the same id gives the same backfill, whatever is missing or failed by then;
a different request with that id is a conflict.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Literal

import msgspec

from servo.core.canonical import sha256_hex
from servo.core.events.backfills import (
    DEFAULT_CONCURRENT_RUNS,
    BackfillCreated,
    ExplicitSelector,
    RangeSelector,
)
from servo.core.fold.backfills import MAX_CHUNK_SIZE, MAX_CONCURRENT_RUNS, MAX_PARTITIONS
from servo.core.ids import TenantId, WorkspaceId, backfill_id
from servo.core.keys import AssetKey
from servo.core.partition_lists import partition_list_bytes, partition_list_digest
from servo.core.state.rows.automation import BackfillRow
from servo.core.tags import CHOSEN_LABEL, MAX_PRIORITY
from servo.errors import Invalid, NotFound
from servo.ledger.paths import Paths
from servo.planning.backfills import Backfilled, OfOne
from servo.planning.partition_choice import key_as_written
from servo.ports.object_store import ObjectStore
from servo.projection.partitions.report import PartitionReader, PartitionReport
from servo.projection.read.reader import Snapshot

INLINE_PARTITIONS = 2_000
INLINE_BYTES = 100_000
MAX_CHUNK_BYTES = 200_000

Which = Literal["", "all", "missing", "failed", "stale"]


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """Which partitions: listed ones, a range, or those with a status.

    `which` is that status, "all" for any. It can be limited to the range from `start` to `end`.
    """

    start: str | None = None
    end: str | None = None
    keys: tuple[str, ...] = ()
    which: Which = ""

    @property
    def is_empty(self) -> bool:
        """Whether it selects nothing."""
        return not (self.keys or self.which or self.has_range)

    @property
    def has_range(self) -> bool:
        """Whether a first or a last partition is given."""
        return self.start is not None or self.end is not None

    @property
    def is_ambiguous(self) -> bool:
        """Whether it has both single partitions and another selection."""
        return bool(self.keys) and (bool(self.which) or self.has_range)


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A requested backfill. `labels` override the `default_tags` of the project."""

    choice: Choice
    request_id: str
    chunk_size: int | None = None
    concurrency: int = DEFAULT_CONCURRENT_RUNS
    priority: int = 0
    stop_on_failure: bool = False
    max_failed: int | None = None
    max_failed_percent: int | None = None
    labels: Mapping[str, str] = {}
    default_tags: Mapping[str, str] = {}
    location: str = ""


class Standing:
    """The recorded status of the partitions of some assets."""

    def __init__(self, reports: Mapping[AssetKey, PartitionReport]) -> None:
        self._spaces = {key: report.space for key, report in reports.items()}
        self._made = {key: _flags(report.status.made) for key, report in reports.items()}
        self._failed = {key: _flags(report.status.failed) for key, report in reports.items()}
        self._stale = {key: _flags(sum(report.stale.values())) for key, report in reports.items()}

    def is_made(self, asset: AssetKey, key: str) -> bool:
        """Whether a partition is materialized."""
        return self._holds(self._made, asset, key)

    def has_failed(self, asset: AssetKey, key: str) -> bool:
        """Whether the last attempt at a partition failed."""
        return self._holds(self._failed, asset, key)

    def is_stale(self, asset: AssetKey, key: str) -> bool:
        """Whether a partition is stale or was never materialized."""
        return self._holds(self._stale, asset, key) or not self.is_made(asset, key)

    def _holds(self, flags: Mapping[AssetKey, bytes], asset: AssetKey, key: str) -> bool:
        number = self._spaces[asset].ordinal(key) if asset in self._spaces else None
        if number is None:
            return False
        place, bit = divmod(number, 8)
        held = flags[asset]
        return place < len(held) and bool(held[place] >> bit & 1)


def _flags(bits: int) -> bytes:
    """A set as a sequence of flags, one for each partition."""
    return bits.to_bytes((bits.bit_length() + 7) // 8, "little")


def standing(snapshot: Snapshot | None, now: datetime, backfilled: Backfilled) -> Standing:
    """The recorded status of the partitions of some assets, judged by the code as it is now.

    It does not matter whether that code is deployed. Outputs of another partitions_def count where
    the partition is stored under the same key.
    """
    if snapshot is None:
        return Standing({})
    workspace = PartitionReader(snapshot, now, backfilled.project.definitions())
    return Standing(
        {
            key: workspace.report(key.canonical())
            for key in backfilled.assets
            if backfilled.relations.definition(key) is not None
        }
    )


class Outline(msgspec.Struct, frozen=True, kw_only=True):
    """What a backfill will do."""

    assets: tuple[str, ...]
    partitions: tuple[str, ...]
    typed: tuple[str, ...]
    chunk_size: int
    concurrency: int
    linked: bool
    materialized: int
    missing: int
    failed: int

    @property
    def chunks(self) -> int:
        """How many runs it will have."""
        return -(-len(self.typed) // self.chunk_size)


def outline(backfilled: Backfilled, asked: Asked, known: Standing) -> Outline:
    """What a backfill will do; `Invalid` or `NotFound` if it cannot be created."""
    _check_numbers(asked)
    one, keys = _chosen(backfilled, asked.choice, known)
    typed = tuple(one.definition.typed_key(key).canonical() for key in keys)
    size = one.size(asked.chunk_size, len(keys))
    linked = one.linked and len(keys) > size
    if linked:
        _ = one.assignment([keys[:1]])  # refuses assets that are unrelated to the rest
    made = sum(1 for key in keys if all(known.is_made(a, key) for a in one.same))
    failed = sum(1 for key in keys if any(known.has_failed(a, key) for a in one.same))
    return Outline(
        assets=tuple(key.canonical() for key in backfilled.assets),
        partitions=tuple(str(key) for key in keys),
        typed=typed,
        chunk_size=_checked_size(size, typed, asked.labels),
        concurrency=1 if linked else asked.concurrency,
        linked=linked,
        materialized=made,
        missing=len(typed) - made,
        failed=failed,
    )


def created(
    store: ObjectStore, paths: Paths, asked: Asked, found: Outline, *, parent: str | None = None
) -> BackfillCreated:
    """The first event of a backfill; a long list of partitions is stored first."""
    tenant, workspace = TenantId(paths.tenant), WorkspaceId(paths.workspace)
    data = partition_list_bytes(found.typed)
    inline = len(found.typed) <= INLINE_PARTITIONS and len(data) <= INLINE_BYTES
    digest = partition_list_digest(data)
    if not inline:
        store.put(paths.plan(digest), data)
    which = asked.choice.which
    return BackfillCreated(
        backfill_id=backfill_id(tenant, workspace, asked.request_id),
        client_request_id=asked.request_id,
        request_fingerprint=_fingerprint(asked, found, parent),
        asset_selection=found.assets,
        selector=_selector(asked.choice, found),
        partition_keys=found.typed if inline else (),
        partitions_digest="" if inline else digest,
        total_partitions=len(found.typed),
        chunk_size=found.chunk_size,
        max_concurrent_runs=found.concurrency,
        stop_on_failure=asked.stop_on_failure,
        max_failed_partitions=asked.max_failed,
        max_failed_percent=asked.max_failed_percent,
        priority=asked.priority,
        labels={**asked.labels, CHOSEN_LABEL: which} if which else dict(asked.labels),
        parent_backfill_id=parent,
        location=asked.location,
    )


def again(
    store: ObjectStore, paths: Paths, row: BackfillRow, failed: Sequence[str], request_id: str
) -> BackfillCreated:
    """The backfill that retries only the failed partitions of another."""
    if not failed:
        raise NotFound(
            f"no partition of {row.backfill_id} failed", remedy="there is nothing to retry"
        )
    asked = Asked(
        choice=Choice(keys=tuple(failed)),
        request_id=request_id,
        chunk_size=row.chunk_size,
        priority=row.priority,
        stop_on_failure=row.stop_on_failure,
        max_failed=row.max_failed_partitions,
        max_failed_percent=row.max_failed_percent,
        labels={name: value for name, value in row.labels.items() if name != CHOSEN_LABEL},
        location=row.location,
    )
    found = Outline(
        assets=row.asset_selection,
        partitions=(),
        typed=tuple(failed),
        chunk_size=row.chunk_size,
        concurrency=row.max_concurrent_runs,
        linked=row.max_concurrent_runs == 1,
        materialized=0,
        missing=0,
        failed=len(failed),
    )
    return created(store, paths, asked, found, parent=row.backfill_id)


# --- which partitions -----------------------------------------------------------------------------


def _chosen(backfilled: Backfilled, choice: Choice, known: Standing) -> tuple[OfOne, Sequence[str]]:
    if choice.is_empty:
        raise Invalid(
            "no partitions were selected",
            remedy="pass keys, a range with start and end, or which: all, missing, failed or stale",
        )
    if choice.is_ambiguous:
        raise Invalid(
            "keys cannot be combined with start, end or which",
            remedy="pass either keys, or a range and a state",
        )
    named = [key for key in (choice.start, choice.end, *choice.keys) if key is not None]
    one = _owner_of(backfilled, named)
    keys = _keys(one, choice)
    return one, _filtered(one, keys, choice.which, known)


def _owner_of(backfilled: Backfilled, named: Sequence[str]) -> OfOne:
    """The first partitions_def of the assets that has all the named keys."""
    found = [backfilled.of(owner) for owner in backfilled.definitions().values()]
    for one in found:
        if all(key_as_written(one.definition, one.space, key) is not None for key in named):
            return one
    one = found[0]
    wrong = next(k for k in named if key_as_written(one.definition, one.space, k) is None)
    raise NotFound(f"{one.owner} has no partition {wrong!r}", remedy=one.space.remedy())


def _keys(one: OfOne, choice: Choice) -> Sequence[str]:
    space = one.space
    if choice.keys:
        read = [key_as_written(one.definition, space, key) for key in choice.keys]
        bits = space.bits(key for key in read if key is not None)
        return list(space.keys_of(bits))
    if not space.count:
        raise NotFound(f"{one.owner} has no partitions at the moment", remedy=space.remedy())
    start = _written(one, choice.start) or space.key(0)
    end = _written(one, choice.end) or space.key(space.count - 1)
    return list(space.keys_of(space.between(start, end)))


def _written(one: OfOne, key: str | None) -> str | None:
    return None if key is None else key_as_written(one.definition, one.space, key)


def _filtered(one: OfOne, keys: Sequence[str], which: Which, known: Standing) -> Sequence[str]:
    if which in ("", "all"):
        return keys
    tests: Mapping[str, Callable[[AssetKey, str], bool]] = {
        "missing": lambda asset, key: not known.is_made(asset, key),
        "failed": known.has_failed,
        "stale": known.is_stale,
    }
    test = tests[which]
    return [key for key in keys if any(test(asset, key) for asset in one.same)]


# --- checks ---------------------------------------------------------------------------------------


def _check_numbers(asked: Asked) -> None:
    limits = (
        (asked.chunk_size, range(1, MAX_CHUNK_SIZE + 1), "chunk_size"),
        (asked.concurrency, range(1, MAX_CONCURRENT_RUNS + 1), "concurrency"),
        (asked.max_failed, range(MAX_PARTITIONS + 1), "max_failed"),
        (asked.max_failed_percent, range(101), "max_failed_percent"),
        (asked.priority, range(-MAX_PRIORITY, MAX_PRIORITY + 1), "priority"),
    )
    for value, allowed, field in limits:
        if value is not None and value not in allowed:
            raise Invalid(
                f"invalid {field}: {value}",
                remedy=f"use a whole number from {allowed[0]} to {allowed[-1]}",
            )


def _checked_size(size: int, typed: Sequence[str], labels: Mapping[str, str]) -> int:
    """A chunk must fit into an event, with the tags of its backfill."""
    longest = max((len(key) for key in typed), default=0) + 3
    tags = sum(len(f"{name}{value}".encode()) + 6 for name, value in labels.items())
    if tags + longest > MAX_CHUNK_BYTES:
        raise Invalid(f"the tags are {tags:,} bytes", remedy="use fewer or shorter tags")
    most = (MAX_CHUNK_BYTES - tags) // longest
    if min(size, len(typed)) > most:
        raise Invalid(
            f"a run of {min(size, len(typed))} partitions is too large",
            remedy=f"use a chunk size of at most {most}, or several backfills",
        )
    return size


def _selector(choice: Choice, found: Outline) -> RangeSelector | ExplicitSelector:
    if not choice.keys and choice.which in ("", "all") and found.partitions:
        return RangeSelector(start=found.partitions[0], end=found.partitions[-1])
    return ExplicitSelector(count=len(found.typed))


def _fingerprint(asked: Asked, found: Outline, parent: str | None) -> str:
    """The fingerprint of the request, independent of the partitions it selects now."""
    said = {
        "assets": sorted(found.assets),
        "choice": asked.choice,
        "chunk_size": asked.chunk_size,
        "concurrency": asked.concurrency,
        "priority": asked.priority,
        "stop_on_failure": asked.stop_on_failure,
        "max_failed": asked.max_failed,
        "labels": dict(asked.labels),
        "parent": parent,
    }
    if asked.max_failed_percent is not None:  # without it, what was asked before it was there
        said["max_failed_percent"] = asked.max_failed_percent
    return f"v1:sha256:{sha256_hex(said)}"
