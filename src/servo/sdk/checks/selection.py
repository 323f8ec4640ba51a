"""Which checks a selection includes.

A selection of assets includes their checks. `without_checks()` removes them, and a selection of
checks includes no assets. `|`, `&`, `-` and `~` work on both.
"""

from collections.abc import Collection
from typing import Any

from servo.core.keys import AssetKey
from servo.errors import Invalid
from servo.sdk.checks.definition import AssetCheckKey, AssetChecksDefinition, AssetCheckSpec
from servo.sdk.definitions.project import Project
from servo.sdk.selection.filters import AllChecks, ChecksOf, Selector, SomeChecks
from servo.sdk.selection.operators import Complement, Intersection, Union, WithoutChecks
from servo.sdk.selection.selection import AssetSelection

_CheckKeys = frozenset[AssetCheckKey]


def chosen_of(selection: AssetSelection, project: Project) -> _CheckKeys | None:
    """The selected checks; None for all checks of the assets, if the selection names no checks."""
    return _resolved(selection.query, project) if _speaks(selection.query) else None


def _speaks(query: Selector) -> bool:
    """Whether a selection mentions checks."""
    match query:
        case AllChecks() | WithoutChecks():
            return True
        case Union() | Intersection():
            return any(_speaks(operand) for operand in query.operands)
        case _:
            return isinstance(query, Complement) and _speaks(query.child)


def _resolved(query: Selector, project: Project) -> _CheckKeys:
    everything = frozenset(checks_of_assets(project, project.specs))
    match query:
        case AllChecks():
            return _named(query, everything)
        case WithoutChecks():
            return frozenset()
        case Union():
            return frozenset(key for one in query.operands for key in _resolved(one, project))
        case Intersection():
            return everything.intersection(*(_resolved(one, project) for one in query.operands))
        case Complement():
            return everything - _resolved(query.child, project)
        case _:
            return frozenset(checks_of_assets(project, query.resolve_inner(project)))


def _named(query: AllChecks, everything: _CheckKeys) -> _CheckKeys:
    """The checks of a selection of checks."""
    if isinstance(query, SomeChecks):
        return _known(query.asset_checks, everything)
    if isinstance(query, ChecksOf):
        return frozenset(check for check in everything if check.asset_key in query.asset_keys)
    return everything


def _known(given: tuple[Any, ...], everything: _CheckKeys) -> _CheckKeys:
    found: set[AssetCheckKey] = set()
    for item in given:
        if isinstance(item, AssetChecksDefinition):
            keys = item.check_keys
        elif isinstance(item, AssetCheckSpec):
            keys = {item.key}
        else:
            keys = {item}
        if strangers := [key for key in keys if key not in everything]:
            raise Invalid(
                f"selection: there is no check {_text(strangers[0])}",
                remedy="select a check defined with @asset_check or servo.checks",
            )
        found |= keys
    return frozenset(found)


def _text(check: Any) -> str:
    known = isinstance(check, AssetCheckKey)
    return f"{check.name} of {check.asset_key}" if known else repr(check)


def checks_of_assets(project: Project, keys: Collection[AssetKey]) -> set[AssetCheckKey]:
    """The checks of these assets, in whatever task they run."""
    return {
        spec.key
        for hosted in project.checks.values()
        for bound in hosted
        for spec in bound.definition.specs
        if spec.asset in keys
    }
