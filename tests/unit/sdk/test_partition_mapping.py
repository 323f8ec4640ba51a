"""Mappings between partitions, and how many one run makes."""

from collections.abc import Callable
from typing import Any

import pytest

import servo
from servo.errors import Invalid
from servo.sdk.partitions.definition import (
    DynamicPartitionsDefinition,
    StaticPartitionsDefinition,
)
from servo.sdk.partitions.mapping import (
    AllPartitionMapping,
    BackfillPolicy,
    DimensionPartitionMapping,
    IdentityPartitionMapping,
    MultiPartitionMapping,
    PartitionMapping,
    SpecificPartitionsPartitionMapping,
    StaticPartitionMapping,
    TimeWindowPartitionMapping,
)
from servo.sdk.partitions.mapping_resolution import Moment, edge_between


def test_mappings_are_values() -> None:
    assert TimeWindowPartitionMapping(start_offset=-1) == TimeWindowPartitionMapping(-1, 0)
    assert TimeWindowPartitionMapping() != TimeWindowPartitionMapping(-1)
    assert IdentityPartitionMapping() != AllPartitionMapping()
    assert SpecificPartitionsPartitionMapping(["a"]).partition_keys == ("a",)
    written = StaticPartitionMapping({"a": "x", "b": {"y"}})
    assert written == StaticPartitionMapping({"a": ["x"], "b": ["y"]})
    assert hash(written) == hash(StaticPartitionMapping({"a": ["x"], "b": ["y"]}))
    assert AllPartitionMapping().description == "Depend on all upstream partitions."


def test_a_mapping_goes_with_the_dependency() -> None:
    yesterday = TimeWindowPartitionMapping(start_offset=-1, end_offset=-1)

    @servo.asset(
        ins={"events": servo.AssetIn(partition_mapping=yesterday)},
        deps=[servo.AssetDep("other", partition_mapping=AllPartitionMapping())],
    )
    def report(events: int) -> None: ...

    kept = {dep.asset_key.name: dep.partition_mapping for dep in report.specs[0].deps}
    assert kept == {"events": yesterday, "other": AllPartitionMapping()}


def test_people_may_write_their_own() -> None:
    class Odd(PartitionMapping, frozen=True):
        """Every second one."""

    assert servo.AssetDep("a", partition_mapping=Odd()).partition_mapping == Odd()


def test_a_policy_says_how_many() -> None:
    assert BackfillPolicy.single_run().max_partitions_per_run is None
    assert BackfillPolicy.multi_run() == BackfillPolicy(1)
    assert BackfillPolicy.multi_run(max_partitions_per_run=10) == BackfillPolicy(10)


@pytest.mark.parametrize(
    ("make", "wrong"),
    [
        (lambda: BackfillPolicy.multi_run(0), "max_partitions_per_run is 0"),
        (lambda: TimeWindowPartitionMapping(start_offset=0.5), "start_offset is 0.5"),  # pyright: ignore[reportArgumentType] - that is the point
        (lambda: SpecificPartitionsPartitionMapping([]), "has no keys"),
        (lambda: StaticPartitionMapping(["a"]), "StaticPartitionMapping got"),  # pyright: ignore[reportArgumentType] - that is the point
        (lambda: StaticPartitionMapping({"a": [1]}), "invalid key 1"),
        (lambda: MultiPartitionMapping({"a": AllPartitionMapping()}), "mapping of the dimension a"),  # pyright: ignore[reportArgumentType] - that is the point
        (lambda: DimensionPartitionMapping("a", "all"), "the partition mapping is 'all'"),  # pyright: ignore[reportArgumentType] - that is the point
        (lambda: servo.AssetDep("a", partition_mapping="all"), "AssetDep a: the partition mapping"),
        (lambda: servo.AssetIn(partition_mapping=all), "AssetIn: the partition mapping"),
    ],
)
def test_what_cannot_be_is_refused(make: Callable[[], Any], wrong: str) -> None:
    with pytest.raises(Invalid, match=wrong):
        _ = make()


def test_a_written_mapping_names_keys_that_there_are() -> None:
    up, down = StaticPartitionsDefinition(["a", "b"]), StaticPartitionsDefinition(["x"])
    for pairs, wrong in (({"c": "x"}, "names 'c'"), ({"a": ["x", "z"]}, "names 'z'")):
        with pytest.raises(Invalid, match=wrong):
            _ = edge_between(up, down, StaticPartitionMapping(pairs))
    later = DynamicPartitionsDefinition(name="later")
    edge = edge_between(up, later, StaticPartitionMapping({"a": "z"}), Moment(None, _Nobody()))
    assert edge.downstream_of("a") == []


class _Nobody:
    def get_dynamic_partitions(self, partitions_def_name: str) -> list[str]:
        del partitions_def_name
        return []


def test_nothing_is_made_from_a_partition_that_does_not_exist() -> None:
    up, down = StaticPartitionsDefinition(["a", "b"]), StaticPartitionsDefinition(["a", "x"])
    for mapping in (None, AllPartitionMapping(), SpecificPartitionsPartitionMapping(["a"])):
        assert edge_between(up, down, mapping).downstream_of("x") == []
