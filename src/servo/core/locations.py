"""Code locations: named sets of definitions, each with its own code.

Runs, tasks, backfills, schedules and sensors carry the name of their location, and processes that
work on them say which locations they have. Work without a name, such as runs in ledgers from before
there were locations, can be done by any process.
"""

from collections.abc import Callable, Collection, Mapping

from servo.core.declared import LOCATION_LABEL

HasLocation = Callable[[str], bool]
"""Whether a process has the code of a location."""


def any_location(location: str) -> bool:
    """Accept every location."""
    del location
    return True


def one_of(names: Collection[str]) -> HasLocation:
    """Accept these locations, and work without one."""
    return lambda location: not location or location in names


def just(name: str) -> HasLocation:
    """Accept only this location, and no work without one."""
    return lambda location: location == name


def location_of(labels: Mapping[str, str]) -> str:
    """The location that defines a schedule or a sensor with these labels."""
    return labels.get(LOCATION_LABEL, "")
