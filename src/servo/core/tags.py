"""The tags of runs and tasks that Servo itself reads."""

from collections.abc import Mapping
from types import MappingProxyType

from servo.errors import Invalid

ISOLATION = "servo/isolation"
OWN_PROCESS = "process"
PRIORITIES = ("servo/priority", "dagster/priority")
MAX_PRIORITY = 1_000_000_000


def is_isolated(*tags: Mapping[str, str]) -> bool:
    """Whether the tags of a task, or of its run, request a process of its own."""
    return any(found.get(ISOLATION) == OWN_PROCESS for found in tags)


def check_isolation(value: str | None, what: str) -> None:
    """Raise `Invalid` for an unknown isolation."""
    if value not in (None, "", OWN_PROCESS):
        raise Invalid(
            f"{what}: isolation is {value!r}", remedy=f'use "{OWN_PROCESS}", or leave it out'
        )


def priority_of(tags: Mapping[str, object], what: str) -> int:
    """The priority in tags: 0 by default, higher first."""
    given = next((tags[name] for name in PRIORITIES if name in tags), 0)
    try:
        priority = int(str(given))
    except ValueError:
        priority = MAX_PRIORITY + 1
    if abs(priority) > MAX_PRIORITY:
        raise Invalid(
            f"{what}: the priority is {given!r}",
            remedy="use a whole number; higher runs first, and the default is 0",
        )
    return priority


JOB_LABEL = "servo/job"
"""The label that names the job of a run."""


CONFIG_LABEL = "servo/run_config"
"""The label that holds the configuration of a run, as JSON."""


PARTITION_LABEL = "servo/partition"
"""The label of a run that materializes one partition."""


CODE_LABEL = "servo/code"
"""The label of a run or a backfill that names the code it was planned from."""


SCHEDULE_LABEL = "servo/schedule"
"""The label of a run that names the schedule which requested it."""


SENSOR_LABEL = "servo/sensor"
"""The label of a run that names the sensor which requested it."""


BACKFILL_LABEL = "servo/backfill"
"""The label of a run that names its backfill."""


CHOSEN_LABEL = "servo/partitions"
"""The label of a backfill with the status that its partitions were chosen by."""


def request_tags(
    given: Mapping[str, str],
    *,
    defaults: Mapping[str, str] = MappingProxyType({}),
    location: str = "",
    isolate: bool = False,
) -> dict[str, str]:
    """The tags of a run or a backfill that a person requests.

    Their own tags win over the `defaults` of the project. Nobody can name another code location.
    """
    return {
        **defaults,
        **given,
        **({CODE_LABEL: location} if location else {}),
        **({ISOLATION: OWN_PROCESS} if isolate else {}),
    }
