"""Executions that wait in a pool, in the order in which they are to begin: lanes share by weight.

Each execution has a turn, a point in virtual time: its lane's last turn, or that of what ended last
if the lane had nothing here, plus a distance that is the shorter the more weight the lane has. The
earliest turn goes first. So the first execution of a lane goes before almost all of another lane's
backlog, a lane that is alone keeps the order in which it came, and every turn comes.

An execution keeps its turn until it is over: what is taken back from a process waits where it was.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from itertools import count

from servo.leader.assignments import Assignment

DISTANCE = 1_000_000

Turn = tuple[int, int]


class FairQueue:
    """The executions of a pool that no process has, and the turns of all that it holds."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Turn, Assignment]] = []
        self._turns: dict[str, Turn] = {}
        self._last: dict[str, int] = {}
        self._now = 0
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Assignment]:
        return (assignment for _, assignment in self._waiting)

    def __contains__(self, assignment: Assignment) -> bool:
        return self._place(assignment) is not None

    @property
    def lanes(self) -> int:
        """How many lanes are remembered."""
        return len(self._last)

    def extend(self, assignments: Iterable[Assignment]) -> None:
        """Have executions wait, each at its turn; those that had one keep it."""
        for assignment in assignments:
            turn = self._turns.get(assignment.exec_id)
            if turn is None:
                turn = self._turns[assignment.exec_id] = self._next_turn(assignment)
            insort(self._waiting, (turn, assignment), key=_turn)

    def _next_turn(self, assignment: Assignment) -> Turn:
        before = max(self._now, self._last.get(assignment.lane, 0))
        self._last[assignment.lane] = before + _distance(assignment)
        return before + _distance(assignment), next(self._numbers)

    def is_before(self, one: Assignment, other: Assignment) -> bool:
        """Whether the turn of one comes before that of the other."""
        return self._turns[one.exec_id] < self._turns[other.exec_id]

    def remove(self, assignment: Assignment) -> None:
        """It waits no longer: a process has it, or nobody wants it."""
        place = self._place(assignment)
        if place is not None:
            del self._waiting[place]

    def pop(self) -> Assignment:
        """The one whose turn comes last."""
        return self._waiting.pop()[1]

    def ended(self, assignment: Assignment) -> None:
        """It has run: virtual time has come to its turn."""
        turn = self._turns.pop(assignment.exec_id, None)
        if turn is not None:
            self._now = max(self._now, turn[0])
        self._forget_lanes()

    def gone(self, assignment: Assignment) -> None:
        """It was given back or given up: its lane has had one turn less."""
        if self._turns.pop(assignment.exec_id, None) is not None:
            self._last[assignment.lane] -= _distance(assignment)
        self._forget_lanes()

    def _forget_lanes(self) -> None:
        if not self._turns:
            self._last.clear()

    def _place(self, assignment: Assignment) -> int | None:
        turn = self._turns.get(assignment.exec_id)
        if turn is None:
            return None
        place = bisect_left(self._waiting, turn, key=_turn)
        found = place < len(self._waiting) and self._waiting[place][0] == turn
        return place if found else None


def _turn(waiting: tuple[Turn, Assignment]) -> Turn:
    return waiting[0]


def _distance(assignment: Assignment) -> int:
    return max(DISTANCE // assignment.weight, 1)
