"""What the code of a project asks for by name, held against what there is."""

from typing import Any

import pytest

from servo import (
    AssetCheckResult,
    AssetSpec,
    ConfigurableResource,
    Definitions,
    HookContext,
    asset,
    asset_check,
    failure_hook,
    materialize,
    materialize_to_memory,
)
from servo.errors import Invalid
from servo.sdk.definitions.needs import check_config, check_resources, near_misses
from servo.sdk.definitions.project import Project
from servo.sdk.resources.resources import UnknownResource


class Warehouse(ConfigurableResource[Any]):
    url: str = "here"


@asset
def plain() -> None: ...


@asset
def annotated(warehouse: Warehouse) -> None: ...


@asset(required_resource_keys={"warehouse"})
def named(context: Any) -> None: ...


@asset(io_manager_key="warehouse")
def stored() -> int:
    return 1


@asset_check(asset="plain")
def full(warehouse: Warehouse) -> AssetCheckResult:
    return AssetCheckResult(passed=bool(warehouse.url))


def project(*assets: Any, **more: Any) -> Project:
    return Definitions(assets=list(assets), **more).project()


@pytest.mark.parametrize("one", [annotated, named, stored])
def test_a_resource_that_nobody_defines_is_told_with_the_asset_and_its_line(one: Any) -> None:
    (key,) = one.keys
    told = rf"no resource 'warehouse', which asset {key} \(.*test_needs.py:\d+\) needs"
    with pytest.raises(UnknownResource, match=told):
        check_resources(project(one))
    check_resources(project(one, resources={"warehouse": Warehouse()}))


def test_so_is_one_that_a_check_asks_for() -> None:
    with pytest.raises(UnknownResource, match="which the check full of asset plain needs"):
        check_resources(project(plain, asset_checks=[full]))


def test_the_usual_io_manager_needs_no_resource() -> None:
    @asset(io_manager_key="io_manager")
    def usual() -> int:
        return 1

    check_resources(project(plain, usual))
    assert materialize([usual]).output_for_node("usual") == 1


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (
            {"ops": {"plan": {}}},
            "'plan', but the project has no such asset or check; did you mean",
        ),
        ({"ops": {"zebra": {}}}, "name the asset or check that it is for"),
        ({"resources": {"other": {}}}, "'other', but the project has no such resource"),
    ],
)
def test_configuration_for_what_is_not_there_is_refused(config: Any, told: str) -> None:
    with pytest.raises(Invalid, match=told):
        check_config(project(plain, asset_checks=[full]), config)


def test_configuration_by_every_name_that_is_looked_for_is_taken() -> None:
    @asset(key=["shop", "orders"])
    def made() -> None: ...

    there = project(made, plain, asset_checks=[full], resources={"warehouse": Warehouse()})
    names = ["shop/orders", "shop__orders", "full", "plain_full", "plain"]
    check_config(there, {"ops": {name: {} for name in names}, "resources": {"warehouse": {}}})
    check_config(there, {})


@pytest.mark.parametrize("option", ["retry_policy", "backfill_policy"])
def test_a_policy_that_is_none_is_refused_where_it_is_written(option: str) -> None:
    given: dict[str, Any] = {option: 3}
    with pytest.raises(Invalid, match=f"{option} is 3; use "):
        asset(**given)(lambda: None)


def test_a_class_is_no_asset() -> None:
    with pytest.raises(Invalid, match="Orders is a class, not a function"):

        @asset
        class Orders: ...


def test_no_asset_is_offered_to_itself_for_a_parameter_that_is_none() -> None:
    @asset
    def d(db: Any) -> None: ...

    with pytest.raises(Invalid, match="takes 'db', which is not an asset; define it, rename"):
        project(d)


def test_what_is_depended_on_and_nearly_named_like_an_asset_is_remarked() -> None:
    @asset(key=["shop", "orders"])
    def orders() -> None: ...

    @asset(deps=["shop/ordrs", "ordes", "elsewhere", "shop/report2"], key=["shop", "report"])
    def made() -> None: ...

    @asset(deps=[orders])
    def fine() -> None: ...

    near = near_misses(project(orders, made, fine))
    place = f"asset shop.report ({made.where}) depends on"
    told = "which is not defined here; did you mean 'shop.orders'?"
    assert near == [f"{place} 'shop.ordrs', {told}", f"{place} 'ordes', {told}"]


def test_a_spec_is_remarked_on_too() -> None:
    near = near_misses(project(plain, AssetSpec("copy", deps=["plian"])))
    told = (
        "asset copy (a spec) depends on 'plian', which is not defined here; did you mean 'plain'?"
    )
    assert near == [told]


@pytest.mark.parametrize("make", [materialize, materialize_to_memory])
def test_configuration_for_nobody_makes_nothing_in_this_process_either(make: Any) -> None:
    with pytest.raises(Invalid, match="for 'plan', but the project has no such asset or check"):
        make([plain], run_config={"ops": {"plan": {"config": {}}}})
    with pytest.raises(Invalid, match="for 'db', but the project has no such resource"):
        make([plain], run_config={"resources": {"db": {"config": {}}}})


def test_so_is_one_that_a_hook_asks_for() -> None:
    @failure_hook(required_resource_keys={"warehouse"})
    def mourn(context: HookContext) -> None: ...

    @asset(hooks={mourn})
    def mourned() -> None: ...

    with pytest.raises(UnknownResource, match="which the hook mourn of asset mourned"):
        check_resources(project(mourned))
