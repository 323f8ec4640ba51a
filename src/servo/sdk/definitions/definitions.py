"""`Definitions`: everything that a project defines, in one object."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import Any

from servo.errors import Invalid, NotFound
from servo.sdk.assets.assets_definition import AssetsDefinition, assets_in
from servo.sdk.assets.specs import AssetSpec, to_key
from servo.sdk.checks.definition import AssetChecksDefinition
from servo.sdk.definitions.executors import ExecutorDefinition, check_executor
from servo.sdk.definitions.jobs import AssetJob
from servo.sdk.definitions.project import Project
from servo.sdk.option_kinds import by_name, several
from servo.sdk.resources.secrets import SecretProvider, checked_providers
from servo.sdk.selection.selection import AssetSelection
from servo.sdk.triggers.resolution import add_triggers
from servo.sdk.triggers.schedules import ScheduleDefinition

_AssetLike = AssetsDefinition | AssetSpec

EVERYTHING = "__ASSET_JOB"
"""The name of the implicit job of all assets."""


class Definitions:
    """What a project defines: assets, checks, resources, jobs, schedules and sensors.

        defs = Definitions(
            assets=[orders, report],
            resources={"warehouse": Warehouse(url=EnvVar("WAREHOUSE_URL"))},
            jobs=[define_asset_job("nightly", selection="*")],
        )

    It is optional: without one, Servo takes everything defined at the top level of the module.

    Args:
        assets: assets and asset specs; lists may be nested.
        resources: resources and IO managers by name.
        jobs: the jobs, from `define_asset_job`.
        schedules: the schedules.
        sensors: the sensors.
        asset_checks: the checks, from `@asset_check`, `@multi_asset_check` or `servo.checks`.
        secrets: the providers of secrets, in the order in which they are tried.
        **rest: `executor`, `loggers` and `metadata`.
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
                f"Definitions has no parameter {', '.join(unknown)}",
                remedy="see `help(servo.Definitions)`",
            )
        self.assets: tuple[_AssetLike, ...] = tuple(assets_in(assets or ()))
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
        self.metadata: dict[str, Any] = by_name(rest.get("metadata"), what="Definitions: metadata")

    @staticmethod
    def merge(*others: "Definitions") -> "Definitions":
        """Merge several definitions; a resource may occur twice only if it is the same object."""
        resources: dict[str, Any] = {}
        metadata: dict[str, Any] = {}
        for other in others:
            for name, resource in other.resources.items():
                if resources.setdefault(name, resource) is not resource:
                    raise Invalid(
                        f"the merged Definitions differ in the resource {name!r}",
                        remedy="rename one of the two, or pass the same object to both",
                    )
            for name, said in other.metadata.items():
                if metadata.setdefault(name, said) != said:
                    raise Invalid(
                        f"the merged Definitions differ in the metadata {name!r}",
                        remedy="remove one of the two",
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
            metadata=metadata,
        )

    def project(self) -> Project:
        """The project, with every name resolved."""
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

    def get_implicit_global_asset_job_def(self) -> AssetJob:
        """The job of all assets, which needs no definition."""
        return AssetJob(name=EVERYTHING)

    resolve_implicit_global_asset_job_def = get_implicit_global_asset_job_def

    def get_schedule_def(self, name: str) -> ScheduleDefinition:
        """The schedule of this name."""
        return _named(self.project().schedules, name, "schedule")

    resolve_schedule_def = get_schedule_def

    def get_sensor_def(self, name: str) -> Any:
        """The sensor of this name."""
        return _named(self.project().sensors, name, "sensor")

    resolve_sensor_def = get_sensor_def

    def map_asset_specs(
        self, *, func: Callable[[AssetSpec], AssetSpec], selection: Any = None
    ) -> "Definitions":
        """A copy with `func` applied to the spec of every asset, or every selected one."""
        query = None if selection is None else AssetSelection.from_coercible(selection)
        chosen = None if query is None else query.resolve_inner(self.project())

        def changed(spec: AssetSpec) -> AssetSpec:
            if chosen is not None and spec.key not in chosen:
                return spec
            made: Any = func(spec)
            if made is None or not isinstance(made, AssetSpec):
                raise Invalid(
                    f"func returned {made!r} for {spec.key}", remedy="return an AssetSpec"
                )
            return made

        found = copy(self)
        found.assets = tuple(
            changed(one) if isinstance(one, AssetSpec) else one.map_asset_specs(changed)
            for one in self.assets
        )
        return found

    map_resolved_asset_specs = map_asset_specs

    def get_assets_def(self, key: Any) -> AssetsDefinition:
        """The definition of an asset."""
        found = self.project().makers.get(to_key(key))
        if found is None:
            raise NotFound(
                f"these Definitions have no asset {to_key(key)}",
                remedy="run `servo list` to see the assets",
            )
        return found

    resolve_assets_def = get_assets_def

    def get_all_asset_specs(self) -> list[AssetSpec]:
        """The specs of all assets, upstream assets first."""
        project = self.project()
        return [project.specs[key] for key in project.order]

    resolve_all_asset_specs = get_all_asset_specs

    @staticmethod
    def validate_loadable(defs: "Definitions") -> None:
        """Raise an error if the definitions are not valid."""
        _ = defs.project()


def _named(found: Mapping[str, Any], name: str, what: str) -> Any:
    if name not in found:
        known = ", ".join(sorted(found)) or "none"
        raise NotFound(f"there is no {what} {name!r}", remedy=f"available: {known}")
    return found[name]


def _each(given: Iterable[Any] | None, kind: type[Any], what: str, remedy: str) -> tuple[Any, ...]:
    found = several(given, what=f"Definitions: {what}s")
    for item in found:
        if not isinstance(item, kind):
            raise Invalid(f"{item!r} is not a {what}", remedy=remedy)
    return found


def _only_executor(all_of_them: Sequence[Definitions]) -> ExecutorDefinition | None:
    found = list(dict.fromkeys(one.executor for one in all_of_them if one.executor is not None))
    if len(found) > 1:
        raise Invalid(
            f"the merged Definitions have several executors: {', '.join(e.name for e in found)}",
            remedy="pass executor=… to only one of them",
        )
    return found[0] if found else None
