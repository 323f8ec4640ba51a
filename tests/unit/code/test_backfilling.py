"""Which partitions a backfill has, what it makes of them in which chunk, and what is refused."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from servo import (
    AssetDep,
    AssetIn,
    BackfillPolicy,
    DailyPartitionsDefinition,
    DynamicPartitionsDefinition,
    MonthlyPartitionsDefinition,
    StaticPartitionsDefinition,
    TimeWindowPartitionMapping,
    asset,
)
from servo.code.backfills.chunks import frozen_partitions
from servo.code.backfills.requests import (
    Asked,
    Choice,
    Outline,
    Standing,
    again,
    created,
    outline,
)
from servo.core.bitmaps import bitmap
from servo.core.events.backfills import (
    DEFAULT_CONCURRENT_RUNS,
    BackfillCreated,
    BackfillState,
    ExplicitSelector,
    RangeSelector,
)
from servo.core.keys import AssetKey
from servo.core.partition_lists import parse_partition_list
from servo.core.state.rows.automation import BackfillRow
from servo.errors import Invalid, NotFound, ServoError
from servo.ledger.paths import Paths
from servo.planning.backfills import Backfilled
from servo.projection.partitions.report import PartitionReport
from servo.sdk.definitions.project import Project
from servo.sdk.partitions.mapping_resolution import WHOLE, Moment
from servo.sdk.partitions.status import PartitionStatus, StaleReason
from servo.storage.memory import MemoryStore
from servo.workspace.system import SystemClock

NOW = datetime(2024, 4, 1, tzinfo=UTC)
DAYS = DailyPartitionsDefinition(start_date="2024-01-01")
MONTHS = MonthlyPartitionsDefinition(start_date="2024-01-01")
PATHS = Paths("t", "w")


@asset(partitions_def=DAYS)
def daily() -> int:
    return 1


@asset(partitions_def=DAYS, deps=[daily])
def cleaned() -> int:
    return 1


@asset(partitions_def=MONTHS, deps=[daily])
def monthly() -> int:
    return 1


@asset
def source() -> int:
    return 1


@asset(deps=[monthly])
def total() -> int:
    return 1


def seen(*assets: Any, moment: Moment | None = None) -> Backfilled:
    project = Project(assets)
    return Backfilled(project, project.order, moment or Moment(NOW))


def asked(**choice: Any) -> Asked:
    return Asked(choice=Choice(**choice), request_id="mine")


def keys(found: Outline) -> Sequence[str]:
    return found.partitions


NOTHING = Standing({})


# --- which partitions -----------------------------------------------------------------------------


def test_a_range_has_both_of_its_ends() -> None:
    found = outline(seen(daily), asked(start="2024-01-30", end="2024-02-02"), NOTHING)
    assert keys(found) == ("2024-01-30", "2024-01-31", "2024-02-01", "2024-02-02")
    assert found.typed[0] == "partition=d:2024-01-30"
    assert (found.assets, found.chunks, found.linked) == (("daily",), 1, False)


def test_a_range_with_one_end_goes_to_the_first_or_the_last() -> None:
    assert keys(outline(seen(daily), asked(end="2024-01-02"), NOTHING)) == (
        "2024-01-01",
        "2024-01-02",
    )
    assert keys(outline(seen(daily), asked(start="2024-03-31"), NOTHING)) == ("2024-03-31",)


def test_named_partitions_are_made_once_and_in_order() -> None:
    named = asked(keys=("2024-02-01", "2024-01-01", "2024-02-01"))
    assert keys(outline(seen(daily), named, NOTHING)) == ("2024-01-01", "2024-02-01")


def test_all_are_all_there_are() -> None:
    found = outline(seen(daily), replace(asked(which="all"), chunk_size=50), NOTHING)
    assert (len(found.typed), found.chunks) == (91, 2)


def report(
    backfilled: Backfilled, name: str, *, made: Sequence[int], failed: Sequence[int] = ()
) -> dict[AssetKey, PartitionReport]:
    """What is known of an asset: the numbers of partitions that were made, and that failed."""
    space = backfilled.relations.space(AssetKey(name))
    there = bitmap(made)
    status = PartitionStatus(count=space.count, made=there, failed=bitmap(failed), in_progress=0)
    stale = {
        StaleReason.NEVER_MATERIALIZED: bitmap(range(space.count)) & ~there,
        StaleReason.CODE_CHANGED: there & bitmap([31, 60]),
    }
    return {
        AssetKey(name): PartitionReport(asset_key=name, space=space, status=status, stale=stale)
    }


def test_missing_and_failed_are_judged_by_all_assets_that_are_divided_so() -> None:
    both = seen(daily, cleaned)
    known = Standing(
        report(both, "daily", made=(0, 1), failed=(2,))
        | report(both, "cleaned", made=(0,), failed=(0,))
    )
    first = {"end": "2024-01-04"}
    assert keys(outline(both, asked(which="missing", **first), known)) == (
        "2024-01-02",
        "2024-01-03",
        "2024-01-04",
    )
    found = outline(both, asked(which="failed", **first), known)
    assert keys(found) == ("2024-01-01", "2024-01-03")
    assert (found.materialized, found.missing, found.failed) == (1, 1, 2)


def test_stale_is_what_is_out_of_date_or_was_never_made() -> None:
    alone = seen(daily)
    known = Standing(report(alone, "daily", made=range(90)))
    assert keys(outline(alone, asked(which="stale"), known)) == (
        "2024-02-01",
        "2024-03-01",
        "2024-03-31",
    )
    assert len(keys(outline(alone, asked(which="stale"), NOTHING))) == 91


def test_dynamic_partitions_are_those_of_the_moment() -> None:
    @asset(partitions_def=DynamicPartitionsDefinition(name="customers"))
    def customers() -> int:
        return 1

    class Store:
        def get_dynamic_partitions(self, partitions_def_name: str) -> list[str]:
            return ["b", "a"] if partitions_def_name == "customers" else []

    class Empty:
        def get_dynamic_partitions(self, partitions_def_name: str) -> list[str]:
            del partitions_def_name
            return []

    found = outline(seen(customers, moment=Moment(NOW, Store())), asked(which="all"), NOTHING)
    assert keys(found) == ("b", "a")
    with pytest.raises(NotFound, match="no partitions at the moment"):
        _ = outline(seen(customers, moment=Moment(NOW, Empty())), asked(which="all"), NOTHING)


@pytest.mark.parametrize(
    ("choice", "error", "told"),
    [
        ({"start": "2024-01-09", "end": "2024-01-03"}, Invalid, "comes after"),
        ({"start": "never"}, NotFound, "no partition 'never'"),
        ({"keys": ("2023-12-31",)}, NotFound, "no partition '2023-12-31'"),
        ({}, Invalid, "no partitions were selected"),
        ({"keys": ("2024-01-01",), "which": "all"}, Invalid, "cannot be combined"),
        ({"keys": ("2024-01-01",), "start": "2024-01-01"}, Invalid, "cannot be combined"),
    ],
)
def test_partitions_that_cannot_be_meant_are_told(
    choice: dict[str, Any], error: type[ServoError], told: str
) -> None:
    with pytest.raises(error, match=told) as raised:
        _ = outline(seen(daily), asked(**choice), NOTHING)
    assert raised.value.remedy


@pytest.mark.parametrize(
    "changes",
    [
        {"chunk_size": 0},
        {"chunk_size": 10**9},
        {"concurrency": 0},
        {"concurrency": 10**9},
        {"max_failed": -1},
        {"max_failed_percent": 101},
        {"priority": 10**12},
    ],
)
def test_numbers_that_make_no_sense_are_told(changes: dict[str, int]) -> None:
    [(field, value)] = changes.items()
    with pytest.raises(Invalid, match=f"invalid {field}: {value}; use a whole number from"):
        _ = outline(seen(daily), replace(asked(which="all"), **changes), NOTHING)


def test_assets_without_partitions_have_no_backfill() -> None:
    with pytest.raises(Invalid, match="source has no partitions"):
        _ = seen(source)


def test_a_run_that_would_not_fit_into_an_event_is_told() -> None:
    @asset(partitions_def=StaticPartitionsDefinition([f"{n:04}" + "x" * 90 for n in range(2000)]))
    def wide() -> int:
        return 1

    with pytest.raises(Invalid, match="is too large"):
        _ = outline(seen(wide), replace(asked(which="all"), chunk_size=2000), NOTHING)


def test_tags_that_would_leave_no_room_for_partitions_are_told() -> None:
    with pytest.raises(Invalid, match="the tags are 300,010 bytes"):
        _ = outline(
            seen(daily), replace(asked(which="all"), labels={"note": "x" * 300_000}), NOTHING
        )


# --- policies and links ---------------------------------------------------------------------------


def policied(*policies: BackfillPolicy | None) -> Backfilled:
    made: list[Any] = []
    for n, policy in enumerate(policies):

        @asset(name=f"a{n}", partitions_def=DAYS, backfill_policy=policy)
        def one() -> int:
            return 1

        made.append(one)
    return seen(*made)


@pytest.mark.parametrize(
    ("policies", "size", "chunks"),
    [
        ((None,), None, 10),
        ((BackfillPolicy.single_run(),), None, 1),
        ((BackfillPolicy.single_run(),), 500, 1),
        ((BackfillPolicy.multi_run(30),), None, 4),
        ((BackfillPolicy.multi_run(30), BackfillPolicy.single_run()), 20, 5),
        ((BackfillPolicy.multi_run(30), None), 40, 4),
    ],
)
def test_policies_of_assets_say_how_many_partitions_a_run_makes(
    policies: Sequence[BackfillPolicy | None], size: int | None, chunks: int
) -> None:
    wanted = replace(asked(which="all"), chunk_size=size)
    assert outline(policied(*policies), wanted, NOTHING).chunks == chunks


def test_a_single_run_is_not_divided() -> None:
    wanted = replace(asked(which="all"), chunk_size=10)
    with pytest.raises(Invalid, match="requires a single run"):
        _ = outline(policied(BackfillPolicy.single_run()), wanted, NOTHING)


def test_chunks_that_depend_on_each_other_run_one_after_the_other() -> None:
    @asset(
        partitions_def=DAYS,
        ins={"daily": AssetIn(partition_mapping=TimeWindowPartitionMapping(start_offset=-1))},
    )
    def change(daily: int) -> int:
        return daily

    @asset(
        partitions_def=DAYS, deps=[AssetDep(daily, partition_mapping=TimeWindowPartitionMapping())]
    )
    def same() -> int:
        return 1

    every = asked(which="all")
    linked = [outline(seen(daily, other), every, NOTHING) for other in (change, monthly, total)]
    assert [(found.linked, found.concurrency) for found in linked] == [(True, 1)] * 3
    free = [outline(seen(daily, other), every, NOTHING) for other in (cleaned, same)]
    assert [(found.linked, found.concurrency) for found in free] == [
        (False, DEFAULT_CONCURRENT_RUNS)
    ] * 2
    one_run = outline(seen(daily, monthly), asked(end="2024-01-03"), NOTHING)
    assert (one_run.chunks, one_run.linked) == (1, False)


def test_what_is_divided_otherwise_is_made_once_with_the_last_it_is_made_from() -> None:
    one = seen(daily, monthly, source, total).of(AssetKey("daily"))
    chunks = [["2024-01-30"], ["2024-01-31", "2024-02-01"], ["2024-02-02"]]
    assert one.assignment(chunks) == {
        0: {AssetKey("source"): [WHOLE]},
        1: {AssetKey("monthly"): ["2024-01-01"]},
        2: {AssetKey("monthly"): ["2024-02-01"], AssetKey("total"): [WHOLE]},
    }


def test_what_several_are_made_from_is_made_with_the_first() -> None:
    one = seen(daily, monthly).of(AssetKey("monthly"))
    found = one.assignment([["2024-01-01"], ["2024-02-01"]])
    assert [len(found[n][AssetKey("daily")]) for n in (0, 1)] == [31, 29]


def test_assets_that_have_nothing_to_do_with_each_other_are_told() -> None:
    @asset(partitions_def=StaticPartitionsDefinition(["eu", "us"]))
    def regions() -> int:
        return 1

    with pytest.raises(Invalid, match="neither is upstream of the other"):
        _ = outline(seen(daily, regions), asked(which="all"), NOTHING)


def test_partitions_are_those_of_the_division_that_has_the_most_of_them() -> None:
    both = seen(daily, monthly)
    assert both.owner(["partition=d:2024-01-01", "partition=d:2024-01-02"]) == AssetKey("daily")
    late = DailyPartitionsDefinition(start_date="2024-03-01")

    @asset(partitions_def=late)
    def fine() -> int:
        return 1

    @asset(partitions_def=MONTHS, deps=[fine])
    def coarse() -> int:
        return 1

    other = seen(fine, coarse)
    assert other.owner(["partition=d:2024-01-01", "partition=d:2024-02-01"]) == AssetKey("coarse")


# --- the event ------------------------------------------------------------------------------------


def made(wanted: Asked, *assets: Any) -> tuple[MemoryStore, BackfillCreated]:
    store = MemoryStore(SystemClock())
    return store, created(store, PATHS, wanted, outline(seen(*assets), wanted, NOTHING))


def row_of(event: BackfillCreated) -> BackfillRow:
    return BackfillRow(
        backfill_id=event.backfill_id,
        client_request_id=event.client_request_id,
        request_fingerprint=event.request_fingerprint,
        asset_selection=event.asset_selection,
        selector=event.selector,
        partition_keys=event.partition_keys,
        partitions_digest=event.partitions_digest,
        state=BackfillState.FAILED,
        total_partitions=event.total_partitions,
        total_chunks=1,
        chunk_size=event.chunk_size,
        max_concurrent_runs=event.max_concurrent_runs,
        labels=event.labels,
        priority=event.priority,
        created_at=NOW,
        row_version=1,
    )


def test_the_same_request_is_the_same_event_whatever_became_missing() -> None:
    wanted = asked(which="missing")
    _, first = made(wanted, daily)
    known = Standing(report(seen(daily), "daily", made=(0,)))
    found = outline(seen(daily), wanted, known)
    second = created(MemoryStore(SystemClock()), PATHS, wanted, found)
    assert (first.total_partitions, second.total_partitions) == (91, 90)
    assert first.request_fingerprint == second.request_fingerprint
    assert first.backfill_id == second.backfill_id
    assert first.labels == {"servo/partitions": "missing"}


@pytest.mark.parametrize(
    "changes",
    [
        {"chunk_size": 5},
        {"concurrency": 5},
        {"priority": 5},
        {"stop_on_failure": True},
        {"max_failed": 5},
        {"max_failed_percent": 5},
        {"labels": {"a": "b"}},
        {"choice": Choice(start="2024-01-01")},
    ],
)
def test_another_request_has_another_fingerprint(changes: dict[str, Any]) -> None:
    wanted = asked(which="all")
    _, first = made(wanted, daily)
    _, second = made(replace(wanted, **changes), daily)
    assert first.request_fingerprint != second.request_fingerprint
    assert first.backfill_id == second.backfill_id


def test_how_partitions_were_chosen_is_told() -> None:
    _, ranged = made(asked(start="2024-03-30"), daily)
    assert ranged.selector == RangeSelector(start="2024-03-30", end="2024-03-31")
    _, named = made(asked(keys=("2024-03-30",)), daily)
    assert named.selector == ExplicitSelector(count=1)


def test_a_short_list_is_in_the_event_and_a_long_one_is_stored() -> None:
    _, short = made(asked(which="all"), daily)
    assert (len(short.partition_keys), short.partitions_digest) == (91, "")

    @asset(partitions_def=DailyPartitionsDefinition(start_date="2010-01-01"))
    def old() -> int:
        return 1

    store, long = made(asked(which="all"), old)
    assert long.partition_keys == ()
    data = store.get(PATHS.plan(long.partitions_digest)).data
    listed = parse_partition_list(data, long.partitions_digest)
    assert len(listed) == long.total_partitions == 5204
    assert frozen_partitions(store, PATHS, row_of(long)) == listed
    assert frozen_partitions(store, PATHS, row_of(short)) == short.partition_keys


def test_what_failed_is_repeated_as_it_was_and_nothing_else() -> None:
    store, event = made(replace(asked(which="all"), priority=3, labels={"a": "b"}), daily)
    failed = event.partition_keys[3:5]
    child = again(store, PATHS, row_of(event), failed, "other")
    assert child.partition_keys == failed
    assert child.parent_backfill_id == event.backfill_id
    assert (child.priority, child.labels) == (3, {"a": "b"})
    assert child.backfill_id != event.backfill_id
    with pytest.raises(NotFound, match="failed"):
        _ = again(store, PATHS, row_of(event), [], "other")
