"""The conditions of a project, compiled for evaluation."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec

from servo.core.automation.assets import Asset, Check, Dependency, Graph, subject
from servo.core.automation.spaces import SAME, UNPARTITIONED
from servo.core.automation.spaces import Mapping as EdgeMapping
from servo.core.keys import AssetKey
from servo.errors import Invalid
from servo.sdk.automation.spaces import KeySpace, mapping_between
from servo.sdk.checks.binding import BoundCheck
from servo.sdk.checks.definition import AssetCheckKey, AssetCheckSpec
from servo.sdk.checks.selection import checks_of_assets, chosen_of
from servo.sdk.definitions.project import Project
from servo.sdk.selection.selection import AssetSelection
from servo.sdk.triggers.sensors import AutomationConditionSensorDefinition

DEFAULT_SENSOR = "default_automation_condition_sensor"
"""The sensor that evaluates all conditions without a sensor of their own."""

ConditionSubject = AssetKey | AssetCheckKey
"""What has a condition: an asset or a check."""


class ConditionGraph(msgspec.Struct, frozen=True, kw_only=True):
    """The asset graph of a project, and the partitions of its partitioned assets."""

    graph: Graph
    spaces: dict[str, KeySpace]

    def keys(self, asset: str, bits: int) -> list[str | None]:
        """The keys of a set of partitions; None for an unpartitioned asset."""
        space = self.spaces.get(asset)
        if space is None:
            return [None] if bits else []
        return list(space.named(bits))


def text_of(of: ConditionSubject) -> str:
    """The string under which the condition of an asset or a check is stored and shown."""
    if isinstance(of, AssetCheckKey):
        return subject((of.asset_key.canonical(), of.name))
    return of.canonical()


def conditions_of(
    project: Project,
    now: datetime,
    *,
    store: Any = None,
    chosen: Container[ConditionSubject] | None = None,
) -> ConditionGraph:
    """The conditions of the chosen assets and checks, and what they depend on."""
    spaces: dict[str, KeySpace] = {}
    for key, spec in project.specs.items():
        if spec.partitions_def is not None:
            spaces[key.canonical()] = KeySpace(spec.partitions_def, now, store)
    wanted = set(all_subjects(project)) if chosen is None else chosen
    hosted = _checks_by_asset(project)
    assets = [_asset(project, key, spaces, wanted, hosted.get(key, ())) for key in project.order]
    return ConditionGraph(graph=Graph(assets, _selector(project)), spaces=spaces)


def all_subjects(project: Project) -> Iterator[ConditionSubject]:
    """Every executable asset or check with a condition, in topological order.

    Raises `Invalid` for the condition of a check that cannot run without materializing its asset.
    """
    hosted = _checks_by_asset(project)
    for key in project.order:
        if key in project.makers and project.specs[key].automation_condition is not None:
            yield key
        for spec in hosted.get(key, ()):
            if spec.automation_condition is not None:
                yield spec.key


def _checks_by_asset(project: Project) -> dict[AssetKey, list[AssetCheckSpec]]:
    book = project.checkbook
    found: dict[AssetKey, list[AssetCheckSpec]] = {}
    for held in book.declared.values():
        for spec in held:
            if spec.automation_condition is not None:
                raise Invalid(
                    f"the check {spec.name} of {spec.asset} has an automation condition, but "
                    "runs in the function of the asset",
                    remedy="set the condition on the asset, or define the check with @asset_check",
                )
            found.setdefault(spec.asset, []).append(spec)
    for bound in (one for held in book.hosted.values() for one in held):
        for spec in bound.definition.specs:
            found.setdefault(spec.asset, []).append(spec)
    return found


def host_of(project: Project, check: AssetCheckKey) -> AssetKey:
    """The asset in whose task a check runs."""
    for host, held in project.checkbook.hosted.items():
        if any(_makes(bound, check) for bound in held):
            return host
    raise Invalid(
        f"there is no check {text_of(check)}", remedy="use a check that the project defines"
    )


def _makes(bound: BoundCheck, check: AssetCheckKey) -> bool:
    return any(spec.key == check for spec in bound.definition.specs)


def _asset(
    project: Project,
    key: AssetKey,
    spaces: Mapping[str, KeySpace],
    wanted: Container[ConditionSubject],
    checks: Iterable[AssetCheckSpec],
) -> Asset:
    spec, name = project.specs[key], key.canonical()
    condition = spec.automation_condition if key in wanted and key in project.makers else None
    return Asset(
        key=name,
        space=spaces.get(name, UNPARTITIONED),
        deps=tuple(_dependency(project, key, up, spaces) for up in project.upstream[key]),
        checks=tuple(_check(one, spaces, wanted) for one in checks),
        condition=condition,
        code_version=spec.code_version or "",
    )


def _dependency(
    project: Project, key: AssetKey, up: AssetKey, spaces: Mapping[str, KeySpace]
) -> Dependency:
    above, below = spaces.get(up.canonical()), spaces.get(key.canonical())
    try:
        mapping = mapping_between(above, below, project.mappings.get(key, {}).get(up))
    except Invalid as error:
        raise Invalid(f"{key} depends on {up}: {error.message}", remedy=error.remedy) from None
    made = up in project.makers and not project.makers[up].observes
    return Dependency(
        key=up.canonical(),
        mapping=mapping,
        together=_together(above, below, mapping) and made,
    )


def _together(above: KeySpace | None, below: KeySpace | None, mapping: EdgeMapping) -> bool:
    """Whether one run can materialize both assets, partition by partition."""
    return mapping is SAME or (above is None and below is None)


def _check(
    spec: AssetCheckSpec, spaces: Mapping[str, KeySpace], wanted: Container[ConditionSubject]
) -> Check:
    own = spaces.get(spec.asset.canonical())
    deps: list[Dependency] = []
    for dep in spec.additional_deps:
        name = dep.asset_key.canonical()
        above = spaces.get(name)
        mapping = mapping_between(above, own, None)
        deps.append(Dependency(key=name, mapping=mapping, together=_together(above, own, mapping)))
    return Check(
        name=spec.name,
        blocking=spec.blocking,
        condition=spec.automation_condition if spec.key in wanted else None,
        deps=tuple(deps),
    )


def _selector(project: Project) -> Callable[[Any, str], bool]:
    """A predicate for whether a selection includes an asset; it resolves each selection once."""
    resolved: dict[str, set[str]] = {}

    def selects(selection: Any, key: str) -> bool:
        found = AssetSelection.from_coercible(selection)
        name = str(found)
        if name not in resolved:
            resolved[name] = {one.canonical() for one in found.resolve(project)}
        return key in resolved[name]

    return selects


def divided(
    project: Project, sensors: Iterable[AutomationConditionSensorDefinition]
) -> dict[str, list[ConditionSubject]]:
    """The assets and checks with conditions, by the sensor that evaluates them.

    Only those with code are included. Those that no sensor names belong to the default sensor.
    `Invalid` if two sensors name the same, because both would request it.
    """
    found: dict[str, list[ConditionSubject]] = {}
    taken: dict[ConditionSubject, str] = {}
    conditions = list(all_subjects(project))
    for sensor in sensors:
        chosen = targeted(project, sensor.target)
        found[sensor.name] = [one for one in conditions if one in chosen]
        for one in found[sensor.name]:
            if one in taken:
                raise Invalid(
                    f"the sensors {taken[one]} and {sensor.name} both evaluate the condition of "
                    f"{text_of(one)}",
                    remedy="change their targets so that they do not overlap",
                )
            taken[one] = sensor.name
    left = [one for one in conditions if one not in taken]
    if left:
        found.setdefault(DEFAULT_SENSOR, []).extend(left)
    return found


def targeted(project: Project, target: Any) -> set[ConditionSubject]:
    """The assets of a selection and their checks, or the checks that it names itself."""
    selection = AssetSelection.from_coercible(target)
    assets = selection.resolve(project)
    checks = chosen_of(selection, project)
    return {*assets, *(checks_of_assets(project, set(assets)) if checks is None else checks)}
