"""The default workspace of a command, a script or a notebook.

An explicit store wins over `$SERVO_STORE`, that over the project file, and that over the folder
`.servo`. Commands, `load_asset()` and `ServoInstance.get()` all use this module, so a script reads
what commands in the same folder have materialized.
"""

from collections.abc import Mapping
from pathlib import Path

from servo.workspace.address import DEFAULT_NAME, DEFAULT_STORE, Address, store_in
from servo.workspace.project_file import ProjectFile, find_project

STORE_VARIABLE = "SERVO_STORE"


def usual_address(
    folder: Path,
    environ: Mapping[str, str],
    *,
    tenant: str | None = None,
    workspace: str | None = None,
) -> Address:
    """The default workspace of a folder; it need not exist."""
    project = find_project(folder)
    store = usual_store(project, environ)
    return Address.of(
        store_in(folder, store),
        tenant or usual_tenant(project),
        workspace or usual_workspace(project),
    )


def usual_store(project: ProjectFile | None, environ: Mapping[str, str]) -> str:
    """The store of the environment or of a project: beside its file unless that says where."""
    if given := environ.get(STORE_VARIABLE):
        return given
    if project is None:
        return DEFAULT_STORE
    return project.store or str(project.folder / DEFAULT_STORE)


def usual_tenant(project: ProjectFile | None) -> str:
    """The tenant of a project."""
    return DEFAULT_NAME if project is None else project.tenant or DEFAULT_NAME


def usual_workspace(project: ProjectFile | None) -> str:
    """The workspace of a project."""
    return DEFAULT_NAME if project is None else project.workspace or DEFAULT_NAME
