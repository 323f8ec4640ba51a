"""What the evaluation knows about a project: assets, dependencies, checks and conditions.

Assets are named by their canonical key. `Selects` tells whether a selection, as a user passed it to
`allow` or `ignore`, includes an asset: only the SDK can resolve selections.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from servo.core.automation.condition import AutomationCondition
from servo.core.automation.identity import told
from servo.core.automation.spaces import SAME, UNPARTITIONED, Mapping, Space
from servo.core.graph import downstream_of, reachable, topological_order

Selects = Callable[[Any, str], bool]

SubjectKey = tuple[str, str]
"""An asset or a check: the asset key, and the name of the check or an empty string."""


def subject(key: SubjectKey) -> str:
    """The string under which the condition of an asset or a check is stored and shown.

    No asset key contains a colon.
    """
    return f"{key[0]}:{key[1]}" if key[1] else key[0]


class Dependency(msgspec.Struct, frozen=True, kw_only=True):
    """An upstream asset; `together` is whether one run can materialize both assets."""

    key: str
    mapping: Mapping = SAME
    together: bool = True


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """A check of an asset. It depends on that asset, and on the other assets that it reads."""

    name: str
    blocking: bool = False
    condition: AutomationCondition | None = None
    deps: tuple[Dependency, ...] = ()


class Asset(msgspec.Struct, frozen=True, kw_only=True):
    """An asset of a project. An external asset only needs a key."""

    key: str
    space: Space = UNPARTITIONED
    deps: tuple[Dependency, ...] = ()
    checks: tuple[Check, ...] = ()
    condition: AutomationCondition | None = None
    code_version: str = ""


class Graph:
    """All assets of a project, in topological order."""

    def __init__(self, assets: Iterable[Asset], selects: Selects) -> None:
        self.assets = {asset.key: asset for asset in assets}
        self.selects = selects
        for asset in tuple(self.assets.values()):
            for dep in (*asset.deps, *(dep for check in asset.checks for dep in check.deps)):
                _ = self.assets.setdefault(dep.key, Asset(key=dep.key))
        upstream = {
            asset.key: [dep.key for dep in asset.deps if dep.key != asset.key]
            for asset in self.assets.values()
        }
        self.order = topological_order(upstream, upstream, key=str)
        self._downstream = downstream_of(upstream)

    def roots(self) -> Iterator[tuple[SubjectKey, AutomationCondition]]:
        """Every condition and its subject: those of an asset first, then those of its checks."""
        for key in self.order:
            asset = self.assets[key]
            if asset.condition is not None:
                yield (key, ""), asset.condition
            for check in sorted(asset.checks, key=lambda check: check.name):
                if check.condition is not None:
                    yield (key, check.name), check.condition

    def deps(self, key: SubjectKey) -> tuple[Dependency, ...]:
        """The upstream assets of an asset, or the assets that a check reads, in key order."""
        asset = self.assets[key[0]]
        deps = asset.deps
        if key[1]:
            check = next(check for check in asset.checks if check.name == key[1])
            deps = (Dependency(key=key[0]), *check.deps)
        return tuple(sorted(deps, key=lambda dep: dep.key))

    def edge(self, upstream: str, downstream: str) -> Dependency | None:
        """The dependency of one asset on another, if there is one."""
        return next((dep for dep in self.assets[downstream].deps if dep.key == upstream), None)

    def conditions_below(self, key: str) -> list[tuple[str, AutomationCondition]]:
        """The different conditions of all downstream assets, each with one asset."""
        found: dict[str, tuple[str, AutomationCondition]] = {}
        for below in sorted(reachable([key], self._downstream)):
            condition = self.assets[below].condition
            if below != key and condition is not None:
                _ = found.setdefault(told(condition), (below, condition))
        return list(found.values())
