"""Definitions of partitions: listed, dynamic, and in several dimensions."""

import pickle
from collections.abc import Callable
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

import pytest

import servo
from servo.core.partitions import PartitionKey
from servo.errors import Invalid, NotFound
from servo.planning.partition_choice import key_as_written
from servo.sdk.partitions.context import Partitions
from servo.sdk.partitions.definition import (
    AddDynamicPartitionsRequest,
    DeleteDynamicPartitionsRequest,
    DynamicPartitionsDefinition,
    MultiPartitionKey,
    MultiPartitionsDefinition,
    PartitionKeyRange,
    StaticPartitionsDefinition,
)
from servo.sdk.partitions.time_partitions import (
    DailyPartitionsDefinition,
    HourlyPartitionsDefinition,
)

REGIONS = StaticPartitionsDefinition(["eu", "us", "as"])
DAYS = DailyPartitionsDefinition("2024-01-01", end_date="2024-01-03")
BOTH = MultiPartitionsDefinition({"region": StaticPartitionsDefinition(["eu", "us"]), "day": DAYS})
NOW = datetime(2025, 1, 1, tzinfo=UTC)


def test_listed_partitions_keep_their_order() -> None:
    assert REGIONS.get_partition_keys() == ["eu", "us", "as"]
    assert (REGIONS.get_first_partition_key(), REGIONS.get_last_partition_key()) == ("eu", "as")
    assert REGIONS.get_num_partitions() == 3
    assert REGIONS.has_partition_key("us")
    assert not REGIONS.has_partition_key("mars")


def test_a_range_is_a_part_of_the_list() -> None:
    assert REGIONS.get_partition_keys_in_range(PartitionKeyRange("us", "as")) == ["us", "as"]
    with pytest.raises(Invalid, match="'as' comes after 'eu'"):
        _ = REGIONS.get_partition_keys_in_range(PartitionKeyRange("as", "eu"))
    with pytest.raises(NotFound, match="there is no partition 'mars'"):
        _ = REGIONS.get_partition_keys_in_range(PartitionKeyRange("eu", "mars"))


def test_equal_definitions_are_equal_and_survive_copies() -> None:
    same = StaticPartitionsDefinition(["eu", "us", "as"])
    assert same == REGIONS
    assert hash(same) == hash(REGIONS)
    assert same != StaticPartitionsDefinition(["eu", "as", "us"])
    for definition in (REGIONS, DAYS, BOTH, DynamicPartitionsDefinition(name="customers")):
        assert pickle.loads(pickle.dumps(definition)) == definition
        assert deepcopy(definition) == definition


def test_a_definition_cannot_be_changed() -> None:
    with pytest.raises(AttributeError, match="is immutable"):
        REGIONS.keys = ["eu"]


@pytest.mark.parametrize(
    ("keys", "wrong"),
    [
        ("eu", "the keys are 'eu'"),
        ([], "has no keys"),
        (["eu", "eu"], "duplicate keys eu"),
        (["eu", 3], "invalid key 3"),
        ([""], "invalid key ''"),
        (["a|b"], "invalid key 'a|b'"),
        (["100%"], "contains '%'"),
    ],
)
def test_keys_that_cannot_be_are_refused(keys: Any, wrong: str) -> None:
    with pytest.raises(Invalid, match=wrong.replace("|", r"\|")):
        _ = StaticPartitionsDefinition(keys)


def test_dynamic_partitions_are_where_the_workspace_keeps_them() -> None:
    customers = DynamicPartitionsDefinition(name="customers")

    class Store:
        def get_dynamic_partitions(self, name: str) -> list[str]:
            return [f"{name}-1"]

    assert customers.get_partition_keys(dynamic_partitions_store=Store()) == ["customers-1"]
    with pytest.raises(Invalid, match="are stored in the workspace"):
        _ = customers.get_partition_keys()
    assert customers.build_add_request(["a"]) == AddDynamicPartitionsRequest("customers", ("a",))
    assert customers.build_delete_request(["a"]) == DeleteDynamicPartitionsRequest(
        "customers", ("a",)
    )
    with pytest.raises(Invalid, match="needs a name"):
        _ = DynamicPartitionsDefinition(list)


def test_several_dimensions_have_every_combination() -> None:
    keys = BOTH.get_partition_keys(NOW)
    assert keys == ["2024-01-01|eu", "2024-01-01|us", "2024-01-02|eu", "2024-01-02|us"]
    first = keys[0]
    assert isinstance(first, MultiPartitionKey)
    assert first.keys_by_dimension == {"day": "2024-01-01", "region": "eu"}
    assert pickle.loads(pickle.dumps(first)).keys_by_dimension["region"] == "eu"
    assert BOTH.has_partition_key("2024-01-02|us", NOW)
    for wrong in ("2024-01-02|as", "2024-01-05|eu", "eu|2024-01-02", "eu", "a|b|c"):
        assert not BOTH.has_partition_key(wrong, NOW)


def test_a_key_is_stored_with_its_types() -> None:
    assert REGIONS.typed_key("eu") == PartitionKey.single("eu")
    assert BOTH.typed_key("2024-01-02|us").canonical() == "day=d:2024-01-02,region=s:dXM"
    with pytest.raises(Invalid, match="is not a key of"):
        _ = BOTH.typed_key("us")


@pytest.mark.parametrize(
    ("make", "wrong"),
    [
        (lambda: MultiPartitionsDefinition({"a": REGIONS}), "has 1 dimensions"),
        (lambda: MultiPartitionsDefinition({"a": REGIONS, "B": DAYS}), "cannot name a partition"),
        (lambda: MultiPartitionsDefinition({"a": REGIONS, "b": ["x"]}), "the dimension b is"),  # pyright: ignore[reportArgumentType] - that is the point
        (
            lambda: MultiPartitionsDefinition({"a": REGIONS, "b": BOTH}),
            "is a MultiPartitionsDefinition itself",
        ),
    ],
)
def test_dimensions_that_cannot_be_are_refused(make: Callable[[], Any], wrong: str) -> None:
    with pytest.raises(Invalid, match=wrong):
        _ = make()


def test_an_asset_takes_a_definition_and_nothing_else() -> None:
    @servo.asset(partitions_def=BOTH, backfill_policy=servo.BackfillPolicy.single_run())
    def sales() -> None: ...

    assert sales.specs[0].partitions_def == BOTH
    assert sales.behaviour.backfill_policy == servo.BackfillPolicy(None)
    with pytest.raises(Invalid, match="asset other: partitions_def is 'daily'"):

        @servo.asset(partitions_def="daily")
        def other() -> None: ...


def test_a_partitioned_asset_is_not_made_as_if_it_had_no_partitions() -> None:
    ran: list[str] = []

    @servo.asset(partitions_def=REGIONS, key_prefix="shop")
    def sales() -> None:
        ran.append("sales")

    @servo.asset
    def plain() -> None:
        ran.append("plain")

    with pytest.raises(Invalid, match="no partition was given: shop/sales") as told:
        _ = servo.materialize([sales, plain])
    assert told.value.remedy.endswith('not key:"shop/sales"')
    assert servo.materialize([sales, plain], selection='not key:"shop/sales"').success
    assert ran == ["plain"]


def test_a_range_in_several_dimensions_is_a_range_in_each() -> None:
    between = PartitionKeyRange("2024-01-01|us", "2024-01-02|us")
    assert BOTH.get_partition_keys_in_range(between, NOW) == ["2024-01-01|us", "2024-01-02|us"]
    whole = PartitionKeyRange("2024-01-01|eu", "2024-01-02|us")
    assert BOTH.get_partition_keys_in_range(whole, NOW) == BOTH.get_partition_keys(NOW)
    with pytest.raises(Invalid, match="'us' comes after 'eu'"):
        _ = BOTH.get_partition_keys_in_range(
            PartitionKeyRange("2024-01-01|us", "2024-01-02|eu"), NOW
        )
    with pytest.raises(NotFound, match=r"there is no partition '2024-01-09\|us'"):
        _ = BOTH.get_partition_keys_in_range(
            PartitionKeyRange("2024-01-01|us", "2024-01-09|us"), NOW
        )


STRANGE = (
    "a:b",
    "a/b",
    "a..b",
    "a,b",
    "region=x",
    "a b",
    " ",
    "-x",
    "'\"",
    "ü",
    "日本",
    "🙂",
    "[a]",
)


def test_a_key_may_have_almost_any_character_also_among_dimensions() -> None:
    listed = StaticPartitionsDefinition(STRANGE)
    many = MultiPartitionsDefinition({"day": DAYS, "name": listed})
    for definition, before in ((listed, ""), (many, "2024-01-02|")):
        space = definition.space(NOW)
        for key in STRANGE:
            whole = f"{before}{key}"
            typed = definition.typed_key(whole)
            assert definition.plain_key(typed.canonical()) == whole
            for written in (whole, typed.canonical(), typed.display()):
                assert key_as_written(definition, space, written) == whole


@pytest.mark.parametrize("key", ["a|b", "", "a\0b", "\ud800", "100%", "../x", "a\\b"])
def test_a_character_that_cannot_be_stored_is_told_with_a_remedy(key: str) -> None:
    with pytest.raises(Invalid) as error:
        _ = StaticPartitionsDefinition([key])
    assert error.value.remedy


def test_an_instant_may_be_written_as_it_is_shown() -> None:
    hours = HourlyPartitionsDefinition("2024-01-01-00:00", timezone="Europe/Berlin")
    shown = hours.typed_key("2024-01-05-03:00").display()
    assert shown == "2024-01-05T02:00:00Z"
    assert key_as_written(hours, hours.space(NOW), shown) == "2024-01-05-03:00"
    assert key_as_written(hours, hours.space(NOW), "2024-01-05T02:30:00Z") is None


def test_a_long_list_with_a_key_twice_is_told_at_once_and_in_short() -> None:
    keys = [str(number) for number in range(100_000)]
    with pytest.raises(Invalid, match=r"^StaticPartitionsDefinition: duplicate keys 7"):
        _ = StaticPartitionsDefinition([*keys, "7"])
    with pytest.raises(NotFound) as error:
        StaticPartitionsDefinition(keys).validate_partition_key("x")
    assert len(str(error.value)) < 400
    assert error.value.remedy == "available: '0' to '99999'"


def test_keys_of_time_with_the_mark_between_dimensions_are_refused_there() -> None:
    strange = DailyPartitionsDefinition(datetime(2024, 1, 1, tzinfo=UTC), fmt="%Y|%m|%d")
    with pytest.raises(Invalid, match="the keys of the dimension day contain"):
        _ = MultiPartitionsDefinition({"day": strange, "region": REGIONS})


def test_windows_of_several_dimensions_reach_from_the_first_to_the_last_in_time() -> None:
    both = MultiPartitionsDefinition({"a": StaticPartitionsDefinition(["x", "y"]), "day": DAYS})
    keys = ("x|2024-01-01", "x|2024-01-02", "y|2024-01-01")
    window = Partitions(definition=both, keys=keys).window("it")
    assert (window.start.day, window.end.day) == (1, 3)


def test_a_dynamic_set_that_was_emptied_has_no_partitions_and_says_so() -> None:
    class Empty:
        def get_dynamic_partitions(self, partitions_def_name: str) -> list[str]:
            del partitions_def_name
            return []

    customers = DynamicPartitionsDefinition(name="customers")
    assert customers.get_last_partition_key(dynamic_partitions_store=Empty()) is None
    with pytest.raises(NotFound, match="it has no partitions at the moment"):
        customers.validate_partition_key("acme", dynamic_partitions_store=Empty())
    both = MultiPartitionsDefinition({"customer": customers, "day": DAYS})
    assert both.get_num_partitions(NOW, Empty()) == 0
