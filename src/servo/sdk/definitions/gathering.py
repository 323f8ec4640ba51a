"""Load the definitions of modules and packages."""

import inspect
import pkgutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar, cast

import msgspec

from servo.core.keys import AssetKey
from servo.errors import Invalid, NotFound
from servo.sdk.assets.assets_definition import AssetsDefinition
from servo.sdk.assets.specs import AssetSpec, prefix_parts
from servo.sdk.checks.definition import AssetChecksDefinition
from servo.sdk.definitions.jobs import AssetJob
from servo.sdk.definitions.replaced import refuse_replaced
from servo.sdk.partitions.mapping import BackfillPolicy
from servo.sdk.triggers.schedules import PartitionedSchedule, ScheduleDefinition
from servo.sdk.triggers.sensors import AutomationConditionSensorDefinition, SensorDefinition

_AssetLike = AssetsDefinition | AssetSpec

SCHEDULES = (ScheduleDefinition, PartitionedSchedule)
SENSORS = (SensorDefinition, AutomationConditionSensorDefinition)

T = TypeVar("T")


def found_in(module: ModuleType, kind: type[T] | tuple[type[T], ...]) -> list[T]:
    """The objects of a kind at the top level of a module, also inside lists, without duplicates."""
    found: dict[int, T] = {}
    for value in vars(module).values():
        several = isinstance(value, list | tuple)
        for item in cast("Sequence[Any]", value) if several else (value,):
            if isinstance(item, kind):
                found[id(item)] = item
    return list(found.values())


def assets_of(module: ModuleType) -> list[_AssetLike]:
    """The assets at the top level of a module, in the order of the file."""
    refuse_replaced(module)
    return found_in(module, (AssetsDefinition, AssetSpec))


def checks_of(module: ModuleType) -> list[AssetChecksDefinition]:
    """The checks at the top level of a module."""
    return found_in(module, AssetChecksDefinition)


def jobs_of(module: ModuleType) -> list[AssetJob]:
    """The jobs at the top level of a module."""
    return found_in(module, AssetJob)


def schedules_of(module: ModuleType) -> list[Any]:
    """The schedules at the top level of a module."""
    return found_in(module, SCHEDULES)


def sensors_of(module: ModuleType) -> list[Any]:
    """The sensors at the top level of a module."""
    return found_in(module, SENSORS)


# --- assets ---------------------------------------------------------------------------------------


def load_assets_from_modules(
    modules: Iterable[ModuleType],
    group_name: str | None = None,
    key_prefix: Any = None,
    **options: Any,
) -> list[_AssetLike]:
    """Load the assets of several modules.

        Definitions(assets=load_assets_from_modules([orders, customers], group_name="sales"))

    Options:

    - `group_name`: the group of the assets that have none.
    - `key_prefix`: a prefix for all keys; dependencies between the loaded assets follow.
    - `source_key_prefix`: a prefix for the keys of external assets.
    - `automation_condition`, `freshness_policy`, `backfill_policy`: defaults for the assets that
      have none.
    """
    _check_options(options)
    condition = options.get("automation_condition") or options.get("auto_materialize_policy")
    change = _Change(
        group_name=group_name,
        key_prefix=key_prefix,
        source_key_prefix=options.get("source_key_prefix"),
        automation_condition=condition,
        freshness_policy=options.get("freshness_policy"),
        backfill_policy=options.get("backfill_policy"),
    )
    unique = {id(a): a for module in modules for a in assets_of(module)}
    return _changed(list(unique.values()), change)


def load_assets_from_current_module(
    group_name: str | None = None, key_prefix: Any = None, **options: Any
) -> list[_AssetLike]:
    """Load the assets that the calling module has defined so far."""
    return load_assets_from_modules([_caller()], group_name, key_prefix, **options)


def load_assets_from_package_module(
    package_module: ModuleType,
    group_name: str | None = None,
    key_prefix: Any = None,
    **options: Any,
) -> list[_AssetLike]:
    """Load the assets of a package and all its modules."""
    return load_assets_from_modules(walk_package(package_module), group_name, key_prefix, **options)


def load_assets_from_package_name(
    package_name: str, group_name: str | None = None, key_prefix: Any = None, **options: Any
) -> list[_AssetLike]:
    """Load the assets of the package of this name and all its modules."""
    return load_assets_from_package_module(
        _package(package_name), group_name, key_prefix, **options
    )


# --- checks ---------------------------------------------------------------------------------------


def load_asset_checks_from_modules(
    modules: Iterable[ModuleType], **options: Any
) -> list[AssetChecksDefinition]:
    """Load the checks of several modules."""
    _check_options(options)
    unique = {id(check): check for module in modules for check in checks_of(module)}
    return list(unique.values())


def load_asset_checks_from_current_module(**options: Any) -> list[AssetChecksDefinition]:
    """Load the checks that the calling module has defined so far."""
    return load_asset_checks_from_modules([_caller()], **options)


def load_asset_checks_from_package_module(
    package_module: ModuleType, **options: Any
) -> list[AssetChecksDefinition]:
    """Load the checks of a package and all its modules."""
    return load_asset_checks_from_modules(walk_package(package_module), **options)


def load_asset_checks_from_package_name(
    package_name: str, **options: Any
) -> list[AssetChecksDefinition]:
    """Load the checks of the package of this name and all its modules."""
    return load_asset_checks_from_package_module(_package(package_name), **options)


# --- how ------------------------------------------------------------------------------------------

_ACCEPTED = frozenset(
    {
        "automation_condition",
        "auto_materialize_policy",
        "backfill_policy",
        "freshness_policy",
        "include_specs",
        "source_key_prefix",
    }
)


def _check_options(options: Iterable[str]) -> None:
    unknown = sorted(set(options) - _ACCEPTED)
    if unknown:
        raise Invalid(f"there is no option {', '.join(unknown)}", remedy="leave it out")


def walk_package(package: ModuleType) -> Iterator[ModuleType]:
    """Import a package and all its modules, in the order of their names."""
    yield package
    folders = getattr(package, "__path__", None)
    if folders is None:
        raise Invalid(
            f"{package.__name__} is a module, not a package",
            remedy="use the function that ends in _from_modules",
        )
    for found in pkgutil.walk_packages(folders, f"{package.__name__}."):
        yield import_module(found.name)


def _package(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and name.startswith(error.name):
            raise NotFound(
                f"there is no package {name}",
                remedy="check the name, and that the package is installed",
            ) from None
        raise


def _caller() -> ModuleType:
    """The module that called the public function."""
    frame = inspect.currentframe()
    for _ in range(2):
        frame = frame.f_back if frame is not None else None
    name = frame.f_globals.get("__name__") if frame is not None else None
    if name not in sys.modules:
        raise NotFound(
            "the calling module is unknown", remedy="use the function that ends in _from_modules"
        )
    return sys.modules[name]


class _Change(msgspec.Struct, frozen=True, kw_only=True):
    """Defaults for the loaded assets."""

    group_name: str | None = None
    key_prefix: Any = None
    source_key_prefix: Any = None
    automation_condition: Any = None
    freshness_policy: Any = None
    backfill_policy: BackfillPolicy | None = None

    def prefix(self, asset: _AssetLike) -> tuple[str, ...]:
        """The key prefix of an asset; external assets may have a different one."""
        bare = isinstance(asset, AssetSpec) and self.source_key_prefix is not None
        return prefix_parts(self.source_key_prefix if bare else self.key_prefix)


def _changed(assets: Sequence[_AssetLike], change: _Change) -> list[_AssetLike]:
    """The assets with other keys, and the dependencies between them adapted."""
    keys: dict[AssetKey, AssetKey] = {}
    for asset in assets:
        for spec in _specs_of(asset):
            keys[spec.key] = AssetKey([*change.prefix(asset), *spec.key.parts])
    found: list[_AssetLike] = []
    for asset in assets:
        specs = tuple(_changed_spec(spec, keys, change) for spec in _specs_of(asset))
        if isinstance(asset, AssetSpec):
            found += specs
        else:
            inputs = {name: keys.get(key, key) for name, key in asset.input_keys.items()}
            made = asset.with_specs(specs, input_keys=inputs)
            found.append(_backfilled(made, change.backfill_policy))
    return found


def _backfilled(asset: AssetsDefinition, policy: BackfillPolicy | None) -> AssetsDefinition:
    """The asset with a backfill policy, unless it already has one."""
    if policy is not None and asset.behaviour.backfill_policy is None:
        asset.behaviour = msgspec.structs.replace(asset.behaviour, backfill_policy=policy)
    return asset


def _specs_of(asset: _AssetLike) -> tuple[AssetSpec, ...]:
    return (asset,) if isinstance(asset, AssetSpec) else asset.specs


def _changed_spec(spec: AssetSpec, keys: Mapping[AssetKey, AssetKey], change: _Change) -> AssetSpec:
    deps = [
        msgspec.structs.replace(dep, asset=keys.get(dep.asset_key, dep.asset_key))
        for dep in spec.deps
    ]
    return msgspec.structs.replace(
        spec,
        key=keys[spec.key],
        deps=deps,
        group_name=change.group_name or spec.group_name,
        automation_condition=spec.automation_condition or change.automation_condition,
        freshness_policy=spec.freshness_policy or change.freshness_policy,
    )
