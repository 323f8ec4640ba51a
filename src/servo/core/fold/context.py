"""What a rule of the fold gets and how it refuses.

A rule is a function `(state, event, ctx) -> None`. It changes rows through the state's tables,
leaves what the caller should know in `ctx.data`, and refuses by raising. Refusing takes back the
whole batch. Nothing here reads a clock: the time of an entry is `state.ts`.
"""

from collections.abc import Callable

import msgspec

from servo.core.events.envelope import Batch
from servo.core.state.state import State


class Rejected(Exception):
    """The batch does not apply: what it saw is no longer so.

    `waits_for` names the run that has to exist first; a parkable batch then waits for it.
    `conflict` marks a refusal that the caller can resolve by reading again.
    """

    def __init__(self, reason: str, *, waits_for: str = "", conflict: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.waits_for = waits_for
        self.conflict = conflict


class Repeated(Exception):
    """The event was applied before: it changes nothing, and the caller gets its answer again.

    A rule raises it before it changes anything. `whole` says that what follows in the batch was
    applied with it: the batch then ends here.
    """

    def __init__(self, *, whole: bool = False, **data: str | int) -> None:
        super().__init__("repeated")
        self.whole = whole
        self.data = data


class Ctx(msgspec.Struct):
    """One batch on its way through the fold.

    A rule that refuses may leave in `on_reject` what is to be recorded all the same. It runs after
    everything the batch did is taken back, and does nothing the second time.
    """

    batch: Batch
    data: dict[str, str | int] = {}
    conflict: str = ""
    ended_runs: list[str] = []
    on_reject: Callable[[State], None] | None = None
