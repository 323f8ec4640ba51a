"""The history of a workspace for sensors: every event once, in the order of the ledger.

An asset or run sensor remembers its position as a `HistoryCursor`: a ledger entry up to which it
has processed everything, and what it has processed after that. History is read from the published
tables; the caller names the entry that must be published, and the read waits for it.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from servo.core.state.rows.assets import MaterializationRow
from servo.core.state.rows.execution import RunRow, TaskRow
from servo.core.state.states import TERMINAL_RUN_STATES, RunState, TaskState
from servo.core.state.tables import TABLES
from servo.errors import Invalid, NotFound, Unavailable
from servo.ports.clock import Clock
from servo.projection.files.arrow import pc
from servo.projection.files.parquet import to_rows
from servo.projection.read.cold import ColdRows
from servo.projection.read.reader import Reader, Snapshot
from servo.sdk.triggers.run_requests import RunStatus

LOOK_EVERY = 0.05
PUBLISHED_WITHIN = 20.0

Pause = Callable[[float], Any]


class HistoryCursor(msgspec.Struct, frozen=True):
    """Everything up to the entry `seq` is processed, and these after it."""

    seq: int
    also: tuple[str, ...] = ()

    @classmethod
    def read(cls, cursor: str) -> "HistoryCursor":
        """The position that a cursor stands for."""
        try:
            found = msgspec.json.decode(cursor, type=int | tuple[int, tuple[str, ...]])
        except msgspec.DecodeError:
            raise Invalid(
                f"the cursor {cursor!r} is not a ledger entry",
                remedy="reset it with `servo sensor cursor NAME --reset`",
            ) from None
        return cls(found) if isinstance(found, int) else cls(*found)

    def text(self) -> str:
        """This position as a cursor."""
        told: Any = (self.seq, self.also) if self.also else self.seq
        return msgspec.json.encode(told).decode()

    def after(self, name: str) -> "HistoryCursor":
        """The position after this is processed as well."""
        return HistoryCursor(self.seq, (*self.also, name))


class History:
    """The published tables of a workspace."""

    def __init__(self, reader: Reader, cold: ColdRows, clock: Clock, pause: Pause) -> None:
        self._reader = reader
        self._cold = cold
        self._clock = clock
        self._pause = pause
        self._known: dict[str, str] = {}

    def snapshot(self, seq: int) -> Snapshot:
        """The newest tables, as soon as the entry `seq` is in them."""
        until = self._clock.monotonic() + PUBLISHED_WITHIN
        while True:
            try:
                return self._reader.snapshot(min_seq=seq or None)
            except Unavailable:
                if self._clock.monotonic() > until:
                    raise
                self._pause(LOOK_EVERY)

    def made(
        self, snapshot: Snapshot, asset_key: str, after: int
    ) -> list[tuple[int, MaterializationRow]]:
        """The outputs of an asset that came into use after an entry, with theirs, in order."""
        table = snapshot.changed_since("materializations", after)
        rows = to_rows(TABLES["materializations"], table.filter(pc.field("asset_key") == asset_key))
        found = [(in_use_since(row), row) for row in rows if isinstance(row, MaterializationRow)]
        new = [(seq, row) for seq, row in found if seq is not None and seq > after]
        return sorted(new, key=lambda pair: (pair[0], pair[1].materialization_id))

    def runs(self, snapshot: Snapshot, status: RunStatus, place: HistoryCursor) -> list[RunRow]:
        """The runs that came to stand so after a place, in the order of the ledger."""
        rows = to_rows(TABLES["runs"], snapshot.changed_since("runs", place.seq))
        runs = [row for row in rows if isinstance(row, RunRow)]
        new = [r for r in runs if r.run_id not in place.also and _HAS_BEEN[status](r)]
        return sorted(new, key=lambda row: (row.row_version, row.run_id))

    def run(self, snapshot: Snapshot, run_id: str) -> RunRow | None:
        """A run, if there is one of this id."""
        table = snapshot.table("runs")
        rows = to_rows(TABLES["runs"], table.filter(pc.field("run_id") == run_id))
        return next((row for row in rows if isinstance(row, RunRow)), None)

    def still_open(self, snapshot: Snapshot, names: Sequence[str]) -> tuple[str, ...]:
        """Those of these runs that may still change."""
        if not names:
            return ()
        table = snapshot.table("runs")
        rows = to_rows(TABLES["runs"], table.filter(pc.field("run_id").isin(list(names))))
        found = {row.run_id: row.state for row in rows if isinstance(row, RunRow)}
        return tuple(name for name in names if found.get(name) not in TERMINAL_RUN_STATES)

    def failures(self, snapshot: Snapshot, run_id: str) -> list[TaskRow]:
        """The tasks of a run that failed."""
        table = snapshot.table("tasks")
        rows = to_rows(TABLES["tasks"], table.filter(pc.field("run_id") == run_id))
        return [r for r in rows if isinstance(r, TaskRow) and r.state is TaskState.FAILED]

    def last_run_key(self, sensor_id: str) -> str | None:
        """The key of the last run that a sensor requested."""
        table = self.snapshot(0).table("sensor_evals")
        wanted = (pc.field("sensor_id") == sensor_id) & ~pc.field("stale")
        rows: Any = to_rows(TABLES["sensor_evals"], table.filter(wanted))
        asked = [row for row in rows if row.run_keys]
        last = max(asked, key=lambda row: row.row_version, default=None)
        return None if last is None else last.run_keys[-1]

    def fingerprints(self, run_keys: Sequence[str], seq: int) -> dict[str, str]:
        """The run keys in use, each with the fingerprint of its request.

        A key stays in use for ever. A key that is not found may have been used since; the fold
        then decides.
        """
        asked = [key for key in dict.fromkeys(run_keys) if key not in self._known]
        if asked:
            with suppress(NotFound):  # a workspace that does not exist yet has no run keys
                manifest = self.snapshot(seq).manifest
                found: Any = self._cold.fetch(manifest, "run_key_index", asked)
                self._known |= {row.run_key: row.request_fingerprint for row in found}
        return {key: self._known[key] for key in run_keys if key in self._known}

    def conflicts(self, pairs: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
        """The run keys and fingerprints whose conflict is recorded."""
        if not pairs:
            return set()
        found: Any = self._cold.fetch(self.snapshot(0).manifest, "run_key_conflicts", list(pairs))
        return {(row.run_key, row.conflicting_fingerprint) for row in found}


def in_use_since(row: MaterializationRow) -> int | None:
    """The entry since which an output counts: that of its task, or of its approval.

    None if it does not count, or if it was approved and its data has expired since: then the entry
    is no longer known, and a newer output has replaced it.
    """
    if not row.promoted:
        return None
    if row.decided_at is None:
        return row.created_seq
    return None if row.expired_at is not None else row.row_version


def _failed(row: RunRow) -> bool:
    return row.state in (RunState.FAILED, RunState.TIMED_OUT)


def _ever(_: RunRow) -> bool:
    return True


def _never(_: RunRow) -> bool:
    return False


_HAS_BEEN: dict[RunStatus, Callable[[RunRow], bool]] = {
    RunStatus.QUEUED: _ever,
    RunStatus.NOT_STARTED: _ever,
    RunStatus.MANAGED: _never,
    RunStatus.STARTING: lambda row: row.started_at is not None,
    RunStatus.STARTED: lambda row: row.started_at is not None,
    RunStatus.SUCCESS: lambda row: row.state is RunState.SUCCEEDED,
    RunStatus.FAILURE: _failed,
    RunStatus.CANCELING: lambda row: row.cancel_requested_at is not None,
    RunStatus.CANCELED: lambda row: row.state is RunState.CANCELLED,
}
"""Whether a run stands so, or once did."""
