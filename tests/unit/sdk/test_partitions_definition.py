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
from servo.sdk.partitions_definition import (
    AddDynamicPartitionsRequest,
    DeleteDynamicPartitionsRequest,
    DynamicPartitionsDefinition,
    MultiPartitionKey,
    MultiPartitionsDefinition,
    PartitionKeyRange,
    StaticPartitionsDefinition,
)
from servo.sdk.time_partitions import DailyPartitionsDefinition

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
        assert pickle.loads(pickle.dumps(definition)) == definition  # noqa: S301 - our own bytes
        assert deepcopy(definition) == definition


def test_a_definition_cannot_be_changed() -> None:
    with pytest.raises(AttributeError, match="cannot be changed"):
        REGIONS.keys = ["eu"]


@pytest.mark.parametrize(
    ("keys", "wrong"),
    [
        ("eu", "the keys are 'eu'"),
        ([], "there is no key"),
        (["eu", "eu"], "eu more than once"),
        (["eu", 3], "3 is no key"),
        ([""], "'' is no key"),
        (["a|b"], "'a|b' is no key"),
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
    with pytest.raises(Invalid, match="are in a workspace"):
        _ = customers.get_partition_keys()
    assert customers.build_add_request(["a"]) == AddDynamicPartitionsRequest("customers", ("a",))
    assert customers.build_delete_request(["a"]) == DeleteDynamicPartitionsRequest(
        "customers", ("a",)
    )
    with pytest.raises(Invalid, match="has no name"):
        _ = DynamicPartitionsDefinition(list)


def test_several_dimensions_have_every_combination() -> None:
    keys = BOTH.get_partition_keys(NOW)
    assert keys == ["2024-01-01|eu", "2024-01-01|us", "2024-01-02|eu", "2024-01-02|us"]
    first = keys[0]
    assert isinstance(first, MultiPartitionKey)
    assert first.keys_by_dimension == {"day": "2024-01-01", "region": "eu"}
    assert pickle.loads(pickle.dumps(first)).keys_by_dimension["region"] == "eu"  # noqa: S301 - our own bytes
    assert BOTH.has_partition_key("2024-01-02|us", NOW)
    for wrong in ("2024-01-02|as", "2024-01-05|eu", "eu|2024-01-02", "eu", "a|b|c"):
        assert not BOTH.has_partition_key(wrong, NOW)


def test_a_key_is_stored_with_its_types() -> None:
    assert REGIONS.typed_key("eu") == PartitionKey.single("eu")
    assert BOTH.typed_key("2024-01-02|us").canonical() == "day=d:2024-01-02,region=s:dXM"
    with pytest.raises(Invalid, match="is no key of"):
        _ = BOTH.typed_key("us")


@pytest.mark.parametrize(
    ("make", "wrong"),
    [
        (lambda: MultiPartitionsDefinition({"a": REGIONS}), "has 1 dimensions"),
        (lambda: MultiPartitionsDefinition({"a": REGIONS, "B": DAYS}), "cannot name a partition"),
        (lambda: MultiPartitionsDefinition({"a": REGIONS, "b": ["x"]}), "the dimension b is"),  # pyright: ignore[reportArgumentType] - that is the point
        (lambda: MultiPartitionsDefinition({"a": REGIONS, "b": BOTH}), "several dimensions itself"),
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

    with pytest.raises(Invalid, match="none was named: shop/sales") as told:
        _ = servo.materialize([sales, plain])
    assert told.value.remedy.endswith('not key:"shop/sales"')
    assert servo.materialize([sales, plain], selection='not key:"shop/sales"').success
    assert ran == ["plain"]
