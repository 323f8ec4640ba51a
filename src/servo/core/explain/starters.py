"""Everything that would materialize an asset automatically.

Each starter gets an asset or a partition, and returns its findings.
"""

from collections.abc import Callable
from shlex import quote

from servo.core.definitions import IN_PROCESS
from servo.core.explain.backfills import backfills
from servo.core.explain.conditions import condition
from servo.core.explain.finding import Finding, FindingStatus, What
from servo.core.explain.records import Records, Subject
from servo.core.explain.schedules import schedules
from servo.core.explain.sensors import sensors
from servo.core.explain.words import partition, place

_NO_FILES = (IN_PROCESS, "default", "")

Starter = Callable[[Records, Subject], list[Finding]]


STARTERS: tuple[Starter, ...] = (schedules, sensors, backfills, condition)


def starters(records: Records, subject: Subject, then: str) -> list[Finding]:
    """Everything that would start an asset automatically; or that nothing does.

    `then` is what to do in that case; nothing if it is empty.
    """
    found = [finding for starter in STARTERS for finding in starter(records, subject)]
    if any(_goes_on(finding) for finding in found):
        return found
    nothing = Finding(
        what=What.NOTHING,
        status=FindingStatus.NOTE,
        subject=place(subject.asset_key, subject.partition_key),
        text="nothing starts it automatically: no schedule, sensor or condition covers it",
        next=then,
        command=_by_hand(records, subject) if then else "",
    )
    return [*found, nothing]


def _by_hand(records: Records, subject: Subject) -> str:
    """The command that materializes an asset, if its code location is known."""
    row = records.asset(subject.asset_key)
    if row is None or not row.defined or row.location in _NO_FILES:
        return ""
    part = subject.partition_key
    option = "" if part is None else f" --partition {quote(partition(part))}"
    return f"servo materialize {quote(row.location)} {quote(subject.asset_key)}{option}"


def _goes_on(found: Finding) -> bool:
    """Whether something starts an asset repeatedly: a backfill does not."""
    return found.what is not What.BACKFILL
