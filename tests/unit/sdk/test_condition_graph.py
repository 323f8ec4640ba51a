"""Conditions of a project: which sensor evaluates them, and over which partitions."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import pytest

import servo
from servo import AutomationCondition as A
from servo.core.automation.spaces import EVERYTHING, SAME
from servo.errors import Invalid
from servo.sdk.automation.graph import DEFAULT_SENSOR, conditions_of, divided
from servo.sdk.automation.spaces import KeySpace, mapping_between
from servo.sdk.definitions.project import Project
from servo.sdk.partitions.mapping_resolution import WHOLE, edge_between

NOW = datetime(2025, 1, 4, 12, tzinfo=UTC)
DAYS = servo.DailyPartitionsDefinition(start_date="2025-01-01")
WEEKS = servo.WeeklyPartitionsDefinition(start_date="2024-12-29")
COLOURS = servo.StaticPartitionsDefinition(["red", "green", "blue"])


class Store:
    """Dynamic partitions with their numbers."""

    def __init__(self, **sets: Mapping[str, int]) -> None:
        self._sets = sets

    def get_dynamic_partitions(self, partitions_def_name: str) -> Sequence[str]:
        return list(self._sets[partitions_def_name])

    def dynamic_numbers(self, partitions_def_name: str) -> Mapping[str, int]:
        return self._sets[partitions_def_name]


def project(*names: str) -> Project:
    def made() -> None: ...

    assets = [servo.asset(name=name, automation_condition=A.eager())(made) for name in names]
    outside = servo.AssetSpec("plain", automation_condition=A.eager())
    return servo.Definitions([*assets, outside]).project()


def sensor(name: str, target: str) -> servo.AutomationConditionSensorDefinition:
    return servo.AutomationConditionSensorDefinition(name, target=target)


def space(definition: servo.PartitionsDefinition, store: object = None) -> KeySpace:
    return KeySpace(definition, NOW, store)


def test_what_no_sensor_names_is_for_the_default_one() -> None:
    found = divided(project("a", "b", "c"), [sensor("mine", "b"), sensor("none", "plain")])
    assert {name: [str(key) for key in keys] for name, keys in found.items()} == {
        "mine": ["b"],
        "none": [],
        DEFAULT_SENSOR: ["a", "c"],
    }
    assert divided(project(), []) == {}
    whole = divided(project("a", "b"), [sensor("all", "*")])
    assert list(whole) == ["all"]


def test_two_sensors_of_one_condition_are_told() -> None:
    with pytest.raises(Invalid, match="one and two both evaluate the condition of a"):
        _ = divided(project("a"), [sensor("one", "a"), sensor("two", "*")])


def test_a_sensor_of_conditions_is_a_sensor_of_a_project() -> None:
    mine = sensor("mine", "*")
    assert servo.Definitions([servo.AssetSpec("a")], sensors=[mine]).sensors == (mine,)


def test_listed_partitions_are_numbered_by_their_place() -> None:
    found = space(COLOURS)
    assert found.universe(NOW) == 0b111
    assert found.next_change(NOW) is None
    assert found.latest(NOW, None) == 0b111
    stored = COLOURS.typed_key("green").canonical()
    assert (found.bit_of(stored), found.bit_of("nothing")) == (0b010, 0)
    assert (found.key(2), found.key(3), found.number("mauve")) == ("blue", None, None)


def test_time_brings_the_next_window_and_the_latest() -> None:
    found = space(DAYS)
    assert found.next_change(NOW) == datetime(2025, 1, 5, tzinfo=UTC)
    assert found.latest(NOW, None) == 0b100
    assert found.latest(NOW, timedelta(days=2)) == 0b110
    early = KeySpace(DAYS, datetime(2025, 1, 1, 1, tzinfo=UTC), None)
    assert early.latest(datetime(2025, 1, 1, 1, tzinfo=UTC), None) == 0


def test_of_several_dimensions_time_counts() -> None:
    both = servo.MultiPartitionsDefinition({"day": DAYS, "colour": COLOURS})
    found = space(both)
    latest = found.named(found.latest(NOW, None))
    assert len(latest) == 3
    assert all("2025-01-03" in key for key in latest)
    assert found.next_change(NOW) == datetime(2025, 1, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("mapping", "above", "below"),
    [
        (servo.LastPartitionMapping(), "blue", "red green blue"),
        (servo.SpecificPartitionsPartitionMapping(["red", "gone"]), "red", "red green blue"),
        (servo.StaticPartitionMapping({"red": ["green", "blue"]}), "red", "green blue"),
    ],
)
def test_mappings_go_both_ways(mapping: servo.PartitionMapping, above: str, below: str) -> None:
    colours = space(COLOURS)
    found = mapping_between(colours, colours, mapping)
    whole = (colours.universe(NOW), colours.universe(NOW))
    up, down = colours.bits(above.split()), colours.bits(below.split())
    assert found.downstream(up, whole) == down
    assert found.downstream(whole[0] & ~up, whole) == 0
    assert found.upstream(down, whole) == up


class OnlyGreen(servo.PartitionMapping, frozen=True):
    """A mapping of the user's own."""

    def upstream_keys(self, key: str, upstream: object, downstream: object) -> list[str]:
        del key, upstream, downstream
        return ["green"]


@pytest.mark.parametrize(
    ("mapping", "above"),
    [
        (None, "red green blue"),
        (servo.AllPartitionMapping(), "red green blue"),
        (servo.LastPartitionMapping(), "blue"),
        (servo.SpecificPartitionsPartitionMapping(["red", "gone"]), "red"),
        (OnlyGreen(), "green"),
    ],
)
@pytest.mark.parametrize("numbers", [None, {"red": 1, "green": 3, "blue": 4}])
def test_an_unpartitioned_asset_depends_on_the_partitions_that_the_planner_reads(
    mapping: servo.PartitionMapping | None, above: str, numbers: dict[str, int] | None
) -> None:
    dynamic = servo.DynamicPartitionsDefinition(name="colours")
    definition = COLOURS if numbers is None else dynamic
    colours = KeySpace(definition, NOW, Store(colours=numbers or {}))
    found = mapping_between(colours, None, mapping)
    whole, up = (colours.everything, 1), colours.bits(above.split())
    assert (found.downstream(up, whole), found.upstream(1, whole)) == (1, up)
    assert (found.downstream(whole[0] & ~up, whole), found.upstream(0, whole)) == (0, 0)
    edge = edge_between(definition, None, mapping, colours.moment)
    assert edge.upstream_of(WHOLE).keys == above.split()


def test_a_mapping_that_needs_partitions_names_the_asset_that_has_none() -> None:
    @servo.asset(partitions_def=COLOURS)
    def paint() -> None: ...

    @servo.asset(deps=[servo.AssetDep("paint", servo.IdentityPartitionMapping())])
    def picture() -> None: ...

    wanted = "picture depends on paint: IdentityPartitionMapping maps to an asset without"
    with pytest.raises(Invalid, match=wanted):
        _ = conditions_of(servo.Definitions([paint, picture]).project(), NOW)


def test_an_input_found_by_its_name_in_the_group_keeps_its_mapping() -> None:
    @servo.asset(key_prefix="art", partitions_def=COLOURS)
    def paint() -> int:
        return 1

    @servo.asset(key_prefix="art", ins={"paint": servo.AssetIn(partition_mapping=OnlyGreen())})
    def picture(paint: int) -> int:
        return paint

    graph = conditions_of(servo.Definitions([paint, picture]).project(), NOW).graph
    (dependency,) = graph.assets["art/picture"].deps
    assert dependency.mapping.upstream(1, (0b111, 1)) == 0b010


def test_windows_that_overlap_belong_together() -> None:
    days, weeks = space(DAYS), KeySpace(WEEKS, datetime(2025, 1, 6, tzinfo=UTC), None)
    found = mapping_between(days, weeks, None)
    whole = (days.universe(NOW), weeks.universe(NOW))
    assert found.upstream(0b1, whole) == 0b111
    assert found.downstream(0b10, whole) == 0b1
    shifted = mapping_between(days, days, servo.TimeWindowPartitionMapping(-1, -1))
    both = (0b111, 0b111)
    assert (shifted.upstream(0b111, both), shifted.downstream(0b1, both)) == (0b11, 0b10)
    late = space(servo.DailyPartitionsDefinition(start_date="2025-01-03"))
    assert mapping_between(late, days, None).upstream(0b1, (0b1, 0b111)) == 0


def test_equal_partitions_are_the_same_and_one_asset_is_everything() -> None:
    days, colours = space(DAYS), space(COLOURS)
    assert mapping_between(days, space(DAYS), None) is SAME
    assert mapping_between(colours, space(COLOURS), servo.IdentityPartitionMapping()) is SAME
    assert mapping_between(days, colours, servo.AllPartitionMapping()) is EVERYTHING
    assert mapping_between(None, colours, None) is EVERYTHING
    assert mapping_between(colours, None, None) is EVERYTHING
    fewer = space(servo.StaticPartitionsDefinition(["green"]))
    some = mapping_between(colours, fewer, None)
    assert some.upstream(0b1, (0b111, 0b1)) == colours.bits(["green"])


def test_a_mapping_that_cannot_be_followed_is_told() -> None:
    strange = servo.MultiToSingleDimensionPartitionMapping()
    with pytest.raises(Invalid, match="use it where exactly one side has several dimensions"):
        _ = mapping_between(space(DAYS), space(COLOURS), strange)


def test_dependencies_that_one_run_can_make_are_together() -> None:
    @servo.asset(partitions_def=DAYS)
    def above() -> None: ...

    @servo.asset(partitions_def=DAYS, deps=[above])
    def below() -> None: ...

    @servo.asset(deps=[above, servo.AssetSpec("outside")])
    def whole() -> None: ...

    made = servo.Definitions([above, below, whole, servo.AssetSpec("outside")]).project()
    graph = conditions_of(made, NOW).graph
    together = {(a.key, dep.key): dep.together for a in graph.assets.values() for dep in a.deps}
    assert together == {
        ("below", "above"): True,
        ("whole", "above"): False,
        ("whole", "outside"): False,
    }
