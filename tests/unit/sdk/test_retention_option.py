"""What assets may say about how long their data is kept."""

from datetime import timedelta
from typing import Any

import pytest

from servo import AssetOut, AssetSpec, Retention, asset, multi_asset
from servo.core.events.assets import AssetDefinition
from servo.errors import Invalid
from servo.sdk.assets.assets_definition import AssetsDefinition
from servo.sdk.definitions.project import Project


def kept(*assets: AssetsDefinition | AssetSpec) -> dict[str, tuple[int | None, int | None]]:
    """What a deployment says of the retention of each asset."""
    found: tuple[AssetDefinition, ...] = Project(list(assets)).definitions()
    return {one.asset_key: (one.retention_versions, one.retention_age_ms) for one in found}


def test_an_asset_without_a_retention_keeps_everything() -> None:
    @asset
    def a() -> int:
        return 1

    assert kept(a) == {"a": (None, None)}


def test_the_retention_of_an_asset_is_deployed() -> None:
    @asset(retention=Retention(versions=3, age=timedelta(days=30)))
    def a() -> int:
        return 1

    @asset(retention=Retention(age=timedelta(milliseconds=1.5)))
    def b() -> int:
        return 1

    assert kept(a, b) == {"a": (3, 30 * 86_400_000), "b": (None, 1)}


def test_a_function_of_several_assets_has_a_retention_for_each() -> None:
    @multi_asset(outs={"a": AssetOut(retention=Retention(versions=2)), "b": AssetOut()})
    def both() -> tuple[int, int]:
        return 1, 2

    @multi_asset(specs=[AssetSpec("c", retention=Retention(versions=4))])
    def specified() -> None: ...

    assert kept(both, specified) == {"a": (2, None), "b": (None, None), "c": (4, None)}


def test_a_spec_hands_its_retention_on() -> None:
    spec = AssetSpec("a", retention=Retention(versions=2))
    assert AssetOut.from_spec(spec).retention == Retention(versions=2)
    assert spec.merge_attributes(tags={"x": "y"}).retention == Retention(versions=2)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, r"Retention\(\) has neither versions nor age; pass versions=3 or"),
        ({"versions": 0}, "versions is 0; use a whole number of at least 1"),
        ({"versions": 1.5}, "versions is 1.5; use a whole number"),
        ({"versions": True}, "versions is True; use a whole number"),
        ({"age": 30}, r"age is 30; use a timedelta, such as age=timedelta\(days=30\)"),
        ({"age": timedelta(0)}, "age is 0:00:00; use more than 0"),
        ({"age": timedelta(days=-1)}, "use more than 0"),
        ({"age": timedelta.max}, "at most 1000 years"),
    ],
)
def test_a_retention_that_means_nothing_is_refused(options: Any, says: str) -> None:
    with pytest.raises(Invalid, match=says):
        Retention(**options)


@pytest.mark.parametrize("given", [3, timedelta(days=1), {"versions": 3}])
def test_what_is_no_retention_is_refused_with_how_to_write_one(given: Any) -> None:
    with pytest.raises(Invalid, match=r"asset a: retention is .*use Retention"):
        AssetSpec("a", retention=given)


def test_a_retention_of_what_an_io_manager_stores_is_refused() -> None:
    @asset(retention=Retention(versions=1), io_manager_key="lake")
    def a() -> int:
        return 1

    @asset(retention=Retention(versions=1))
    def b() -> int:
        return 1

    with pytest.raises(
        Invalid, match=r"asset a .* the IO manager 'lake' stores its outputs; remove the"
    ):
        Project([a])
    with pytest.raises(Invalid, match=r"asset b .* the IO manager 'io_manager' stores it"):
        Project([b], resources={"io_manager": object()})


def test_the_usual_io_manager_named_where_there_is_none_stores_nothing() -> None:
    @asset(retention=Retention(versions=1), io_manager_key="io_manager")
    def a() -> int:
        return 1

    assert kept(a) == {"a": (1, None)}
