"""Which files are merged, and when."""

from collections.abc import Iterable
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from servo.core.manifest import FileEntry, Manifest, TableFiles, Tier, first_claim
from servo.projection.publish.tiering import MergePlan, MergePolicy, level_for, plan_merge

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def file(name: str, **fields: object) -> FileEntry:
    entry = FileEntry(
        key=name,
        size=100,
        sha256="00",
        rows=10,
        level=0,
        tier=Tier.ACTIVE,
        min_seq=1,
        max_seq=9,
        min_key=("a",),
        max_key=("b",),
        written_at=NOW,
    )
    return replace(entry, **fields)


def files(count: int, prefix: str = "f", **fields: object) -> list[FileEntry]:
    return [file(f"{prefix}{number}", **fields) for number in range(count)]


def plan(
    tables: dict[str, Iterable[FileEntry]],
    in_flight: Iterable[str] = (),
    policy: MergePolicy | None = None,
) -> MergePlan | None:
    held = {name: TableFiles(files=tuple(members)) for name, members in tables.items()}
    claim = first_claim(identity="ab" * 16, owner="o", nonce="n", ts=NOW)
    manifest: Manifest = replace(claim, tables=held)
    return plan_merge(manifest, frozenset(in_flight), policy or MergePolicy())


def names(found: MergePlan | None) -> list[str]:
    return [] if found is None else [entry.key for entry in found.inputs]


@pytest.mark.parametrize(
    ("rows", "level"),
    [(0, 1), (1, 1), (8_191, 1), (8_192, 2), (65_535, 2), (65_536, 3), (2_000_000, 4)],
)
def test_the_level_of_a_merged_file_follows_from_its_rows(rows: int, level: int) -> None:
    assert level_for(rows) == level


def test_seven_files_of_a_class_are_left_alone_and_eight_are_merged() -> None:
    assert plan({"tasks": files(7)}) is None
    assert names(plan({"tasks": files(8)})) == [f"f{number}" for number in range(8)]


def test_files_of_other_levels_and_tiers_do_not_count() -> None:
    mixed = [*files(4), *files(4, "l", level=1), *files(4, "c", tier=Tier.CLOSED)]
    assert plan({"tasks": mixed}) is None


def test_what_a_merge_under_way_has_is_left_to_it() -> None:
    assert plan({"tasks": files(8)}, in_flight=["f3"]) is None
    assert names(plan({"tasks": files(9)}, in_flight=["f3"])) == [
        f"f{number}" for number in range(9) if number != 3
    ]


def test_a_table_of_a_later_version_is_left_alone() -> None:
    assert plan({"moods": files(20)}) is None


def test_the_table_with_the_most_unmerged_active_files_comes_first() -> None:
    found = plan(
        {
            "runs": files(9),
            "tasks": files(10),
            "dead_letter": files(20, tier=Tier.CLOSED),
            "timers": files(30, level=1),
        }
    )
    assert found is not None
    assert found.table == "tasks"


def test_the_floor_is_the_oldest_row_that_stays_outside() -> None:
    outside = [file("x", level=1, min_seq=40), file("y", level=2, min_seq=20)]
    found = plan({"tasks": [*outside, *files(8, min_seq=50), file("c", tier=Tier.CLOSED)]})
    assert found is not None
    assert found.floor == 20


def test_a_merge_of_everything_has_no_floor() -> None:
    found = plan({"tasks": [*files(8), file("c", tier=Tier.CLOSED, min_seq=1)]})
    assert found is not None
    assert found.floor is None


def test_an_active_tier_that_is_mostly_dead_is_merged_whole() -> None:
    alive = file("base", level=3, rows=200)
    assert plan({"tasks": [alive, file("d", rows=66, tombstones=66)]}) is None
    found = plan({"tasks": [alive, file("d", rows=67, tombstones=67)]})
    assert names(found) == ["base", "d"]
    assert found is not None
    assert found.floor is None


def test_a_few_tombstones_are_not_worth_a_merge() -> None:
    assert plan({"tasks": [file("d", rows=63, tombstones=63)]}) is None


def test_a_tier_of_which_a_part_is_being_merged_is_not_merged_whole() -> None:
    dead = [file("base", level=3), file("d", rows=100, tombstones=100)]
    assert plan({"tasks": dead}, in_flight=["base"]) is None


def test_tombstones_of_the_closed_tier_cause_nothing() -> None:
    assert plan({"tasks": [file("d", rows=100, tombstones=100, tier=Tier.CLOSED)]}) is None


def test_closed_files_that_would_become_too_large_together_are_merged_in_part() -> None:
    policy = MergePolicy(max_rows=1000)
    sizes = [400, 300, 200, 100, 500, 500, 500, 500]
    closed = [
        file(f"f{number}", tier=Tier.CLOSED, level=4, rows=rows, size=rows)
        for number, rows in enumerate(sizes)
    ]
    assert names(plan({"tasks": closed}, policy=policy)) == ["f0", "f1", "f2", "f3"]


def test_closed_files_that_are_large_enough_are_never_merged_again() -> None:
    policy = MergePolicy(max_rows=1000, max_bytes=1000)
    assert plan({"tasks": files(20, tier=Tier.CLOSED, rows=600)}, policy=policy) is None
    assert plan({"tasks": files(20, tier=Tier.CLOSED, size=600)}, policy=policy) is None


def test_active_files_are_merged_whatever_their_size() -> None:
    policy = MergePolicy(max_rows=1000, max_bytes=1000)
    assert len(names(plan({"tasks": files(20, rows=600, size=600)}, policy=policy))) == 20
