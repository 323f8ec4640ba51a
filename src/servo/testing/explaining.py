"""Asking why in tests: the tables of a story, and an answer as lines that a test can compare."""

from collections.abc import Iterable, Iterator
from typing import Any

from servo.core.explain.finding import Finding, FindingStatus
from servo.core.explain.records import Records
from servo.core.state import derived
from servo.core.state.state import State
from servo.testing.builders import Story

_MARKS = {
    FindingStatus.DONE: "+",
    FindingStatus.WAITS: "?",
    FindingStatus.FAILED: "!",
    FindingStatus.NOTE: "-",
}


class StateTables:
    """The tables of a folded state, asked for rows as `Records` asks."""

    def __init__(self, state: State) -> None:
        self._state = state

    def rows(self, table: str, *, most: int | None = None, **where: str) -> list[Any]:
        rows: list[Any] = [row for row in derived.rows(self._state, table) if _matches(row, where)]
        return sorted(rows, key=lambda row: row.row_version, reverse=True)[:most]


def _matches(row: Any, where: dict[str, str]) -> bool:
    return all(_has(getattr(row, name), value) for name, value in where.items())


def _has(held: Any, value: str) -> bool:
    if isinstance(held, tuple):
        return value in held
    return (str(held) if isinstance(held, int) else held) == value


def records_of(story: Story, *, led: bool | None = None, whole: bool = False) -> Records:
    """What is on record at this moment of a story."""
    return Records(StateTables(story.state), story.now, led=led, whole=whole)


def outline(*findings: Finding) -> list[str]:
    """Findings as lines: what led to one stands below it, further in."""
    return list(_lines(findings, ""))


def _lines(findings: Iterable[Finding], indent: str) -> Iterator[str]:
    for finding in findings:
        yield f"{indent}{_MARKS[finding.status]} {finding.text}"
        if finding.next:
            yield f"{indent}  > {finding.next}"
        if finding.command:
            yield f"{indent}  $ {finding.command}"
        yield from _lines(finding.because, f"{indent}  ")
