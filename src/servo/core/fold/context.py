"""What a rule of the fold receives, and how it refuses.

A rule is a function `(state, event, ctx) -> None`. It changes rows through the state's tables, puts
data for the caller into `ctx.data`, and refuses by raising. A refusal reverts the whole batch.
Nothing here reads a clock: the time of an entry is `state.ts`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from servo.core.events.automation import AutomationTicked
from servo.core.events.backfills import BackfillChunkPlanned
from servo.core.events.envelope import Batch, Verdict, WaitsUntil
from servo.core.events.schedules import ScheduleTicked
from servo.core.events.sensors import SensorEvaluated
from servo.core.state.state import State

HEADS = (ScheduleTicked, SensorEvaluated, AutomationTicked, BackfillChunkPlanned)
"""What triggers record: each causes what follows it in its batch."""


class Rejected(Exception):
    """The batch does not apply: it is invalid, or the state it is based on has changed.

    `waits_for` names the run that a parkable batch waits for, and `until` what must become of it.
    `conflict` marks a refusal that the caller can resolve by reading again, `seq` the entry that it
    conflicts with, if that is known.
    """

    def __init__(
        self,
        reason: str,
        *,
        waits_for: str = "",
        until: WaitsUntil = WaitsUntil.REQUESTED,
        conflict: bool = False,
        seq: int | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.waits_for = waits_for
        self.until = until
        self.conflict = conflict
        self.seq = seq


class Repeated(Exception):
    """The event was applied before: it changes nothing, and the caller gets its answer again.

    A rule raises it before it changes anything. `whole` says that what follows in the batch was
    applied with it: the batch then ends here. `at` is the position of the event then, if known.
    """

    def __init__(self, *, whole: bool = False, at: str = "", **data: str | int) -> None:
        super().__init__("repeated")
        self.whole = whole
        self.at = at
        self.data = data


class Ctx(msgspec.Struct):
    """One batch on its way through the fold.

    `seq`, `first` and `index` say where the batch, and the event that is being applied, stand in
    the ledger; of a batch that waited that is where it was written.
    """

    batch: Batch
    seq: int = 0
    first: int = 0
    index: int = 0
    known: str = ""
    data: dict[str, str | int] = {}
    conflict: str = ""
    ended_runs: list[str] = []
    verdict: Verdict | None = None

    @property
    def position(self) -> str:
        """The position of the event that is being applied."""
        return f"{self.seq}.{self.index}"

    @property
    def correlation(self) -> str:
        """The id of everything that follows from the request that this batch goes back to."""
        return self.batch.correlation or f"{self.seq}.{self.first}"

    @property
    def cause(self) -> str:
        """What led to this event: the head of its batch, or what led to that."""
        if self.index > self.first and isinstance(self.batch.events[0], HEADS):
            return f"{self.seq}.{self.first}"
        return self.batch.cause

    def index_in(self, seq: int) -> int | None:
        """The place of this event in an entry; None if its batch waited and is in another."""
        return self.index if self.seq == seq else None

    def repeats(self, position: str) -> None:
        """Note where an event was applied before; the caller is told that of the first one."""
        if self.index == self.first:
            self.known = position


FoldRule = Callable[[State, Any, Ctx], None]

RefusalRule = Callable[[State, Any, Ctx, Verdict], None]
"""What a refused event leaves all the same, after everything its batch did is taken back."""

NeededRows = Iterable[tuple[str, object]]
"""Rows that a rule looks up: the table and the key of each."""

NeedsTable = Mapping[type[Any], Callable[[Any], NeededRows]]
"""The rows that the rule of an event looks up and that the event itself names.

Old rows leave memory, so they are fetched before the batch is applied.
"""

FurtherNeedsTable = Mapping[type[Any], Callable[[State, Any], NeededRows]]
"""The rows that are only known once those of `NeedsTable` are in memory.

For example, a finished task names its run and task; the row of the task names its partition.
"""
"""How an event of one type changes the state."""
