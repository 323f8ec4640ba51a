"""`asset` and `multi_asset` with Dagster's older option names."""

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

import msgspec

from servo.dagster.auto_materialize import AutoMaterializePolicy
from servo.dagster.config_types import Nothing
from servo.errors import Invalid
from servo.sdk.assets.assets_definition import AssetsDefinition
from servo.sdk.assets.specs import AssetIn, AssetSpec

_Fn = Callable[..., Any]

NOT_ENFORCED = ("dagster_type", "is_virtual", "can_subset_by_default")


def asset(fn: _Fn | None = None, /, **options: Any) -> Any:
    """`servo.asset`, which also accepts Dagster's older options."""
    return _decorated("asset", fn, options)


def multi_asset(**options: Any) -> Any:
    """`servo.multi_asset`, which also accepts Dagster's older options."""
    return _decorated("multi_asset", None, options)


def _decorated(name: str, fn: _Fn | None, options: Mapping[str, Any]) -> Any:
    decorator: Any = getattr(import_module("servo"), name)

    def define(function: _Fn) -> Any:
        given = modern(options, function.__name__)
        kinds = given.pop("kinds", ()) if name == "multi_asset" else ()
        made = decorator(**given)(function)

        def of_kinds(spec: AssetSpec) -> AssetSpec:
            return spec.merge_attributes(kinds=kinds)

        return made.map_asset_specs(of_kinds) if kinds else made

    return define if fn is None else define(fn)


def modern(options: Mapping[str, Any], fn_name: str) -> dict[str, Any]:
    """The options of a decorator under their current names."""
    given = {name: value for name, value in options.items() if name not in NOT_ENFORCED}
    if kind := given.pop("compute_kind", None):
        given["kinds"] = {*(given.get("kinds") or ()), kind}
    if deps := given.pop("non_argument_deps", None):
        given["deps"] = [*(given.get("deps") or ()), *deps]
    if policy := given.pop("auto_materialize_policy", None):
        given["automation_condition"] = _condition(policy)
    if manager := given.pop("io_manager_def", None):
        name = given.setdefault("io_manager_key", f"{given.get('name') or fn_name}_io_manager")
        given["resource_defs"] = {**(given.get("resource_defs") or {}), name: manager}
    return _without_nothing(given)


def _condition(policy: Any) -> Any:
    if not isinstance(policy, AutoMaterializePolicy):
        raise Invalid(
            f"auto_materialize_policy is {policy!r}", remedy="use AutoMaterializePolicy.eager()"
        )
    return policy.to_automation_condition()


def _without_nothing(given: dict[str, Any]) -> dict[str, Any]:
    """Turn inputs of type Nothing into dependencies that are not loaded."""
    ins: Mapping[str, AssetIn] = given.get("ins") or {}
    unread = [name for name, found in ins.items() if found.dagster_type is Nothing]
    if unread:
        given["deps"] = [*(given.get("deps") or ()), *(ins[n].key_for(n) for n in unread)]
        given["ins"] = {name: found for name, found in ins.items() if name not in unread}
    return given


def map_asset_specs(func: Callable[[AssetSpec], AssetSpec], iterable: Iterable[Any]) -> list[Any]:
    """The same assets with `func` applied to each spec."""
    return [
        item.with_specs(tuple(func(spec) for spec in item.specs))
        if isinstance(item, AssetsDefinition)
        else func(item)
        for item in iterable
    ]


def with_resources(
    definitions: Iterable[Any],
    resource_defs: Mapping[str, Any],
    resource_config_by_key: Mapping[str, Any] | None = None,
) -> list[Any]:
    """The same assets with these resources."""
    held = dict(resource_defs)
    for name, config in (resource_config_by_key or {}).items():
        if name not in held:
            raise Invalid(
                f"there is no resource {name!r} to configure",
                remedy="use a name from resource_defs",
            )
        held[name] = held[name].configured(config.get("config", config))
    return [_holding(item, held) for item in definitions]


def _holding(item: Any, resources: Mapping[str, Any]) -> Any:
    if not isinstance(item, AssetsDefinition):
        return item
    made = item.with_specs(item.specs)
    held = {**item.behaviour.resource_defs, **resources}
    made.behaviour = msgspec.structs.replace(item.behaviour, resource_defs=held)
    return made
