"""Merging files: the newest version stays, tombstones go when they hide nothing, order is kept."""

from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from servo.core.manifest import FileEntry, Tier
from servo.core.state.rows.row import Row
from servo.core.state.rows.system import IdempotencyKeyRow, ParkedBatchRow
from servo.core.state.tables import TABLES
from servo.errors import Corrupt
from servo.ledger.paths import Paths
from servo.projection.files.arrow import pa, pq
from servo.projection.files.parquet import GROUP_ROWS, Tombstone, decode, live, read, to_rows
from servo.projection.files.schema import DELETED
from servo.projection.files.segment import Segment
from servo.projection.files.segment_store import FilePlacement, build
from servo.projection.publish.capture import TierChange
from servo.projection.publish.merge import merge_files
from servo.projection.publish.tiering import MergePlan
from servo.projection.read.newest import marked, newest, newest_of_sorted, ranked

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PATHS = Paths("acme", "prod")
PARKED = TABLES["parked_batches"]
ANSWERS = TABLES["idempotency_keys"]


def parked(key: str, version: int) -> ParkedBatchRow:
    return ParkedBatchRow(
        batch_id=key,
        waits_for_run_id="r",
        reason=f"version {version}",
        batch="{}",
        parked_at=NOW,
        expires_at=NOW,
        row_version=version,
    )


def answer(number: int, version: int = 1) -> IdempotencyKeyRow:
    return IdempotencyKeyRow(
        idempotency_key=f"key-{number:08d}",
        request_hash=f"{version}",
        answer="{}",
        created_at=NOW,
        row_version=version,
    )


def segment(
    rows: Sequence[Row],
    tombstones: Sequence[Tombstone] = (),
    table: str = "parked_batches",
    tier: Tier = Tier.ACTIVE,
) -> Segment:
    change = TierChange()
    change.rows.extend(rows)
    change.tombstones.extend(tombstones)
    place = FilePlacement(table=table, tier=tier, level=0, seq=99, nonce="n", written_at=NOW)
    return build(place, change, PATHS)


def entry(held: Segment, name: str, tier: Tier = Tier.ACTIVE) -> FileEntry:
    return FileEntry(
        key=name,
        size=len(held.data),
        sha256=sha256(held.data).hexdigest(),
        rows=held.rows,
        tombstones=held.tombstones,
        level=0,
        tier=tier,
        min_seq=held.min_seq or 0,
        max_seq=held.max_seq or 0,
        min_key=held.min_key,
        max_key=held.max_key,
        written_at=NOW,
    )


def merged(
    segments: Sequence[Segment],
    *,
    floor: int | None = None,
    table: str = "parked_batches",
    tier: Tier = Tier.ACTIVE,
) -> Segment | None:
    files = [entry(held, f"f{number}", tier) for number, held in enumerate(segments)]
    plan = MergePlan(table=table, tier=tier, inputs=tuple(files), floor=floor)
    return merge_files(plan, [held.data for held in segments])


def rows_in(held: Segment | None) -> list[Row]:
    return [] if held is None else decode(PARKED, held.data)


def tombstones_in(held: Segment | None) -> list[tuple[Any, int]]:
    if held is None:
        return []
    table = read(held.data, what="f")
    if DELETED not in table.column_names:
        return []
    buried = table.filter(table.column(DELETED))
    keys, versions = buried.column("batch_id"), buried.column("row_version")
    return list(zip(keys.to_pylist(), versions.to_pylist(), strict=True))


def test_the_newest_version_of_every_key_stays() -> None:
    found = merged(
        [
            segment([parked("a", 1), parked("b", 5)]),
            segment([parked("a", 3), parked("c", 2)]),
            segment([parked("b", 4)]),
        ]
    )
    assert rows_in(found) == [parked("a", 3), parked("b", 5), parked("c", 2)]
    assert found is not None
    assert (found.rows, found.min_seq, found.max_seq) == (3, 2, 5)
    assert (found.min_key, found.max_key) == (("a",), ("c",))


def test_a_tombstone_hides_the_version_it_names_and_older_ones() -> None:
    found = merged([segment([parked("a", 3), parked("b", 3)]), segment([], [("a", 3), ("b", 2)])])
    assert rows_in(found) == [parked("b", 3)]


def test_a_row_that_came_after_a_tombstone_stays() -> None:
    found = merged([segment([], [("a", 3)]), segment([parked("a", 4)])])
    assert rows_in(found) == [parked("a", 4)]
    assert tombstones_in(found) == []


def test_a_tombstone_goes_only_when_everything_outside_is_newer() -> None:
    inputs = [segment([parked("x", 9)], [("a", 3), ("b", 7)]), segment([parked("c", 9)])]
    assert tombstones_in(merged(inputs, floor=1)) == [("a", 3), ("b", 7)]
    assert tombstones_in(merged(inputs, floor=3)) == [("a", 3), ("b", 7)]
    assert tombstones_in(merged(inputs, floor=4)) == [("b", 7)]
    assert tombstones_in(merged(inputs, floor=8)) == []
    assert tombstones_in(merged(inputs, floor=None)) == []


def test_a_merge_of_which_nothing_is_left_gives_no_file() -> None:
    assert merged([segment([parked("a", 1)]), segment([], [("a", 1)])]) is None


def test_a_file_of_tombstones_alone_says_how_many() -> None:
    held = segment([], [("a", 1), ("b", 2)])
    assert (held.rows, held.tombstones, held.min_seq) == (2, 2, None)


def test_files_of_many_row_groups_are_merged_in_the_order_of_their_keys() -> None:
    count = 3 * GROUP_ROWS
    evens = segment([answer(number) for number in range(0, count, 2)], table="idempotency_keys")
    odds = segment([answer(number) for number in range(1, count, 2)], table="idempotency_keys")
    newer = segment(
        [answer(number, 2) for number in range(0, count, 1000)], table="idempotency_keys"
    )
    found = merged([evens, odds, newer], table="idempotency_keys", tier=Tier.CLOSED)
    assert found is not None
    expected = [answer(number, 1 + (number % 1000 == 0)) for number in range(count)]
    assert decode(ANSWERS, found.data) == expected
    metadata = pq.ParquetFile(pa.BufferReader(found.data)).metadata
    groups = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    assert groups == [GROUP_ROWS] * 3
    assert found.index is not None
    assert found.index.first_keys == tuple((f"key-{n * GROUP_ROWS:08d}",) for n in range(3))


def test_the_parts_of_an_indexed_file_are_the_whole_file() -> None:
    held = segment(
        [answer(number) for number in range(2 * GROUP_ROWS + 5)],
        table="idempotency_keys",
        tier=Tier.CLOSED,
    )
    assert held.index is not None
    parts = [*held.index.groups, held.index.footer]
    assert len(parts) == 4
    place = 0
    for part in parts:
        assert part.start == place
        place += part.length
        assert part.sha256 == sha256(held.data[part.start : place]).hexdigest()
    assert place == len(held.data)


def test_small_and_active_files_get_no_index() -> None:
    few = [answer(number) for number in range(10)]
    many = [answer(number) for number in range(5000)]
    assert segment(few, table="idempotency_keys", tier=Tier.CLOSED).index is None
    assert segment(many, table="idempotency_keys", tier=Tier.ACTIVE).index is None
    assert segment(many, table="idempotency_keys", tier=Tier.CLOSED).index is not None


def test_a_column_that_is_not_known_here_survives_a_merge() -> None:
    newer = segment([parked("b", 2)])
    table = read(newer.data, what="f").append_column("mood", [["fine"]])
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    newer = replace(newer, data=sink.getvalue().to_pybytes())
    found = merged([segment([parked("a", 1)]), newer])
    assert found is not None
    kept = read(found.data, what="f")
    assert kept.column("mood").to_pylist() == [None, "fine"]
    assert rows_in(found) == [parked("a", 1), parked("b", 2)]


def test_a_column_that_only_some_keys_have_is_null_for_the_others() -> None:
    many = segment([answer(number) for number in range(GROUP_ROWS + 5)], table="idempotency_keys")
    few = segment([answer(1, 2)], table="idempotency_keys")
    table = read(few.data, what="f").append_column("mood", [["fine"]])
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    few = replace(few, data=sink.getvalue().to_pybytes())
    found = merged([many, few], table="idempotency_keys")
    assert found is not None
    moods = read(found.data, what="f").column("mood").to_pylist()
    assert moods == [None, "fine", *[None] * (GROUP_ROWS + 3)]


def test_an_input_that_is_no_parquet_is_damage() -> None:
    held = segment([parked("a", 1)])
    with pytest.raises(Corrupt, match="f1"):
        _ = merged([held, replace(held, data=b"PAR1PAR1")])


# --- between tiers --------------------------------------------------------------------------------


def tier_table(held: Segment, tier: Tier) -> Any:
    return ranked(marked(read(held.data, what="f")), tier)


def both(active: Segment, closed: Segment) -> list[Row]:
    tables = [tier_table(active, Tier.ACTIVE), tier_table(closed, Tier.CLOSED)]
    return to_rows(PARKED, live(newest(PARKED, tables)))


def test_the_tombstone_of_a_move_hides_the_active_row_and_not_the_closed_one() -> None:
    assert both(segment([], [("a", 3)]), segment([parked("a", 3)])) == [parked("a", 3)]


def test_the_tombstone_of_a_drop_hides_the_closed_row_too() -> None:
    assert both(segment([], [("a", 4)]), segment([parked("a", 3)])) == []


def test_a_newer_active_row_hides_the_closed_one() -> None:
    assert both(segment([parked("a", 5)]), segment([parked("a", 3)])) == [parked("a", 5)]


FILES = st.lists(st.sets(st.sampled_from("abcdefgh"), min_size=1), min_size=1, max_size=4)


@given(FILES)
def test_files_whose_keys_do_not_mingle_are_read_as_any_others(files: list[set[str]]) -> None:
    tables = [
        tier_table(segment([parked(key, version) for key in keys]), Tier.ACTIVE)
        for version, keys in enumerate(files, 1)
    ]
    found = newest_of_sorted(PARKED, tables)
    assert found.sort_by("batch_id") == newest(PARKED, tables)


# --- any files, any order of merging --------------------------------------------------------------

CHANGES = st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), min_size=1, max_size=12)


@given(st.lists(CHANGES, min_size=2, max_size=5), st.integers(1, 4))
def test_merging_a_part_first_changes_nothing(changes: list[list[Any]], cut: int) -> None:
    """Files that follow each other in time, merged at once or the later ones first."""
    version = 0
    segments: list[Segment] = []
    expected: dict[str, Row] = {}
    for one in changes:
        rows: dict[str, Row | None] = {}
        for key, dropped in one:
            version += 1
            rows[key] = None if dropped else parked(key, version)
        expected |= {key: row for key, row in rows.items() if row is not None}
        for key in [key for key, row in rows.items() if row is None]:
            _ = expected.pop(key, None)
        tombstones = [(key, version) for key, row in rows.items() if row is None]
        segments.append(segment([row for row in rows.values() if row is not None], tombstones))
    head, tail = segments[:cut], segments[cut:]
    floor = min((held.min_seq for held in head if held.min_seq is not None), default=None)
    part = merged(tail, floor=floor or 0) if tail else None
    whole = merged([*head, *([] if part is None else [part])])
    assert rows_in(whole) == [expected[key] for key in sorted(expected)]
    assert rows_in(merged(segments)) == rows_in(whole)
