"""The conditions of a project, ready to be evaluated."""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from servo.core.automation.assets import Asset, Check, Dependency, Graph
from servo.core.automation.spaces import UNPARTITIONED
from servo.core.keys import AssetKey
from servo.errors import Invalid
from servo.sdk.condition_spaces import KeySpace, is_same, mapping_between
from servo.sdk.project import Project
from servo.sdk.selection import AssetSelection
from servo.sdk.sensors import AutomationConditionSensorDefinition

DEFAULT_SENSOR = "default_automation_condition_sensor"
"""The sensor of all conditions that no other sensor evaluates."""


class Conditions(msgspec.Struct, frozen=True, kw_only=True):
    """The graph of a project, and the spaces of the assets that have partitions."""

    graph: Graph
    spaces: dict[str, KeySpace]

    def keys(self, asset: str, bits: int) -> list[str | None]:
        """The partitions of a set by their keys; None is an asset without any."""
        space = self.spaces.get(asset)
        if space is None:
            return [None] if bits else []
        return [key for key in space.keys if bits >> space.numbers[key] & 1]


def conditions_of(
    project: Project,
    now: datetime,
    *,
    store: Any = None,
    known: Mapping[str, Sequence[str]] | None = None,
    chosen: Container[AssetKey] | None = None,
) -> Conditions:
    """The conditions of the chosen assets of a project, and what they look at."""
    spaces: dict[str, KeySpace] = {}
    for key, spec in project.specs.items():
        if spec.partitions_def is not None:
            name = key.canonical()
            spaces[name] = KeySpace(spec.partitions_def, now, store, (known or {}).get(name, ()))
    wanted = project.specs if chosen is None else chosen
    assets = [_asset(project, key, spaces, condition=key in wanted) for key in project.order]
    return Conditions(graph=Graph(assets, _selector(project)), spaces=spaces)


def _asset(
    project: Project, key: AssetKey, spaces: Mapping[str, KeySpace], *, condition: bool
) -> Asset:
    spec, name = project.specs[key], key.canonical()
    return Asset(
        key=name,
        space=spaces.get(name, UNPARTITIONED),
        deps=tuple(_dependency(project, key, up, spaces) for up in project.upstream[key]),
        checks=tuple(_checks(project, key)),
        condition=spec.automation_condition if condition and key in project.makers else None,
        code_version=spec.code_version or "",
    )


def _dependency(
    project: Project, key: AssetKey, up: AssetKey, spaces: Mapping[str, KeySpace]
) -> Dependency:
    named = {dep.asset_key: dep.partition_mapping for dep in project.specs[key].deps}
    mapping = named.get(up)
    above, below = spaces.get(up.canonical()), spaces.get(key.canonical())
    together = above is None and below is None
    if above is not None and below is not None:
        together = is_same(above, below, mapping)
    made = up in project.makers and not project.makers[up].observes
    return Dependency(
        key=up.canonical(),
        mapping=mapping_between(above, below, mapping),
        together=together and made,
    )


def _checks(project: Project, key: AssetKey) -> list[Check]:
    book = project.checkbook
    bound = [spec for held in book.hosted.values() for one in held for spec in one.definition.specs]
    found = [*book.declared.get(key, ()), *(spec for spec in bound if spec.asset == key)]
    return [Check(name=spec.name, blocking=spec.blocking) for spec in found]


def _selector(project: Project) -> Callable[[Any, str], bool]:
    """Whether a selection includes an asset; each is resolved once."""
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
) -> dict[str, list[AssetKey]]:
    """The assets with conditions by the name of the sensor that evaluates them, in graph order.

    Only what has code can be asked for. What no sensor names is for the default one; `Invalid` if
    two name the same asset, because each would ask for it.
    """
    found: dict[str, list[AssetKey]] = {}
    taken: dict[AssetKey, str] = {}
    conditions = {key for key in project.makers if project.specs[key].automation_condition}
    for sensor in sensors:
        chosen = AssetSelection.from_coercible(sensor.target).resolve(project)
        found[sensor.name] = [key for key in chosen if key in conditions]
        for key in found[sensor.name]:
            if key in taken:
                raise Invalid(
                    f"the sensors {taken[key]} and {sensor.name} both evaluate the condition of "
                    f"{key}",
                    remedy="let their targets not overlap",
                )
            taken[key] = sensor.name
    left = [key for key in project.order if key in conditions and key not in taken]
    if left:
        found.setdefault(DEFAULT_SENSOR, []).extend(left)
    return found
