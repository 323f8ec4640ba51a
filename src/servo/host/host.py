"""Who carries out what a command asks for.

`LeadingHost` leads the workspace in this process; `AttachedHost` has the process that leads do the
work, and takes over when that process ends. Commands cannot tell them apart.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, overload

from servo.code.backfills.view import Backfill
from servo.core.declared import Declared
from servo.core.events.envelope import Event
from servo.core.plan import Plan
from servo.core.state.rows.automation import BackfillRow, ScheduleDefinitionRow
from servo.core.state.rows.execution import RunRow, TaskRow
from servo.ledger.paths import Paths
from servo.ports.object_store import ObjectStore
from servo.workspace.origins import Cause
from servo.workspace.run_requests import Wanted


class Host(Protocol):
    """Carries out runs and backfills, here or in another process."""

    paths: Paths

    @property
    def leads(self) -> bool:
        """Whether the work is done in this process."""
        ...

    @property
    def store(self) -> ObjectStore:
        """Where plans are stored."""
        ...

    @property
    def salt(self) -> bytes:
        """What the ids of runs are made with."""
        ...

    def deploy(self, location: str, declared: Declared) -> None:
        """Tell the workspace what the code declares, unless it knows."""
        ...

    def request(
        self,
        plan: Plan,
        run_key: str,
        *,
        tags: Mapping[str, str] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> str:
        """Ask for a run of a plan; its id."""
        ...

    def ask(self, wanted: Wanted) -> str:
        """Ask for a run; its id."""
        ...

    def repeat(self, run: RunRow, plan: Plan, run_key: str) -> str:
        """Ask for a run that repeats what another left undone, with its tags; its id."""
        ...

    def submit(self, events: Sequence[Event], *, cause: Cause | None = None) -> list[str]:
        """Commit events together; the ids of the runs they ask for. `Conflict` if refused.

        `cause` is the row of what led to them.
        """
        ...

    def schedule(self, name: str) -> ScheduleDefinitionRow:
        """A deployed schedule."""
        ...

    def begun_runs(self) -> list[str]:
        """Runs that have not ended and can be carried out here, oldest first."""
        ...

    def open_runs(self) -> list[RunRow]:
        """Runs that have not ended, oldest first."""
        ...

    @overload
    def wait(self, run: str) -> RunRow: ...
    @overload
    def wait(self, run: str, timeout: float) -> RunRow | None: ...

    def wait(self, run: str, timeout: float | None = None) -> RunRow | None:
        """Until a run has ended, or for so many seconds; its last row, None if it goes on."""
        ...

    def row(self, run: str) -> RunRow | None:
        """A run as it stands."""
        ...

    def tasks(self, run: str) -> list[TaskRow]:
        """The tasks of a run, as they stand."""
        ...

    def running(self) -> list[TaskRow]:
        """The tasks that run now."""
        ...

    def backfill(self, name: str) -> Backfill | None:
        """A backfill as it stands."""
        ...

    def open_backfills(self) -> list[BackfillRow]:
        """Backfills that have not ended, oldest first."""
        ...

    def check(self) -> None:
        """Raise what keeps the work from being done."""
        ...

    def interrupt(self) -> str:
        """Stop, after Ctrl-C; what to tell the person who did it."""
        ...

    def finish(self) -> None:
        """Let what runs here for others end, before leaving."""
        ...
