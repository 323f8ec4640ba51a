"""What the code of a project asks for by name, held against what there is.

A run finds the same, but only when it comes to the asset that asks; and configuration for something
that is not there would not be found at all.
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
    """`UnknownResource` if an asset or a check asks for a resource that nobody defines."""
    for name, asked_by in _asked_for(project):
        if name not in project.resources:
            raise unknown_resource(name, project.resources, asked_by=asked_by)


def _asked_for(project: Project) -> Iterator[tuple[str, str]]:
    """Each name that something asks for, and what does."""
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
    """What is depended on, is not defined here, and is nearly called like something that is.

    It may well be meant: what others make is depended on by its key alone. So these are remarks.
    """
    known = {str(key): key for key in project.specs} | {key.name: key for key in project.specs}
    strangers = [
        (key, up)
        for key in project.order
        for up in project.upstream[key]
        if up not in project.specs
    ]
    # Comparing is slow, and who has thousands of neighbours elsewhere has not misspelt them.
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
    """`Invalid` if the configuration of a run is for something that is not in the project."""
    _refuse_strangers(config.get("ops"), _configurable(project), "asset or check")
    _refuse_strangers(config.get("resources"), project.resources, "resource")


def _configurable(project: Project) -> set[str]:
    """The names under which an asset or a check finds its configuration."""
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
