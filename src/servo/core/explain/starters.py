"""Everything that would make an asset without being told to.

Each starter is given an asset, or one of its partitions, and tells what it found about it.
"""

from collections.abc import Callable
from shlex import quote

from servo.core.definitions import IN_PROCESS
from servo.core.explain.backfills import backfills
from servo.core.explain.conditions import condition
from servo.core.explain.finding import Finding, Mood, What
from servo.core.explain.records import Records, Subject
from servo.core.explain.schedules import schedules
from servo.core.explain.sensors import sensors
from servo.core.explain.words import partition, place

_NO_FILES = (IN_PROCESS, "default", "")

Starter = Callable[[Records, Subject], list[Finding]]


STARTERS: tuple[Starter, ...] = (schedules, sensors, backfills, condition)


def starters(records: Records, subject: Subject, then: str) -> list[Finding]:
    """Everything that would start an asset by itself; or that nothing does.

    `then` says what to do in that case: nothing, if it is empty.
    """
    found = [finding for starter in STARTERS for finding in starter(records, subject)]
    if any(_goes_on(finding) for finding in found):
        return found
    nothing = Finding(
        what=What.NOTHING,
        mood=Mood.NOTE,
        subject=place(subject.asset_key, subject.partition_key),
        text="nothing starts it automatically: no schedule, sensor or condition covers it",
        next=then,
        command=_by_hand(records, subject) if then else "",
    )
    return [*found, nothing]


def _by_hand(records: Records, subject: Subject) -> str:
    """The command that makes an asset, if it is known by which code."""
    row = records.asset(subject.asset_key)
    if row is None or not row.defined or row.location in _NO_FILES:
        return ""
    part = subject.partition_key
    option = "" if part is None else f" --partition {quote(partition(part))}"
    return f"servo materialize {quote(row.location)} {quote(subject.asset_key)}{option}"


def _goes_on(found: Finding) -> bool:
    """Whether something will start an asset again and again: a backfill ends."""
    return found.what is not What.BACKFILL
