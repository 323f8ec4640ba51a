"""The project file as commands use it: defaults of options, and the code of a command.

Arguments win over the environment, the environment over the project file, and that over Servo's own
defaults.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path

import click
import msgspec

from servo.code.finding import find_code, is_module
from servo.core.definitions import IN_PROCESS
from servo.core.ids import check_text
from servo.core.tags import CODE_LABEL
from servo.errors import Invalid
from servo.workspace.code_location import CodeLocation
from servo.workspace.project_file import ProjectFile, find_project
from servo.workspace.typed_paths import exists
from servo.workspace.usual_address import usual_store, usual_tenant, usual_workspace

DEFAULT_WORKERS = 2
_KEY = "servo.project"


def project_file() -> ProjectFile | None:
    """The project file of the working folder, read once a command."""
    context = click.get_current_context(silent=True)
    if context is None:
        return find_project(Path.cwd())
    if _KEY not in context.meta:
        # While the shell completes, nobody wants to hear what is wrong with the file.
        with suppress(Invalid) if context.resilient_parsing else nullcontext():
            context.meta[_KEY] = find_project(Path.cwd())
    return context.meta.get(_KEY)


# --- defaults of options --------------------------------------------------------------------------


def default_store() -> str:
    """The store of the environment, of the project, or `.servo`."""
    return usual_store(project_file(), os.environ)


def default_tenant() -> str:
    """The tenant of the project."""
    return usual_tenant(project_file())


def default_workspace() -> str:
    """The workspace of the project."""
    return usual_workspace(project_file())


def default_workers() -> int:
    """How many processes run the code of a location."""
    project = project_file()
    return DEFAULT_WORKERS if project is None else project.workers or DEFAULT_WORKERS


def default_tags() -> dict[str, str]:
    """Tags of every run and backfill that a person starts."""
    project = project_file()
    return {} if project is None else project.tags


# --- which code -----------------------------------------------------------------------------------


def is_location(text: str) -> bool:
    """Whether the project file has a location with this name."""
    project = project_file()
    return project is not None and project.named(text, Path.cwd()) is not None


def code_or_selection(
    code: str | None, select: Sequence[str], known: Sequence[str] = ()
) -> tuple[str | None, tuple[str, ...]]:
    """The first argument is code if such code exists, and otherwise the first selected asset.

    `known` are names of code locations that the leader has.
    """
    if code is None or code.endswith(".py") or code in known or _is_code(code):
        return code, tuple(select)
    return None, (code, *select)


def _is_code(text: str) -> bool:
    here = Path.cwd()
    return is_location(text) or exists(here / text) or is_module(text, here)


def code_behind(location: str, labels: Mapping[str, str]) -> str | None:
    """The code recorded for a run or a backfill; None if unknown."""
    return location if location not in ("", IN_PROCESS) else labels.get(CODE_LABEL)


def one_location(given: str | None, *, as_dagster: bool = False) -> CodeLocation:
    """The named code location, or the only one."""
    found = locations([] if given is None else [given], as_dagster=as_dagster)
    if len(found) > 1:
        names = ", ".join(one.name for one in found)
        raise Invalid(f"the project has several code locations: {names}", remedy="name one of them")
    return found[0]


def locations(given: Sequence[str], *, as_dagster: bool = False) -> list[CodeLocation]:
    """The named code locations; by default all of the project file."""
    project, here = project_file(), Path.cwd()
    if not given and project is not None and project.locations:
        found = list(project.locations)
    elif not given:
        folder = here if project is None else project.folder
        found = [_unnamed(find_code(None, folder), folder)]
    else:
        known = [None if project is None else project.named(text, here) for text in given]
        found = [one or _unnamed(text, here) for text, one in zip(given, known, strict=True)]
    _refuse_twice(found)
    return [_with_dagster(one, as_dagster) for one in found]


def _unnamed(code: str, folder: Path) -> CodeLocation:
    """Code that is in no project file is named as typed, without `./`, or with its whole path."""
    project = project_file()
    retry = None if project is None else project.retry
    if code.endswith(".py"):
        code = os.path.normpath(code)
        code = os.path.normpath(folder / code) if code.startswith("..") else code
    name = check_text(code, "the name of the code")
    return CodeLocation(name=name, code=code, folder=str(folder), retry=retry)


def _with_dagster(location: CodeLocation, as_dagster: bool) -> CodeLocation:
    if not as_dagster or location.as_dagster:
        return location
    return msgspec.structs.replace(location, as_dagster=True)


def _refuse_twice(found: Sequence[CodeLocation]) -> None:
    for number, one in enumerate(found):
        if one.name in [other.name for other in found[:number]]:
            raise Invalid(f"{one.name} is given twice", remedy="name each location once")
