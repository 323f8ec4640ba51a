"""Code locations: named sets of definitions, each with code of its own.

Runs, tasks, backfills, schedules and sensors carry the name of theirs, and whoever works on them
says which it has. What names none, such as runs of ledgers from before there were locations, is
for anybody.
"""

from collections.abc import Callable, Collection, Mapping

from servo.core.declared import LOCATION_LABEL

HasLocation = Callable[[str], bool]
"""Whether somebody has the code of a location."""


def any_location(location: str) -> bool:
    """Whoever has everything."""
    del location
    return True


def one_of(names: Collection[str]) -> HasLocation:
    """Whoever has these locations; what names none is theirs too."""
    return lambda location: not location or location in names


def just(name: str) -> HasLocation:
    """Whoever has this location and leaves what names none to others."""
    return lambda location: location == name


def location_of(labels: Mapping[str, str]) -> str:
    """The location that defines a schedule or a sensor with these labels."""
    return labels.get(LOCATION_LABEL, "")
