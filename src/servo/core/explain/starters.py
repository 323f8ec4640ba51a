"""Everything that would make an asset without being told to.

Each starter is given an asset, or one of its partitions, and tells what it found about it. That is
where evaluations of automation conditions belong too: a module beside those of schedules, sensors
and backfills, in the place of `_condition`.
"""

from collections.abc import Callable
from shlex import quote

from servo.core.explain.backfills import backfills
from servo.core.explain.finding import Finding, Mood, What
from servo.core.explain.records import Records, Subject
from servo.core.explain.schedules import schedules
from servo.core.explain.sensors import sensors
from servo.core.explain.words import partition, place

Starter = Callable[[Records, Subject], list[Finding]]


def _condition(records: Records, subject: Subject) -> list[Finding]:
    row = records.asset(subject.asset_key)
    if row is None or not row.automation_condition:
        return []
    text = f"its automation condition: {row.automation_condition}"
    return [Finding(what=What.CONDITION, mood=Mood.NOTE, subject=subject.asset_key, text=text)]


STARTERS: tuple[Starter, ...] = (schedules, sensors, backfills, _condition)


def starters(records: Records, subject: Subject, *, settled: bool = True) -> list[Finding]:
    """Everything that would start an asset by itself; that there is nothing, if so.

    `settled` says that nothing else has to be done first.
    """
    found = [finding for starter in STARTERS for finding in starter(records, subject)]
    if any(_starts(finding) for finding in found):
        return found
    row = records.asset(subject.asset_key)
    code = quote(row.location) if row is not None and row.location else ""
    part = "" if subject.partition_key is None else partition(subject.partition_key)
    options = f" --partition {quote(part)}" if part else ""
    nothing = Finding(
        what=What.NOTHING,
        mood=Mood.NOTE,
        subject=place(subject.asset_key, subject.partition_key),
        text="nothing makes it by itself: no schedule, sensor or automation condition is about it",
        next="make it by hand" if settled else "when that is settled, make it by hand",
        command=f"servo materialize {code} {quote(subject.asset_key)}{options}" if code else "",
    )
    return [*found, nothing]


def _starts(found: Finding) -> bool:
    """Whether something will go on starting an asset: a backfill ends."""
    return found.what is not What.BACKFILL
