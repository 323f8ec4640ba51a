"""The code of a command: the named one, or the only candidate."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.text import Text

from servo.cli.options.project import locations, one_location, project_file
from servo.cli.rendering.output import console, warn
from servo.code.choosing import location_defining
from servo.code.examine import examine
from servo.errors import Invalid, NotFound
from servo.host.location_code import LocationCode, refuse_shared
from servo.host.questions import answers_questions
from servo.operations.assets import locations_of_assets
from servo.workspace.code_location import CodeLocation
from servo.workspace.leading import described
from servo.workspace.workspace import Workspace


class Selected(msgspec.Struct, frozen=True, kw_only=True):
    """What a command selects, to choose one of several code locations."""

    select: Sequence[str] = ()
    job: str | None = None


NOTHING = Selected()


def leader_locations(workspace: Workspace) -> tuple[str, ...]:
    """The code locations of the leader on this machine, if it can be asked."""
    leader = workspace.leader()
    return leader.locations if leader is not None and answers_questions(leader) else ()


def one_code(
    given: str | None,
    workspace: Workspace,
    *,
    as_dagster: bool = False,
    selected: Selected = NOTHING,
) -> LocationCode:
    """The named code, or the only candidate, here or at the leader."""
    known = leader_locations(workspace)
    if given is None and (name := _deployed_by_leader(workspace, selected)):
        given = name
    try:
        return LocationCode(_location(given, as_dagster=as_dagster, selected=selected), warn=warn)
    except (NotFound, Invalid):
        if given is not None:
            raise
        if len(known) == 1:
            return LocationCode(CodeLocation(name=known[0], code=known[0], folder=str(Path.cwd())))
        _refuse_unclear(workspace, selected)
        raise


def _refuse_unclear(workspace: Workspace, selected: Selected) -> None:
    """The error if it is unclear which location of a leader is meant, and no project file tells."""
    leader, project = workspace.leader(), project_file()
    if leader is None or not leader.locations or (project is not None and project.locations):
        return
    names = ", ".join(leader.locations)
    what = " ".join((*selected.select, *([f"job {selected.job}"] if selected.job else [])))
    if what:
        raise NotFound(
            f"{described(leader)} has {names}, and none of them is known to define {what}",
            remedy="name the one that does before the selection, "
            "or restart the leader with the file that does as well",
        ) from None
    raise Invalid(
        f"{described(leader)} has several code locations: {names}", remedy="name one of them"
    ) from None


def _location(given: str | None, *, as_dagster: bool, selected: Selected) -> CodeLocation:
    if given is not None or not (selected.select or selected.job):
        return one_location(given, as_dagster=as_dagster)
    found = locations([], as_dagster=as_dagster)
    return location_defining(found, selected.select, job=selected.job)


def _deployed_by_leader(workspace: Workspace, selected: Selected) -> str:
    """The location of the leader that deployed the selected assets; empty if there is none."""
    leader = workspace.leader()
    if leader is None or len(leader.locations) < 2 or not selected.select:
        return ""
    found = set(locations_of_assets(workspace, selected.select).values())
    return found.pop() if len(found) == 1 and found <= {*leader.locations} else ""


def several_codes(
    given: Sequence[str], *, as_dagster: bool = False
) -> tuple[list[LocationCode], bool]:
    """The named code, or all of the project file; and whether some of it is broken.

    One location is imported in this process. Several are imported in separate processes, because
    their modules may have the same names. Broken ones are reported and left out.
    """
    found = locations(given, as_dagster=as_dagster)
    if len(found) == 1:
        return [LocationCode(found[0])], False
    codes: list[LocationCode] = []
    for location, examined in zip(found, examine(found), strict=True):
        if examined.error:
            told = f"skipping {location.name}: {examined.error}"
            console(stderr=True).print(Text(told, "red"), soft_wrap=True)
            continue
        codes.append(LocationCode(location, examined))
    refuse_shared({code.name: code.declared for code in codes})
    return codes, len(codes) < len(found)
