"""A new project on this machine.

It is no operation: it needs a folder and no workspace.
"""

from pathlib import Path

import msgspec

from servo.errors import Conflict
from servo.host.new_project import begin_project


class ProjectCreated(msgspec.Struct, frozen=True, kw_only=True):
    """A folder with a new project, and the files that were written to it."""

    folder: str
    files: list[str]


def create_project(folder: Path) -> ProjectCreated:
    """Write what a new project needs to a folder; `Conflict` if it has everything already."""
    written = begin_project(folder)
    if not written:
        raise Conflict(f"{folder} already has a project", remedy="choose another folder")
    return ProjectCreated(folder=str(folder), files=written)
