"""All assets of a project, with every name resolved; mistakes are reported with file and line."""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from servo.core.events.assets import AssetDefinition
from servo.core.graph import topological_order
from servo.core.keys import AssetKey
from servo.core.retry import RetryRules
from servo.errors import Invalid, NotFound
from servo.sdk.assets.assets_definition import AssetsDefinition
from servo.sdk.assets.freshness import stored_policy
from servo.sdk.assets.retries import stored_policy as stored_retries
from servo.sdk.assets.specs import IO_MANAGER_KEY, AssetDep, AssetSpec
from servo.sdk.checks.binding import BoundCheck, CheckIndex
from servo.sdk.checks.definition import AssetChecksDefinition
from servo.sdk.definitions.executors import ExecutorDefinition
from servo.sdk.partitions.mapping import PartitionMapping
from servo.sdk.partitions.mapping_text import mapping_text
from servo.sdk.partitions.text import partitions_text
from servo.sdk.resources.secrets import SecretProvider, checked_providers

if TYPE_CHECKING:
    from servo.sdk.definitions.jobs import AssetJob
    from servo.sdk.triggers.schedules import ScheduleDefinition

DEFAULT_IO_MANAGER = "io_manager"
"""The IO manager of every asset that names no other, if it is defined."""

RENAME = "define it, rename the parameter, or annotate it with the class of a resource"


class Project:
    """What a file, a module or a `Definitions` defines."""

    executor: ExecutorDefinition | None = None
    default_retry: RetryRules | None = None
    """The retry policy of assets that have none, from the project file."""

    def __init__(
        self,
        assets: Iterable[AssetsDefinition | AssetSpec],
        *,
        resources: Mapping[str, Any] | None = None,
        checks: Iterable[AssetChecksDefinition] = (),
        jobs: Iterable["AssetJob"] = (),
        secrets: Iterable[SecretProvider] = (),
    ) -> None:
        self.resources = dict(resources or {})
        self.secrets = checked_providers(secrets)
        self.makers: dict[AssetKey, AssetsDefinition] = {}
        self.specs: dict[AssetKey, AssetSpec] = {}
        for item in assets:
            self._add(item)
        for key, maker in self.makers.items():
            self._check_retention(key, maker)
        self.inputs = {
            key: self._inputs(maker.specs[0].key, maker) for key, maker in self.makers.items()
        }
        self.mappings: dict[AssetKey, dict[AssetKey, PartitionMapping]] = {}
        self.upstream = {key: self._upstream(key) for key in self.specs}
        self.order = self._ordered()
        self.check_index = CheckIndex(self.order, self.inputs, self.upstream, self.makers.values())
        for check in checks:
            self.check_index.add(check)
            self._bring(check, check.options.resource_defs)
        self.schedules: dict[str, ScheduleDefinition] = {}
        self.sensors: dict[str, Any] = {}
        self.jobs: dict[str, AssetJob] = {}
        for job in jobs:
            self._add_job(job)

    def _add_job(self, job: "AssetJob") -> None:
        if job.name in self.jobs:
            raise Invalid(f"two jobs are called {job.name}", remedy="rename one of the two")
        _ = job.keys(self)
        self.jobs[job.name] = job

    def job(self, name: str) -> "AssetJob":
        """The job of this name."""
        if name not in self.jobs:
            close = get_close_matches(name, self.jobs, n=1)
            known = ", ".join(sorted(self.jobs)) or "none"
            remedy = f"did you mean {close[0]!r}?" if close else f"available: {known}"
            raise NotFound(f"there is no job {name}", remedy=remedy)
        return self.jobs[name]

    @property
    def checks(self) -> dict[AssetKey, list[BoundCheck]]:
        """The check functions by the asset in whose task they run."""
        return self.check_index.hosted

    def _add(self, item: AssetsDefinition | AssetSpec) -> None:
        specs = (item,) if isinstance(item, AssetSpec) else item.specs
        for spec in specs:
            if spec.key in self.specs:
                raise Invalid(
                    f"asset {spec.key} is defined twice: {self._places(spec.key, item)}",
                    remedy="give one of the two another name or key_prefix",
                )
            self.specs[spec.key] = spec
            if isinstance(item, AssetsDefinition):
                self.makers[spec.key] = item
        if isinstance(item, AssetsDefinition):
            self._bring(item, item.behaviour.resource_defs)

    def _bring(
        self, maker: AssetsDefinition | AssetChecksDefinition, resources: Mapping[str, Any]
    ) -> None:
        """Add the resources that an asset or a check brings along."""
        for name, resource in resources.items():
            if self.resources.setdefault(name, resource) is not resource:
                raise Invalid(
                    f"{maker.name} ({maker.where}) redefines the resource {name!r}",
                    remedy="give one of the two another name",
                )

    def _check_retention(self, key: AssetKey, maker: AssetsDefinition) -> None:
        manager = self.io_manager_of(key)
        if self.specs[key].retention is not None and manager:
            raise Invalid(
                f"asset {key} ({maker.where}) has a retention, but the IO manager "
                f"{manager!r} stores its outputs",
                remedy="remove the retention: only the IO manager can delete what it stored",
            )

    def retry_of(self, key: AssetKey, job: "AssetJob | None" = None) -> RetryRules:
        """The retry policy of an asset in a run, perhaps of a job.

        It is the asset's own, else the job's, else the project's, else a single attempt.
        """
        policy = self.makers[key].behaviour.retry_policy
        if policy is None and job is not None:
            policy = job.op_retry_policy
        if policy is None and self.default_retry is not None:
            return self.default_retry
        return stored_retries(policy)

    def io_manager_of(self, key: AssetKey) -> str:
        """The IO manager that stores an asset; empty if there is none."""
        maker = self.makers.get(key)
        if maker is not None:
            named = maker.io_manager_key(key)
        else:
            named = str(self.specs[key].metadata.get(IO_MANAGER_KEY, ""))
        if named not in ("", DEFAULT_IO_MANAGER):
            return named
        # Naming the default explicitly means the default.
        return DEFAULT_IO_MANAGER if DEFAULT_IO_MANAGER in self.resources else ""

    def _places(self, key: AssetKey, item: AssetsDefinition | AssetSpec) -> str:
        both = (self.makers.get(key), item)
        return " and ".join(m.where if isinstance(m, AssetsDefinition) else "a spec" for m in both)

    def _inputs(self, key: AssetKey, maker: AssetsDefinition) -> dict[str, AssetKey]:
        """The asset that each parameter loads."""
        return {name: self._resolve(key, wanted, name) for name, wanted in maker.input_keys.items()}

    def _resolve(self, key: AssetKey, wanted: AssetKey, name: str) -> AssetKey:
        """The asset of this key, or the one of this name next to the asset that refers to it."""
        neighbour = AssetKey([*key.namespace, *wanted.parts])
        for candidate in (wanted, neighbour):
            if candidate in self.specs:
                return candidate
        same_group = [
            other
            for other, spec in self.specs.items()
            if other.name == wanted.name and spec.group_name == self.specs[key].group_name
        ]
        if len(wanted.parts) == 1 and len(same_group) == 1:
            return same_group[0]
        others = [other for other in self.specs if other != key]
        known = [str(other) for other in others] + [other.name for other in others]
        close = get_close_matches(str(wanted), known, n=1)
        raise Invalid(
            f"asset {key} ({self.makers[key].where}) takes {name!r}, which is not an asset",
            remedy=f"did you mean {close[0]!r}?" if close else RENAME,
        )

    def _upstream(self, key: AssetKey) -> tuple[AssetKey, ...]:
        """The upstream assets that this project defines."""
        renamed: dict[AssetKey, AssetKey] = {}
        if key in self.makers:
            maker = self.makers[key]
            renamed = {maker.input_keys[name]: found for name, found in self.inputs[key].items()}
        deps: Sequence[AssetDep] = self.specs[key].deps
        found = {renamed.get(dep.asset_key, dep.asset_key): dep.partition_mapping for dep in deps}
        mapped = {up: mapping for up, mapping in found.items() if mapping is not None}
        if mapped:
            self.mappings[key] = mapped
        return tuple(found)

    def _ordered(self) -> list[AssetKey]:
        """All assets in topological order; `Invalid` with the whole cycle if there is one."""
        known = {
            key: [up for up in ups if up in self.specs and not self._of_itself(key, up)]
            for key, ups in self.upstream.items()
        }
        try:
            return topological_order(known, known, key=lambda key: key.canonical())
        except Invalid as error:
            files = sorted({maker.where.rpartition(":")[0] for maker in self.makers.values()})
            raise Invalid(f"{error.message} in {', '.join(files)}", remedy=error.remedy) from None

    def _of_itself(self, key: AssetKey, up: AssetKey) -> bool:
        """Whether partitions of an asset depend on other partitions of the same asset."""
        return up == key and key in self.mappings.get(key, {})

    def definitions(self) -> tuple[AssetDefinition, ...]:
        """The definitions that a deployment records, in topological order."""
        checks = self.check_index.conditions()
        return tuple(self._definition(key, checks.get(key, {})) for key in self.order)

    def _definition(self, key: AssetKey, checks: Mapping[str, str]) -> AssetDefinition:
        spec = self.specs[key]
        return AssetDefinition(
            asset_key=key.canonical(),
            group=spec.group_name or "default",
            upstream=tuple(up.canonical() for up in self.upstream[key]),
            code_version=spec.code_version or "",
            partitions=partitions_text(spec.partitions_def),
            description=spec.description or "",
            tags=dict(spec.tags),
            owners=tuple(spec.owners),
            kinds=tuple(spec.kinds),
            freshness_policy=stored_policy(spec.freshness_policy),
            automation_condition=str(spec.automation_condition or ""),
            check_conditions=dict(checks),
            retention_versions=spec.retention.versions if spec.retention else None,
            retention_age_ms=spec.retention.age_ms if spec.retention else None,
            partition_mappings={
                up.canonical(): mapping_text(mapping)
                for up, mapping in self.mappings.get(key, {}).items()
            },
        )

    def executable(self, keys: Sequence[AssetKey]) -> list[AssetKey]:
        """Those of the assets that have code, in topological order.

        Observable assets are included only if nothing else is selected: materializing everything
        does not mean observing everything.
        """
        wanted = set(keys)
        coded = [key for key in self.order if key in wanted and key in self.makers]
        made = [key for key in coded if not self.makers[key].observes]
        return made or coded
