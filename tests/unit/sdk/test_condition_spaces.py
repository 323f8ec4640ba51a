"""A partition keeps its number, whatever comes and goes around it."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import servo
from servo.sdk.automation.spaces import KeySpace, mapping_between

NOW = datetime(2025, 1, 4, 12, tzinfo=UTC)
DAYS = servo.DailyPartitionsDefinition(start_date="2025-01-01")
COLOURS = servo.StaticPartitionsDefinition(["red", "green"])
CUSTOMERS = servo.DynamicPartitionsDefinition(name="customers")
REGIONS = servo.DynamicPartitionsDefinition(name="regions")


class Named(msgspec.Struct, frozen=True):
    """What a definition of somebody else has."""

    name: str


class Store:
    """Dynamic partitions with their numbers."""

    def __init__(self, **sets: Mapping[str, int]) -> None:
        self._sets = sets

    def get_dynamic_partitions(self, partitions_def_name: str) -> Sequence[str]:
        return list(self._sets[partitions_def_name])

    def dynamic_numbers(self, partitions_def_name: str) -> Mapping[str, int]:
        return self._sets[partitions_def_name]


def customers(**numbers: int) -> KeySpace:
    return KeySpace(CUSTOMERS, NOW, Store(customers=numbers))


def test_a_key_that_is_gone_leaves_a_gap() -> None:
    before = customers(acme=1, bolt=2, coil=3)
    after = customers(acme=1, coil=3, bolt=4)
    assert before.everything == 0b0111
    assert after.everything == 0b1101
    assert [before.number("coil"), after.number("coil"), after.number("bolt")] == [2, 2, 3]
    assert (after.key(1), after.key(3), after.named(0b1111)) == (
        None,
        "bolt",
        ["acme", "coil", "bolt"],
    )
    assert before.fingerprint == after.fingerprint


def test_keys_without_numbers_are_numbered_for_as_long_as_they_stay() -> None:
    old, more = customers(acme=0, bolt=0), customers(acme=0, bolt=0, coil=1)
    assert [old.number("acme"), old.number("bolt")] == [0, 1]
    assert more.everything == 0b111
    assert old.fingerprint != more.fingerprint


def test_in_several_dimensions_the_one_that_grows_is_the_slow_one() -> None:
    both = servo.MultiPartitionsDefinition({"colour": COLOURS, "day": DAYS})
    early, late = KeySpace(both, NOW, None), KeySpace(both, NOW + timedelta(days=30), None)
    assert early.everything == 0b111111
    assert late.everything.bit_count() == 66
    assert early.named(early.everything) == late.named(early.everything)
    assert [late.number(key) for key in early.named(early.everything)] == list(range(6))
    assert early.fingerprint == late.fingerprint
    assert early.named(early.latest(NOW, None)) == ["red|2025-01-03", "green|2025-01-03"]
    assert early.latest(NOW, timedelta(days=2)) == 0b111100
    assert (early.number("blue|2025-01-03"), early.number("red"), early.key(6)) == (None,) * 3


def test_two_dimensions_that_grow() -> None:
    both = servo.MultiPartitionsDefinition({"customer": CUSTOMERS, "day": DAYS})
    store = Store(customers={"acme": 1, "bolt": 2})
    early = KeySpace(both, NOW, store)
    later = Store(customers={"acme": 1, "coil": 3})
    late = KeySpace(both, NOW + timedelta(days=5), later)
    gone = {early.number(f"bolt|2025-01-0{day}") for day in (1, 2, 3)}
    for number in range(20):
        key = early.key(number)
        assert key is None or late.key(number) == (None if number in gone else key)
    assert early.everything.bit_count() == 6
    assert early.named(early.latest(NOW, None)) == ["acme|2025-01-03", "bolt|2025-01-03"]


def test_three_dimensions_of_every_kind() -> None:
    whole = servo.MultiPartitionsDefinition(
        {"colour": COLOURS, "customer": CUSTOMERS, "day": DAYS, "region": REGIONS}
    )
    store = Store(customers={"acme": 2, "bolt": 5}, regions={"eu": 1, "us": 4})
    space = KeySpace(whole, NOW, store)
    keys = whole.get_partition_keys(NOW, store)
    numbers = [space.number(key) for key in keys]
    assert len(set(numbers)) == len(keys) == space.everything.bit_count() == 24
    assert sorted(space.named(space.everything)) == sorted(keys)


@given(
    st.lists(st.integers(1, 90), min_size=2, max_size=3),
    st.lists(st.integers(1, 90), min_size=3, max_size=3),
)
def test_what_had_another_number_is_found_again(digits: list[int], more: list[int]) -> None:
    names = ["a", "b", "c"][: len(digits)]
    before = {name: {f"{name}1": digit} for name, digit in zip(names, digits, strict=True)}
    after = {
        name: {**before[name], f"{name}2": digit + 90}
        for name, digit in zip(names, more, strict=False)
    }
    parts = {name: servo.DynamicPartitionsDefinition(name=name) for name in names}
    definition = servo.MultiPartitionsDefinition(parts)
    early, late = [KeySpace(definition, NOW, Store(**sets)) for sets in (before, after)]
    key = "|".join(f"{name}1" for name in names)
    number = early.number(key)
    assert number is not None
    assert (early.key(number), early.everything) == (key, 1 << number)
    moved = late.moved(early.fingerprint, early.everything)
    assert moved is not None
    assert late.named(moved) == [key]
    assert early.moved(late.fingerprint, moved) == early.everything


def test_numbers_of_other_partitions_are_unknown() -> None:
    store = Store(customers={"acme": 1}, regions={"eu": 1})
    one = servo.MultiPartitionsDefinition({"customer": CUSTOMERS, "region": REGIONS})
    other = servo.MultiPartitionsDefinition({"client": CUSTOMERS, "region": REGIONS})
    space = KeySpace(one, NOW, store)
    assert space.moved(KeySpace(other, NOW, store).fingerprint, 1) is None
    assert space.moved(KeySpace(DAYS, NOW, None).fingerprint, 1) is None
    assert space.moved(f"{space.fingerprint}x64", 1) is None


def test_a_key_that_there_is_no_room_for_any_more_is_gone() -> None:
    both = servo.MultiPartitionsDefinition({"customer": CUSTOMERS, "day": DAYS})
    early = KeySpace(both, NOW, Store(customers={"acme": 1, "late": 200}))
    late = KeySpace(both, NOW, Store(customers={"acme": 1}))
    kept = late.moved(early.fingerprint, early.everything)
    assert kept == late.everything


def test_mappings_of_numbers_with_gaps_go_by_keys() -> None:
    both = servo.MultiPartitionsDefinition({"customer": CUSTOMERS, "day": DAYS})
    store = Store(customers={"acme": 1, "coil": 3})
    above, below = KeySpace(CUSTOMERS, NOW, store), KeySpace(both, NOW, store)
    mapping = servo.MultiToSingleDimensionPartitionMapping(partition_dimension_name="customer")
    found = mapping_between(above, below, mapping)
    whole = (above.everything, below.everything)
    coil = below.bits(f"coil|2025-01-0{day}" for day in (1, 2, 3))
    assert found.downstream(0b100, whole) == coil
    assert found.upstream(coil, whole) == 0b100


def test_what_others_list_is_numbered_for_this_list() -> None:
    class Mine(servo.PartitionsDefinition):
        def get_partition_keys(
            self, current_time: datetime | None = None, dynamic_partitions_store: object = None
        ) -> list[str]:
            del current_time, dynamic_partitions_store
            return ["x", "y"]

    class Other(Mine):
        def get_partition_keys(
            self, current_time: datetime | None = None, dynamic_partitions_store: object = None
        ) -> list[str]:
            del current_time, dynamic_partitions_store
            return ["y", "x"]

    fields = Named("mine")
    mine, other = KeySpace(Mine(fields), NOW, None), KeySpace(Other(fields), NOW, None)
    assert mine.everything == 0b11
    assert mine.fingerprint != other.fingerprint


def test_a_long_list_of_keys_has_a_short_fingerprint() -> None:
    many = servo.StaticPartitionsDefinition([f"key-{n:04}" for n in range(1_000)])
    assert len(KeySpace(many, NOW, None).fingerprint) <= 200
    assert KeySpace(COLOURS, NOW, None).fingerprint == repr(COLOURS)


@pytest.mark.parametrize("moment", [datetime(2025, 1, 1, 1, tzinfo=UTC), NOW])
def test_before_the_first_window_is_over_nothing_is_late(moment: datetime) -> None:
    space = KeySpace(DAYS, moment, None)
    assert space.latest(moment, timedelta(days=9)) == space.everything
