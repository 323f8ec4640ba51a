"""Check that every name the code refers to is defined.

A run would find the same mistakes, but only when it reaches the asset. Configuration for something
that does not exist would never be found.
"""

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, cast

from servo.core.keys import AssetKey
from servo.errors import Invalid
from servo.sdk.definitions.project import Project
from servo.sdk.resources.resources import unknown_resource

_COMPARED = 20
_NEAR = 0.8


def check_resources(project: Project) -> None:
    """Raise `UnknownResource` if an asset or a check needs a resource that is not defined."""
    for name, asked_by in _asked_for(project):
        if name not in project.resources:
            raise unknown_resource(name, project.resources, asked_by=asked_by)


def _asked_for(project: Project) -> Iterator[tuple[str, str]]:
    """Every required resource, and what requires it."""
    for key, maker in project.makers.items():
        who = f"asset {key} ({maker.where})"
        named = {*maker.signature.resources, *maker.behaviour.required_resource_keys}
        named |= {project.io_manager_of(key)} - {""}
        yield from ((name, who) for name in sorted(named))
        for hook in maker.behaviour.hooks:
            whose = f"the hook {hook.name} of {who}"
            yield from ((name, whose) for name in sorted(hook.required_resource_keys))
    for key, checks in project.checks.items():
        for bound in checks:
            who = f"the check {bound.definition.name} of asset {key}"
            yield from ((name, who) for name in sorted(bound.resources))


def near_misses(project: Project) -> list[str]:
    """Undefined dependencies whose names are close to an asset that is defined.

    They may be correct: an asset of another project is named by its key alone. So these are
    warnings.
    """
    known = {str(key): key for key in project.specs} | {key.name: key for key in project.specs}
    strangers = [
        (key, up)
        for key in project.order
        for up in project.upstream[key]
        if up not in project.specs
    ]
    # Comparing is slow, and thousands of undefined upstream assets are not typos.
    told: list[str] = []
    for key, up in strangers[:_COMPARED]:
        names = [name for name, other in known.items() if other != key]
        close = get_close_matches(str(up), names, n=1, cutoff=_NEAR)
        if close:
            told.append(
                f"asset {key} ({_place(project, key)}) depends on {str(up)!r}, which is not "
                f"defined here; did you mean {str(known[close[0]])!r}?"
            )
    return told


def _place(project: Project, key: AssetKey) -> str:
    maker = project.makers.get(key)
    return "a spec" if maker is None else maker.where


def check_config(project: Project, config: Mapping[str, Any]) -> None:
    """Raise `Invalid` if the run config is for something that is not in the project."""
    _refuse_strangers(config.get("ops"), _configurable(project), "asset or check")
    _refuse_strangers(config.get("resources"), project.resources, "resource")


def _configurable(project: Project) -> set[str]:
    """The names under which assets and checks find their configuration."""
    names = {maker.name for maker in project.makers.values()}
    for key in project.makers:
        names |= {key.canonical(), key.to_python_identifier()}
    for checks in project.checks.values():
        for bound in checks:
            own = bound.definition.name
            names |= {own, f"{bound.definition.spec.asset.to_python_identifier()}_{own}"}
    return names


def _refuse_strangers(given: Any, known: Iterable[str], what: str) -> None:
    there = sorted(known)
    named: list[str] = list(cast("Mapping[str, Any]", given or {}))
    for name in named:
        if name not in there:
            close = get_close_matches(name, there, n=1)
            remedy = f"did you mean {close[0]!r}?" if close else f"name the {what} that it is for"
            raise Invalid(
                f"the configuration is for {name!r}, but the project has no such {what}",
                remedy=remedy,
            )
