"""`Definitions`, and the assets of modules."""

from types import ModuleType
from typing import Any

import pytest

from servo import (
    AssetKey,
    AssetSpec,
    Definitions,
    SensorDefinition,
    asset,
    define_asset_job,
    load_assets_from_modules,
)
from servo.code.loader import project_of
from servo.errors import Invalid
from servo.sdk.assets.assets_definition import AssetsDefinition


def made(name: str, **options: Any) -> AssetsDefinition:
    def fn() -> None: ...

    return asset(name=name, **options)(fn)


def module(**values: Any) -> ModuleType:
    found = ModuleType("shop")
    vars(found).update(values)
    return found


def test_a_module_defines_the_assets_at_its_top() -> None:
    project = project_of(module(a=made("a"), several=[made("b"), made("c")], spec=AssetSpec("d")))
    assert [str(key) for key in project.order] == ["a", "b", "c", "d"]


def test_a_module_with_definitions_defines_those() -> None:
    defs = Definitions([made("a"), [made("b")]], resources={"r": 1})
    project = project_of(module(defs=defs, other=made("c")))
    assert [str(key) for key in project.order] == ["a", "b"]
    assert project.resources == {"r": 1}


def test_two_definitions_in_a_module_are_refused() -> None:
    with pytest.raises(Invalid, match="2 Definitions"):
        project_of(module(one=Definitions(), two=Definitions()))


def test_an_empty_module_is_refused() -> None:
    with pytest.raises(Invalid, match="defines no assets"):
        project_of(module())


def test_definitions_are_merged_and_resources_must_agree() -> None:
    shared = object()
    looks = SensorDefinition(name="looks", evaluation_fn=lambda: None)
    one = Definitions([made("a")], resources={"db": shared}, jobs=[define_asset_job("j")])
    two = Definitions([made("b")], resources={"db": shared}, sensors=[looks])
    both = Definitions.merge(one, two)
    assert [str(key) for key in both.project().order] == ["a", "b"]
    assert [job.name for job in both.jobs] == ["j"]
    assert (both.sensors, both.resources) == ((looks,), {"db": shared})
    with pytest.raises(Invalid, match="differ in the resource 'db'"):
        Definitions.merge(one, Definitions(resources={"db": object()}))


def test_assets_of_modules_can_get_a_group_and_a_prefix() -> None:
    loaded = load_assets_from_modules(
        [module(a=made("a")), module(b=AssetSpec("b"))], group_name="raw", key_prefix="shop"
    )
    project = Definitions(loaded).project()
    assert project.order == [AssetKey(["shop", "a"]), AssetKey(["shop", "b"])]
    assert {definition.group for definition in project.definitions()} == {"raw"}


@pytest.mark.parametrize(
    ("options", "why"), [({"colour": 1}, "no parameter colour"), ({"assets": [1]}, "1 is")]
)
def test_what_is_no_part_of_a_project_is_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(Invalid, match=why):
        Definitions(**options)
