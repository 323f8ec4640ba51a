"""Everything a project defines, in one place."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from servo.errors import Invalid, NotFound
from servo.sdk.assets_definition import AssetsDefinition
from servo.sdk.checks import AssetChecksDefinition
from servo.sdk.executors import ExecutorDefinition, check_executor
from servo.sdk.jobs import AssetJob
from servo.sdk.option_kinds import by_name, several
from servo.sdk.project import Project
from servo.sdk.secrets import SecretProvider, checked_providers
from servo.sdk.specs import AssetSpec, to_key
from servo.sdk.triggers import add_triggers

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
        self.assets: tuple[Asset, ...] = tuple(assets_in(assets or ()))
        self.resources = by_name(resources, what="Definitions: resources")
        self.jobs: tuple[AssetJob, ...] = _each(jobs, AssetJob, "job", "use define_asset_job(…)")
        self.schedules = several(schedules, what="Definitions: schedules")
        self.sensors = several(sensors, what="Definitions: sensors")
        self.asset_checks: tuple[AssetChecksDefinition, ...] = _each(
            asset_checks, AssetChecksDefinition, "check", "decorate a function with @asset_check"
        )
        self.secrets = tuple(checked_providers(secrets or ()))
        self.executor = check_executor(rest.get("executor"), what="Definitions")
        self.loggers: dict[str, Any] = by_name(rest.get("loggers"), what="Definitions: loggers")

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
            executor=_only_executor(others),
            loggers={name: log for other in others for name, log in other.loggers.items()},
        )

    def project(self) -> Project:
        """The project with every name resolved."""
        made = Project(
            self.assets,
            resources=self.resources,
            checks=self.asset_checks,
            jobs=self.jobs,
            secrets=self.secrets,
        )
        made.executor = self.executor
        add_triggers(made, self.schedules, self.sensors)
        return made

    def get_job_def(self, name: str) -> AssetJob:
        """The job of this name."""
        return self.project().job(name)

    resolve_job_def = get_job_def

    def get_assets_def(self, key: Any) -> AssetsDefinition:
        """The definition that makes an asset."""
        found = self.project().makers.get(to_key(key))
        if found is None:
            raise NotFound(f"nothing here makes {to_key(key)}", remedy="see `servo list`")
        return found

    resolve_assets_def = get_assets_def

    def get_all_asset_specs(self) -> list[AssetSpec]:
        """What is said of every asset, in the order of the graph."""
        project = self.project()
        return [project.specs[key] for key in project.order]

    resolve_all_asset_specs = get_all_asset_specs

    @staticmethod
    def validate_loadable(defs: "Definitions") -> None:
        """Raise what is wrong with it, if anything is."""
        _ = defs.project()


def _each(given: Iterable[Any] | None, kind: type[Any], what: str, remedy: str) -> tuple[Any, ...]:
    found = several(given, what=f"Definitions: {what}s")
    for item in found:
        if not isinstance(item, kind):
            raise Invalid(f"{item!r} is no {what}", remedy=remedy)
    return found


def _only_executor(all_of_them: Sequence[Definitions]) -> ExecutorDefinition | None:
    found = list(dict.fromkeys(one.executor for one in all_of_them if one.executor is not None))
    if len(found) > 1:
        raise Invalid(
            f"there are two executors: {', '.join(e.name for e in found)}",
            remedy="give one to the merged Definitions",
        )
    return found[0] if found else None


def assets_in(assets: Iterable[Any]) -> Iterable[Asset]:
    """Every asset of a list that may hold lists; `Invalid` for what is none."""
    one = isinstance(assets, AssetsDefinition | AssetSpec)
    for item in [assets] if one else several(assets, what="the list of assets"):
        if isinstance(item, AssetsDefinition | AssetSpec):
            yield item
        elif isinstance(item, Sequence) and not isinstance(item, str):
            yield from assets_in(cast("Sequence[Any]", item))
        else:
            raise Invalid(
                f"{item!r} is no asset", remedy="decorate a function with @asset, or use AssetSpec"
            )
