"""A project on this machine, before anything runs: create it, list what it defines, check it.

These are no operations: they need the files of a project and no workspace.
"""

from pathlib import Path

import msgspec

from servo.code.loader import load_location
from servo.core.definitions import AssetDefinition
from servo.errors import Conflict
from servo.host.new_project import begin_project
from servo.operations.interface.listing import Listing
from servo.sdk.definitions.needs import check_resources, near_misses
from servo.workspace.code_location import CodeLocation


class ProjectCreated(msgspec.Struct, frozen=True, kw_only=True):
    """A folder with a new project, and the files that were written to it."""

    folder: str
    files: list[str]


class ProjectCheck(msgspec.Struct, frozen=True, kw_only=True):
    """A code location that has no errors, and how many assets it defines.

    `hints` are remarks on the code, such as a dependency that may be misspelt.
    """

    location: str
    assets: int
    hints: list[str]


def create_project(folder: Path) -> ProjectCreated:
    """Write what a new project needs to a folder; `Conflict` if it has everything already."""
    written = begin_project(folder)
    if not written:
        raise Conflict(f"{folder} already has a project", remedy="choose another folder")
    return ProjectCreated(folder=str(folder), files=written)


def list_definitions(location: CodeLocation) -> Listing[AssetDefinition]:
    """The assets that a code location defines, upstream assets first."""
    return Listing(items=list(load_location(location).definitions()))


def check_project(location: CodeLocation) -> ProjectCheck:
    """Load a code location and check it; raises what is wrong with it."""
    project = load_location(location)
    check_resources(project)
    hints = list(near_misses(project))
    return ProjectCheck(location=location.name, assets=len(project.specs), hints=hints)
