"""A project on this machine, before anything runs: create it, list what it defines, check it.

These are no operations: they need the files of a project and no workspace.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from servo.code.examine import Examined, examine_each
from servo.code.loader import load_location
from servo.core.definitions import AssetDefinition
from servo.errors import Conflict, Invalid
from servo.host.location_code import refuse_shared
from servo.host.new_project import begin_project
from servo.operations.interface.listing import Listing
from servo.sdk.definitions.needs import check_resources, near_misses
from servo.workspace.code_location import CodeLocation


class ProjectCreated(msgspec.Struct, frozen=True, kw_only=True):
    """A folder with a new project, and the files that were written to it."""

    folder: str
    files: list[str]


class LocationCheck(msgspec.Struct, frozen=True, kw_only=True):
    """How many assets a code location defines, and the error that makes it unusable, if any.

    `hints` are remarks on the code, such as a dependency that may be misspelt.
    """

    location: str
    assets: int = 0
    hints: list[str] = []
    error: str = ""


class LocationAssets(msgspec.Struct, frozen=True, kw_only=True):
    """The assets that a code location defines, upstream assets first, or why it has none."""

    location: str
    assets: list[AssetDefinition] = []
    error: str = ""


def create_project(folder: Path) -> ProjectCreated:
    """Write what a new project needs to a folder; `Conflict` if it has everything already."""
    written = begin_project(folder)
    if not written:
        raise Conflict(f"{folder} already has a project", remedy="choose another folder")
    return ProjectCreated(folder=str(folder), files=written)


def list_definitions(locations: Sequence[CodeLocation]) -> list[LocationAssets]:
    """The assets that code locations define; what is wrong with an only location is raised."""
    if len(locations) == 1:
        (only,) = locations
        assets = list(load_location(only).definitions())
        return [LocationAssets(location=only.name, assets=assets)]
    return [
        LocationAssets(location=name, assets=list(found.declared.assets), error=found.error)
        for name, found in _examined(locations).items()
    ]


def check_locations(locations: Sequence[CodeLocation]) -> Listing[LocationCheck]:
    """Load code locations and check them; what is wrong with an only location is raised."""
    if len(locations) == 1:
        return Listing(items=[_checked(locations[0])])
    examined = _examined(locations)
    checks = [
        LocationCheck(
            location=name,
            assets=len(found.declared.assets),
            hints=list(found.hints),
            error=found.error or found.missing_resource,
        )
        for name, found in examined.items()
    ]
    try:
        refuse_shared({name: found.declared for name, found in examined.items()})
    except Invalid as error:
        checks.append(LocationCheck(location="project", error=str(error)))
    return Listing(items=checks)


def _checked(location: CodeLocation) -> LocationCheck:
    project = load_location(location)
    check_resources(project)
    hints = list(near_misses(project))
    return LocationCheck(location=location.name, assets=len(project.specs), hints=hints)


def _examined(locations: Sequence[CodeLocation]) -> dict[str, Examined]:
    """What each location defines; each is imported in its own process, as names may collide."""
    return dict(zip([one.name for one in locations], examine_each(locations), strict=True))
