"""Definitions and mappings as a deployment tells them."""

from typing import Any

import pytest

import servo
from servo.errors import Invalid
from servo.ledger.paths import Paths, execution_of
from servo.sdk.definitions.project import Project
from servo.sdk.partitions.definition import PartitionsDefinition
from servo.sdk.partitions.mapping import PartitionMapping
from servo.sdk.partitions.mapping_text import mapping_from_text, mapping_text
from servo.sdk.partitions.text import partitions_from_text, partitions_text

DAYS = servo.DailyPartitionsDefinition("2024-01-01", end_date="2024-02-01", end_offset=1)


class Odd(PartitionMapping, frozen=True):
    """Known to this file."""

    def upstream_keys(self, key: str, upstream: Any, downstream: Any) -> list[str]:
        del upstream, downstream
        return [key]


@pytest.mark.parametrize(
    "mapping",
    [
        servo.IdentityPartitionMapping(),
        servo.AllPartitionMapping(),
        servo.LastPartitionMapping(),
        servo.SpecificPartitionsPartitionMapping(["a", "b"]),
        servo.TimeWindowPartitionMapping(),
        servo.TimeWindowPartitionMapping(-2, 1, allow_nonexistent_upstream_partitions=True),
        servo.StaticPartitionMapping({"a": "x", "b": ["x", "y"]}),
        servo.MultiToSingleDimensionPartitionMapping(),
        servo.MultiToSingleDimensionPartitionMapping("day"),
        servo.MultiPartitionMapping(
            {"day": servo.DimensionPartitionMapping("time", servo.TimeWindowPartitionMapping(-1))}
        ),
    ],
)
def test_a_mapping_is_made_again_from_its_text(mapping: PartitionMapping) -> None:
    text = mapping_text(mapping)
    assert mapping_from_text(text) == mapping
    assert mapping_text(mapping_from_text(text)) == text


def test_what_only_code_knows_is_told_as_that() -> None:
    class Own(PartitionsDefinition):
        def __init__(self) -> None: ...

    assert mapping_text(Odd()) == '{"kind":"custom","name":"Odd"}'
    with pytest.raises(Invalid, match=r"'custom' \(Odd\) exist only in the code"):
        _ = mapping_from_text(mapping_text(Odd()))
    assert partitions_text(Own()) == '{"kind":"custom","name":"Own"}'
    with pytest.raises(Invalid, match=r"'custom' \(Own\) exist only in the code"):
        _ = partitions_from_text(partitions_text(Own()))


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"kind":"static"}', '{"kind":"multi"}'])
def test_texts_that_mean_nothing_are_refused(text: str) -> None:
    with pytest.raises(Invalid):
        _ = partitions_from_text(text)
    with pytest.raises(Invalid):
        _ = mapping_from_text(text)


def test_a_deployment_tells_how_assets_are_divided_and_mapped() -> None:
    yesterday = servo.TimeWindowPartitionMapping(-1, -1)

    @servo.asset(partitions_def=DAYS)
    def raw() -> int: ...

    @servo.asset(partitions_def=DAYS, ins={"raw": servo.AssetIn(partition_mapping=yesterday)})
    def late(raw: int) -> int: ...

    @servo.asset
    def plain() -> int: ...

    told = {one.asset_key: one for one in Project([raw, late, plain]).definitions()}
    assert partitions_from_text(told["raw"].partitions) == DAYS
    assert told["plain"].partitions == ""
    assert partitions_from_text("") is None
    mapping = '{"end_offset":-1,"kind":"time_window","start_offset":-1}'
    assert told["late"].partition_mappings == {"raw": mapping}
    assert told["raw"].partition_mappings == {}


def test_the_folder_of_a_further_partition_names_its_execution() -> None:
    paths = Paths("acme", "prod")
    folders = [paths.output("shop/sales", "x1", part) for part in (0, 1, 12)]
    assert [folder.rpartition("assets/")[2] for folder in folders] == [
        "shop/sales/x1/",
        "shop/sales/x1+1/",
        "shop/sales/x1+12/",
    ]
    assert {execution_of(folder) for folder in folders} == {"x1"}
