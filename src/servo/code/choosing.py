"""Which of several code locations a selection refers to.

Each asset and job is defined by one location, so a selection determines its location. Each location
is examined in a separate process, because their modules may have the same names. If the answer is
not exactly one location, the error says which location defines what.
"""

from collections.abc import Sequence

from servo.code.examine import Examined, examine
from servo.errors import Invalid, NotFound
from servo.sdk.selection.selection import AssetSelection
from servo.workspace.code_location import CodeLocation


def location_defining(
    locations: Sequence[CodeLocation], select: Sequence[str], *, job: str | None = None
) -> CodeLocation:
    """The only location that defines everything that is selected, and the job."""
    if len(locations) == 1:
        return locations[0]
    _ = AssetSelection.from_coercible(list(select))  # report bad syntax as such
    found = dict(zip(locations, examine(locations, select=select), strict=True))
    able = [one for one, examined in found.items() if _defines(examined, select, job)]
    if len(able) == 1:
        return able[0]
    what = " ".join(select) if job is None else f"job {job}"
    if able:
        raise Invalid(
            f"{what} is in several code locations: {_names(able)}", remedy="name one of them"
        )
    raise _nowhere(found, select, job)


def _defines(examined: Examined, select: Sequence[str], job: str | None) -> bool:
    return {*select} <= {*examined.selected} and (job is None or job in examined.jobs)


def _nowhere(
    found: dict[CodeLocation, Examined], select: Sequence[str], job: str | None
) -> Invalid | NotFound:
    """Why no single location defines everything that is selected."""
    owners = {
        term: [one for one, examined in found.items() if term in examined.selected]
        for term in select
    }
    if job is not None:
        owners = {f"job {job}": [one for one, its in found.items() if job in its.jobs], **owners}
    missing = [term for term, own in owners.items() if not own]
    if not missing:
        told = ", ".join(f"{term} by {_names(own)}" for term, own in owners.items())
        return Invalid(
            f"no single code location defines everything selected: {told}",
            remedy="use one command for each location, with the assets that it defines",
        )
    broken = "".join(f"; {its.error}" for its in found.values() if its.error)
    return NotFound(
        f"none of the code locations {_names(list(found))} defines {', '.join(missing)}{broken}",
        remedy="see `servo list LOCATION` for what each defines",
    )


def _names(locations: Sequence[CodeLocation]) -> str:
    return ", ".join(one.name for one in locations)
