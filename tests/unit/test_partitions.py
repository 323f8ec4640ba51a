"""Partition keys: their canonical text, and what people type."""

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest

from servo.core.partitions import MAX_DIMENSIONS, PartitionKey, Scalar, ValueType
from servo.errors import Invalid

KINDS = {
    "s": ValueType.STRING,
    "i": ValueType.INTEGER,
    "b": ValueType.BOOLEAN,
    "d": ValueType.DATE,
    "t": ValueType.TIMESTAMP,
    "n": ValueType.NULL,
}


def test_dimensions_are_sorted_and_typed() -> None:
    key = PartitionKey.of({"region": "eu", "day": date(2025, 1, 15)})
    assert key.canonical() == "day=d:2025-01-15,region=s:ZXU"
    assert key.values() == {"day": date(2025, 1, 15), "region": "eu"}
    assert key.dimensions() == {"day": ValueType.DATE, "region": ValueType.STRING}


def test_values_that_python_calls_equal_are_different_partitions() -> None:
    keys = [PartitionKey.single(value) for value in (1, True, "1", "true")]
    assert len({*keys}) == 4
    assert keys[0] != keys[1]


def test_the_same_instant_is_the_same_partition_in_every_zone() -> None:
    instant = datetime(2025, 1, 15, 8, 30, tzinfo=UTC)
    elsewhere = instant.astimezone(timezone(timedelta(hours=-7)))
    assert PartitionKey.single(instant) == PartitionKey.single(elsewhere)
    assert PartitionKey.single(elsewhere).values() == {"partition": instant}


def test_one_dimension_is_shown_as_its_plain_value_and_called_partition_by_default() -> None:
    key = PartitionKey.single("eu-west")
    assert (key.display(), str(key)) == ("eu-west", "eu-west")
    assert key.canonical() == "partition=s:ZXUtd2VzdA"


def test_several_dimensions_are_shown_with_their_names() -> None:
    assert str(PartitionKey.of({"b": True, "a": None})) == "a=null,b=true"


def test_partition_keys_sort_by_their_canonical_text() -> None:
    keys = [PartitionKey.single(date(2025, 1, number), "day") for number in range(12, 0, -1)]
    assert [key.display()[-2:] for key in sorted(keys)] == [f"{day:02}" for day in range(1, 13)]


@pytest.mark.parametrize("name", ["", "Day", "1day", "_day", "a-b", "a.b", "é", "a" * 64, "a\n"])
def test_a_dimension_has_a_plain_name(name: str) -> None:
    with pytest.raises(Invalid, match="cannot name a partition dimension"):
        PartitionKey.of({name: 1})


def test_a_key_has_between_one_and_sixteen_dimensions() -> None:
    names = [f"d{number:02}" for number in range(MAX_DIMENSIONS + 1)]
    assert len(PartitionKey.of(dict.fromkeys(names[:-1], 1)).values()) == MAX_DIMENSIONS
    for bad in ([], names):
        with pytest.raises(Invalid, match="dimensions"):
            PartitionKey.of(dict.fromkeys(bad, 1))


@pytest.mark.parametrize(
    "value",
    [
        "",
        "..",
        "a/../b",
        "a\\b",
        "50%",
        "%2e",
        "a\x00b",
        "cafe\u0301",
        "\ud800",
        "a" * 1025,
        2**63,
        -(2**63) - 1,
        0.5,
        b"x",
        datetime(2025, 1, 1),  # noqa: DTZ001 - the naive datetime is the point
    ],
)
def test_a_value_without_one_safe_spelling_is_refused(value: Any) -> None:
    with pytest.raises(Invalid):
        PartitionKey.single(value)


@pytest.mark.parametrize(
    "instant",
    [
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))),
        datetime(9999, 12, 31, 23, 30, tzinfo=timezone(timedelta(hours=-1))),
    ],
)
def test_an_instant_beyond_the_calendar_of_utc_is_refused(instant: datetime) -> None:
    with pytest.raises(Invalid, match="years 1 to 9999"):
        PartitionKey.single(instant)


def test_a_spelling_that_is_not_canonical_is_answered_with_the_one_that_is() -> None:
    with pytest.raises(Invalid, match="write a=i:2,b=i:1"):
        PartitionKey.parse("b=i:1,a=i:2")


def test_a_text_that_is_no_key_is_answered_with_an_example() -> None:
    with pytest.raises(Invalid, match="write it like day=d:2025-01-15"):
        PartitionKey.parse("2025-01-15")


def test_an_absurdly_long_number_is_refused_like_any_other() -> None:
    with pytest.raises(Invalid):
        PartitionKey.parse(f"n=i:{'9' * 10_000}")


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("eu", "s", "eu"),
        ("null", "s", "null"),
        ("a=b,c", "s", "a=b,c"),
        ("-42", "i", -42),
        ("true", "b", True),
        ("2025-01-15", "d", date(2025, 1, 15)),
        ("2025-01-15T08:30:00Z", "t", datetime(2025, 1, 15, 8, 30, tzinfo=UTC)),
        ("2025-01-15T09:30+01:00", "t", datetime(2025, 1, 15, 8, 30, tzinfo=UTC)),
        ("null", "n", None),
    ],
)
def test_people_type_the_plain_value_of_one_dimension(text: str, kind: str, value: Scalar) -> None:
    assert PartitionKey.from_display(text, {"k": KINDS[kind]}) == PartitionKey.of({"k": value})


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1.0", "i"),
        ("01", "i"),
        ("1_0", "i"),
        ("", "i"),
        ("True", "b"),
        ("20250115", "d"),
        ("2025-13-01", "d"),
        ("yesterday", "t"),
        ("2025-01-15T08:30:00", "t"),
        ("None", "n"),
    ],
)
def test_a_plain_value_of_another_type_is_refused(text: str, kind: str) -> None:
    with pytest.raises(Invalid):
        PartitionKey.from_display(text, {"k": KINDS[kind]})


def test_several_dimensions_may_be_typed_in_any_order_and_contain_separators() -> None:
    kinds = {"day": ValueType.DATE, "region": ValueType.STRING}
    expected = PartitionKey.of({"day": date(2025, 1, 15), "region": "a,b=c"})
    assert PartitionKey.from_display("region=a,b=c,day=2025-01-15", kinds) == expected
    assert PartitionKey.from_display("day=2025-01-15,region=a,b=c", kinds) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2025-01-15",
        "day=2025-01-15",
        "region=eu",
        "x=1,day=2025-01-15,region=eu",
        "day=2025-01-15,region=eu,region=us",
        "day=2025-01-15,region=a,day=2025-01-16",
    ],
)
def test_a_text_that_does_not_give_each_dimension_once_is_refused(text: str) -> None:
    kinds = {"day": ValueType.DATE, "region": ValueType.STRING}
    with pytest.raises(Invalid, match=r"day=\.\.\.,region=\.\.\."):
        PartitionKey.from_display(text, kinds)


def test_nothing_is_displayed_for_an_asset_without_dimensions() -> None:
    with pytest.raises(Invalid):
        PartitionKey.from_display("eu", {})


def test_keys_of_one_dimension_each_are_joined_under_new_names() -> None:
    parts = {"region": PartitionKey.single("e/u"), "day": PartitionKey.single(date(2024, 1, 31))}
    assert PartitionKey.joined(parts) == PartitionKey.of(
        {"region": "e/u", "day": date(2024, 1, 31)}
    )
