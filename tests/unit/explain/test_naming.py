"""Which asset and partition somebody means by what they typed."""

import pytest

from servo.core.explain.naming import find_partition, split_subject
from servo.core.partitions import PartitionKey
from servo.errors import Conflict, NotFound

DAY = PartitionKey.parse("day=d:2026-01-01").canonical()


@pytest.mark.parametrize(
    ("text", "split"),
    [
        ("orders", ("orders", None)),
        ("raw.orders:2026-01-01", ("raw.orders", "2026-01-01")),
        ("raw/orders:2026-01-01T00:30:00Z", ("raw/orders", "2026-01-01T00:30:00Z")),
        ("orders:a:b:c", ("orders", "a:b:c")),
        ("orders:", ("orders", "")),
        ("odd:key", ("odd:key", None)),
        ("odd:key:x:y", ("odd:key", "x:y")),
        ("odd.sub:key:x", ("odd.sub:key", "x")),
        ("raw/orders[2026-01-01]", ("raw/orders", "2026-01-01")),
        ("orders[a:b[c]]", ("orders", "a:b[c]")),
        ("orders:[x]", ("orders", "[x]")),
        ("orders[x", ("orders[x", None)),
    ],
)
def test_the_asset_ends_where_a_known_key_does(text: str, split: tuple[str, str | None]) -> None:
    keys = {"raw/orders", "odd:key", "odd/sub:key"}
    assert split_subject(keys, text) == split


def test_a_partition_is_meant_by_its_text_or_its_plain_value() -> None:
    known = {DAY, "day=d:2026-01-02"}
    assert find_partition(known, "a", DAY) == DAY
    assert find_partition(known, "a", "2026-01-01") == DAY
    assert find_partition(known, "a", "2026-01-03") == "day=d:2026-01-03"
    assert find_partition({"p:1", "not canonical"}, "a", "p:1") == "p:1"


@pytest.mark.parametrize("value", ["a:b", "a/b", "a.b", "=", ",", "|", "[x]", "day=1", "ü ~"])
def test_a_partition_may_have_any_character(value: str) -> None:
    key = PartitionKey.single(value).canonical()
    assert find_partition({key}, "a", value) == key


def test_several_dimensions_are_written_with_names_or_bars() -> None:
    key = PartitionKey.of({"day": "mon", "region": "eu"}).canonical()
    for text in ("day=mon,region=eu", "mon|eu"):
        assert find_partition({key}, "a", text) == key
    with pytest.raises(
        NotFound, match=r"a has no partition 'mon\|eu\|x'; its partitions look like day=mon"
    ):
        find_partition({key}, "a", "mon|eu|x")


def test_a_text_that_can_be_two_partitions_is_not_guessed() -> None:
    number, text = PartitionKey.single(1).canonical(), PartitionKey.single("1").canonical()
    with pytest.raises(Conflict, match=r"'1' matches 2 partitions of a: .*in full"):
        find_partition({number, text}, "a", "1")
    assert find_partition({number, text}, "a", number) == number
    assert find_partition({number, PartitionKey.single("x").canonical()}, "a", "1") == number


def test_a_text_that_can_be_none_is_refused_with_examples() -> None:
    with pytest.raises(
        NotFound, match="a has no partition 'soon'; its partitions look like 2026-01-01"
    ):
        find_partition({DAY}, "a", "soon")
    with pytest.raises(
        NotFound, match="a has no partition '3'; its partitions look like p:1 and p:2"
    ):
        find_partition({"p:2", "p:1"}, "a", "3")
    with pytest.raises(NotFound, match="no partition of a is recorded yet; run"):
        find_partition(set(), "a", "soon")


def test_a_canonical_text_is_taken_where_nothing_is_known() -> None:
    assert find_partition(set(), "a", DAY) == DAY
