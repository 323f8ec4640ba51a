"""What the code of each location defines, and what is wrong with it.

One location is imported in this process, so its error is raised as it is. Several are imported in
processes of their own, as their modules may have the same names, and none hides another's errors.
"""

from collections.abc import Sequence

import msgspec

from servo.code.examine import examine_each
from servo.core.events.assets import AssetDefinition
from servo.errors import Invalid
from servo.host.import_here import import_here
from servo.host.location_code import refuse_shared
from servo.sdk.definitions.needs import check_resources, near_misses
from servo.workspace.code_location import CodeLocation


class LocationReport(msgspec.Struct, frozen=True, kw_only=True):
    """The assets of a code location, upstream ones first, and the error that makes it unusable."""

    location: str
    assets: tuple[AssetDefinition, ...] = ()
    hints: tuple[str, ...] = ()
    error: str = ""


def report_locations(locations: Sequence[CodeLocation]) -> list[LocationReport]:
    """The assets and errors of every location; errors of an only one are raised."""
    if len(locations) == 1:
        project = import_here(locations[0])
        return [LocationReport(location=locations[0].name, assets=project.definitions())]
    found = zip(locations, examine_each(locations), strict=True)
    return [
        LocationReport(location=one.name, assets=its.declared.assets, error=its.error)
        for one, its in found
    ]


def check_locations(locations: Sequence[CodeLocation]) -> list[LocationReport]:
    """The same, with missing resources as errors and hints about misspelt dependencies."""
    if len(locations) == 1:
        project = import_here(locations[0])
        check_resources(project)
        hints, assets = tuple(near_misses(project)), project.definitions()
        return [LocationReport(location=locations[0].name, assets=assets, hints=hints)]
    found = dict(zip([one.name for one in locations], examine_each(locations), strict=True))
    reports = [
        LocationReport(
            location=name,
            assets=its.declared.assets,
            hints=its.hints,
            error=its.error or its.missing_resource,
        )
        for name, its in found.items()
    ]
    try:
        refuse_shared({name: its.declared for name, its in found.items()})
    except Invalid as error:
        reports.append(LocationReport(location="project", error=str(error)))
    return reports
