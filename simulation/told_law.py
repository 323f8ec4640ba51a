"""What callers were told about their batches, against what became of them.

- "Applied" is durable, and was applied once.
- "No" is no: a refusal, or an error that says that nothing was applied, stays true for ever.
- Anything else is "unknown": the batch may be applied, now or later, or never.

A batch may reach leaders several times, because callers repeat it and networks double it. Each copy
is told about separately. So what was applied must come from a copy that was not told "no".
"""

from collections import Counter
from collections.abc import Sequence

from servo.core.events.envelope import Answer, Batch, Entry, Status
from servo.core.events.tasks import TaskStarted
from servo.core.state.state import State
from servo.errors import Conflict, Invalid, NotFound, ServoError, Unavailable
from simulation.kernel import Violation
from simulation.laws import Law


def is_no(error: ServoError) -> bool:
    """Whether an error says that a batch was not applied, and never will be."""
    if isinstance(error, Unavailable):
        return not error.may_have_applied
    return isinstance(error, Invalid | Conflict | NotFound)


def _claims(batch: Batch) -> bool:
    """Whether a batch claims an attempt; claiming it again renews its lease."""
    return any(isinstance(event, TaskStarted) for event in batch.events)


class ToldLaw(Law):
    """Callers are told the truth about their batches, or that it is unknown."""

    def __init__(self) -> None:
        self._copies = Counter[str]()
        self._told_no = Counter[str]()
        self._why: dict[str, str] = {}
        self._applied: dict[str, int] = {}
        self._told_applied: dict[str, int] = {}

    # --- what callers see -----------------------------------------------------------------------

    def delivered(self, batch: Batch) -> None:
        """A copy of a batch has reached a leader."""
        self._copies[batch.id] += 1

    def answered(self, batch: Batch, answer: Answer) -> None:
        """A copy of a batch was answered."""
        if answer.status is Status.REJECTED and not answer.repeated:
            self._no(batch, f"rejected: {answer.reason}")
        elif answer.status is Status.APPLIED and not answer.repeated:
            self._told_applied[batch.id] = answer.seq

    def failed(self, batch: Batch, error: ServoError) -> None:
        """The caller of a copy was told an error."""
        if is_no(error):
            self._no(batch, f"{type(error).__name__}: {error.message}")

    def _no(self, batch: Batch, why: str) -> None:
        self._told_no[batch.id] += 1
        self._why[batch.id] = why
        self._check(batch.id)

    # --- what became of them --------------------------------------------------------------------

    def committed(self, entry: Entry, answers: Sequence[Answer], state: State) -> None:
        del state
        for batch, answer in zip(entry.batches, answers, strict=False):
            if answer.applied and not answer.repeated:
                self._apply(batch, entry.seq)

    def _apply(self, batch: Batch, seq: int) -> None:
        first = self._applied.setdefault(batch.id, seq)
        if first != seq and not _claims(batch):
            raise Violation(f"{batch.id} was applied by entry {first} and again by entry {seq}")
        self._check(batch.id)

    def _check(self, name: str) -> None:
        if name in self._applied and 0 < self._copies[name] <= self._told_no[name]:
            raise Violation(
                f"{name} was applied by entry {self._applied[name]}, but its callers were told "
                f"that it was not: {self._why[name]}"
            )

    def ended(self, state: State) -> None:
        del state
        for name, seq in self._told_applied.items():
            if name not in self._applied:
                raise Violation(f"{name} was told to be applied by entry {seq}, but it never was")
