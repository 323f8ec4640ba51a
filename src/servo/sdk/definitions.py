"""Everything a project defines, in one place."""

from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, cast

import msgspec

from servo.errors import Invalid
from servo.sdk.assets_definition import AssetsDefinition
from servo.sdk.checks import AssetChecksDefinition
from servo.sdk.project import Project
from servo.sdk.secrets import SecretProvider, checked_providers
from servo.sdk.specs import AssetSpec, prefix_parts

Asset = AssetsDefinition | AssetSpec


class Definitions:
    """What a project defines: assets, and the resources and jobs that go with them.

    A script needs none: without one, everything at the top of a module counts.
    """

    def __init__(  # noqa: PLR0913 - the options people know
        self,
        assets: Iterable[Any] | None = None,
        *,
        resources: Mapping[str, Any] | None = None,
        jobs: Iterable[Any] | None = None,
        schedules: Iterable[Any] | None = None,
        sensors: Iterable[Any] | None = None,
        asset_checks: Iterable[Any] | None = None,
        secrets: Iterable[SecretProvider] | None = None,
        **rest: Any,
    ) -> None:
        accepted = {"executor", "loggers", "metadata", "component_tree"}
        unknown = sorted(set(rest) - accepted)
        if unknown:
            raise Invalid(
                f"Definitions has no {', '.join(unknown)}", remedy="see `help(servo.Definitions)`"
            )
        self.assets: tuple[Asset, ...] = tuple(_flattened(assets or ()))
        self.resources = dict(resources or {})
        self.jobs = tuple(jobs or ())
        self.schedules = tuple(schedules or ())
        self.sensors = tuple(sensors or ())
        self.asset_checks: tuple[AssetChecksDefinition, ...] = tuple(asset_checks or ())
        self.secrets = tuple(checked_providers(secrets or ()))

    @staticmethod
    def merge(*others: "Definitions") -> "Definitions":
        """All of several; a resource may be given twice only if it is the same object."""
        resources: dict[str, Any] = {}
        for other in others:
            for name, resource in other.resources.items():
                if resources.setdefault(name, resource) is not resource:
                    raise Invalid(
                        f"the resource {name!r} is defined twice and differently",
                        remedy="give one of the two another name, or merge the same object",
                    )
        return Definitions(
            [asset for other in others for asset in other.assets],
            resources=resources,
            jobs=[job for other in others for job in other.jobs],
            schedules=[schedule for other in others for schedule in other.schedules],
            sensors=[sensor for other in others for sensor in other.sensors],
            asset_checks=[check for other in others for check in other.asset_checks],
            secrets={id(found): found for other in others for found in other.secrets}.values(),
        )

    def project(self) -> Project:
        """The project with every name resolved."""
        return Project(
            self.assets,
            resources=self.resources,
            checks=self.asset_checks,
            secrets=self.secrets,
        )

    @staticmethod
    def validate_loadable(defs: "Definitions") -> None:
        """Raise what is wrong with it, if anything is."""
        _ = defs.project()


def _flattened(assets: Iterable[Any]) -> Iterable[Asset]:
    for item in assets:
        if isinstance(item, AssetsDefinition | AssetSpec):
            yield item
        elif isinstance(item, Sequence) and not isinstance(item, str):
            yield from _flattened(cast("Sequence[Any]", item))
        else:
            raise Invalid(
                f"{item!r} is no asset", remedy="decorate a function with @asset, or use AssetSpec"
            )


def assets_of(module: ModuleType) -> list[Asset]:
    """The assets that stand at the top of a module, each once, in the order of the file."""
    found: dict[int, Asset] = {}
    for value in vars(module).values():
        several = isinstance(value, list | tuple)
        for item in cast("Sequence[Any]", value) if several else (value,):
            if isinstance(item, AssetsDefinition | AssetSpec):
                found[id(item)] = item
    return list(found.values())


def checks_of(module: ModuleType) -> list[AssetChecksDefinition]:
    """The checks that stand at the top of a module, each once."""
    found = {id(v): v for v in vars(module).values() if isinstance(v, AssetChecksDefinition)}
    return list(found.values())


def load_assets_from_modules(
    modules: Iterable[ModuleType],
    group_name: str | None = None,
    key_prefix: Any = None,
    **options: Any,
) -> list[Asset]:
    """The assets of several modules, in a group or under a prefix if one is given."""
    del options
    unique = {id(a): a for module in modules for a in assets_of(module)}
    return [regrouped(a, group_name=group_name, key_prefix=key_prefix) for a in unique.values()]


def regrouped(asset: Asset, *, group_name: str | None = None, key_prefix: Any = None) -> Asset:
    """The same asset in another group, or with a prefix before its key."""
    specs = (asset,) if isinstance(asset, AssetSpec) else asset.specs
    changed = tuple(_regrouped(spec, group_name, key_prefix) for spec in specs)
    return changed[0] if isinstance(asset, AssetSpec) else asset.with_specs(changed)


def _regrouped(spec: AssetSpec, group_name: str | None, key_prefix: Any) -> AssetSpec:
    key = type(spec.key)([*prefix_parts(key_prefix), *spec.key.parts])
    group = group_name if group_name is not None else spec.group_name
    return msgspec.structs.replace(spec, key=key, group_name=group)
