"""The checks of a project, with every name resolved.

A check runs in the task of one asset, its host: the asset that it checks, or the last of several.
Other assets that it reads are loaded in the version that is current when the task starts. If one of
them is part of the same run, it is materialized first, unless it is downstream of the host or this
would close a cycle with other checks: then the check sees the previous version.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from servo.core.keys import AssetKey
from servo.errors import Invalid
from servo.sdk.assets.specs import AssetIn
from servo.sdk.checks.definition import AssetCheckKey, AssetChecksDefinition, AssetCheckSpec

_InputsByAsset = Mapping[AssetKey, Mapping[str, AssetKey]]
_UpstreamByAsset = Mapping[AssetKey, Sequence[AssetKey]]


class BoundCheck(msgspec.Struct, frozen=True, kw_only=True):
    """A check function with the asset in whose task it runs.

    `values` are the assets that fill its parameters. `taken` are the parameters that are filled by
    inputs of the host's function, by their names there.
    """

    definition: AssetChecksDefinition
    host: AssetKey
    values: Mapping[str, AssetKey] = {}
    taken: Mapping[str, str] = {}

    @property
    def resources(self) -> set[str]:
        """The resources that it requires."""
        wanted = self.definition.options.required_resource_keys
        return {*self.definition.signature.resources, *wanted}

    @property
    def needs(self) -> tuple[AssetKey, ...]:
        """The assets that it reads; the host is included only if it reads the previous output."""
        deps = [dep.asset_key for spec in self.definition.specs for dep in spec.additional_deps]
        of = [spec.asset for spec in self.definition.specs]
        others = [key for key in (*self.values.values(), *of, *deps) if key != self.host]
        options = self.definition.options
        last = options.sees_previous or (options.before and self.host in self.values.values())
        own = (self.host,) if last else ()
        return tuple(dict.fromkeys((*own, *others)))


class Checkbook:
    """All checks of a project."""

    def __init__(
        self,
        order: Sequence[AssetKey],
        inputs: _InputsByAsset,
        upstream: _UpstreamByAsset,
        makers: Iterable[Any],
    ) -> None:
        self._rank = {key: place for place, key in enumerate(order)}
        self._inputs = inputs
        self._upstream = {key: set(ups) for key, ups in upstream.items()}
        self._seen: set[AssetCheckKey] = set()
        self.hosted: dict[AssetKey, list[BoundCheck]] = {}
        self.declared: dict[AssetKey, list[AssetCheckSpec]] = {}
        self.after: dict[AssetKey, tuple[AssetKey, ...]] = {}
        for maker in {id(maker): maker for maker in makers}.values():
            for spec in maker.behaviour.check_specs:
                self._declare(maker, spec)

    def _declare(self, maker: Any, spec: AssetCheckSpec) -> None:
        """Register a check that the function of an asset reports."""
        if spec.asset not in maker.keys:
            raise Invalid(
                f"{maker.name} ({maker.where}) declares the check {spec.name} of {spec.asset}, "
                "which it does not define",
                remedy="pass an asset that it defines, or define the check with @asset_check",
            )
        self._note(spec)
        self.declared.setdefault(spec.asset, []).append(spec)

    def _note(self, spec: AssetCheckSpec) -> None:
        if spec.key in self._seen:
            raise Invalid(
                f"{spec.asset} has two checks called {spec.name}", remedy="rename one of the two"
            )
        self._seen.add(spec.key)

    def add(self, check: AssetChecksDefinition) -> None:
        """Register a check; `Invalid` if something that it needs is missing."""
        for spec in check.specs:
            for key in (spec.asset, *(dep.asset_key for dep in spec.additional_deps)):
                self._known(check, key)
            self._note(spec)
        host = max((spec.asset for spec in check.specs), key=self._rank.__getitem__)
        bound = BoundCheck(
            definition=check,
            host=host,
            values=self._values(check, host),
            taken=self._taken(check, host),
        )
        self.hosted.setdefault(host, []).append(bound)
        first = [key for key in bound.needs if key != host and not self._reaches(key, host)]
        self._upstream[host].update(first)
        known = (*self.after.get(host, ()), *first)
        self.after[host] = tuple(dict.fromkeys(known))

    def conditions(self) -> dict[AssetKey, dict[str, str]]:
        """The automation conditions of checks, as strings, by asset and name."""
        bound = [one.definition.specs for held in self.hosted.values() for one in held]
        found: dict[AssetKey, dict[str, str]] = {}
        for spec in (spec for specs in (*self.declared.values(), *bound) for spec in specs):
            if spec.automation_condition is not None:
                found.setdefault(spec.asset, {})[spec.name] = str(spec.automation_condition)
        return found

    def needs_of(self, keys: Iterable[AssetKey]) -> list[AssetKey]:
        """The other assets that the checks of these assets read."""
        own = list(keys)
        hosted = [bound for key in own for bound in self.hosted.get(key, ())]
        return [need for bound in hosted for need in bound.needs if need not in own]

    def _known(self, check: AssetChecksDefinition, key: AssetKey) -> None:
        if key not in self._rank:
            raise Invalid(
                f"the check {check.name} ({check.where}) is defined for {key}, which is "
                "not an asset",
                remedy="pass an asset that the project defines",
            )

    def _values(self, check: AssetChecksDefinition, host: AssetKey) -> dict[str, AssetKey]:
        """The asset for each parameter that takes a value."""
        found: dict[str, AssetKey] = {}
        for name in check.signature.inputs:
            given = check.options.ins.get(name)
            if given is None and check.options.before:
                continue
            key = host if given is None and len(check.specs) == 1 else self._named(name, given)
            if key not in self._rank:
                key = next((s.asset for s in check.specs if name in _names(s.asset)), key)
            self._known(check, key)
            found[name] = key
        return found

    def _named(self, name: str, given: AssetIn | None) -> AssetKey:
        return (given or AssetIn()).key_for(name)

    def _taken(self, check: AssetChecksDefinition, host: AssetKey) -> dict[str, str]:
        """For a check that runs before the function: its input for each parameter."""
        options = check.options
        if not options.before:
            return {}
        inputs = self._inputs.get(host, {})
        if options.rule:
            wanted = (options.input or _only(inputs),)
        else:
            wanted = tuple(name for name in check.signature.inputs if name not in options.ins)
        by_asset = {name: own for own, key in inputs.items() for name in _names(key)}
        found = {name: name if name in inputs else by_asset.get(name, "") for name in wanted}
        wrong = [name for name, own in found.items() if not own]
        if wrong:
            raise Invalid(
                f"the check {check.name} ({check.where}) runs before {host} and reads "
                f"{wrong[0] or 'an input'}, but the inputs of {host} are "
                f"{', '.join(inputs) or 'none'}",
                remedy="name one parameter of the asset's function"
                + (' with input="..."' if options.rule else ""),
            )
        return found

    def _reaches(self, start: AssetKey, goal: AssetKey) -> bool:
        """Whether `start` is downstream of `goal`, or has to wait for it."""
        waiting, seen = [start], {start}
        while waiting:
            here = waiting.pop()
            if here == goal:
                return True
            above = self._upstream.get(here, set()) - seen
            seen |= above
            waiting += above
        return False


def _only(inputs: Mapping[str, AssetKey]) -> str:
    return next(iter(inputs)) if len(inputs) == 1 else ""


def _names(key: AssetKey) -> tuple[str, str]:
    return key.name, key.to_python_identifier()
