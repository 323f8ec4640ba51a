"""What one publish takes from the state, and into which tier each row goes.

Rows of tables that are only asked by key go straight to the closed tier; all others to the active
one. A run that is closing has its rows written to the closed tier, and for each a tombstone with
the very version of the row to the active one. A row that the fold dropped gets a tombstone with
the version of the capture, which hides every older version in either tier; rows of runs may have
copies in both, so theirs goes to both.
"""

from datetime import datetime
from typing import Any

import msgspec

from servo.core.manifest import Tier
from servo.core.state.rows.row import Row
from servo.core.state.tables import TABLES, Residency
from servo.projection.files.parquet import Tombstone
from servo.projection.publish.closing import ClosingRun


class PendingPublish(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be published: the position of the state, its changes, and the runs that move."""

    seq: int
    epoch: int
    ts: datetime
    last_hash: str
    min_reader: int = 1
    previous_seq: int
    changed: dict[str, dict[Any, Row | None]]
    closing: tuple[ClosingRun, ...] = ()


class TierChange:
    """The rows and tombstones of one table that go into one tier."""

    __slots__ = ("rows", "tombstones")

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.tombstones: list[Tombstone] = []


TierChanges = dict[tuple[str, Tier], TierChange]


def changes_of(capture: PendingPublish) -> TierChanges:
    """Everything to be written, by table and tier."""
    changes: TierChanges = {}
    for table, changed in capture.changed.items():
        _add_changed(changes, table, changed, capture.seq)
    for run in capture.closing:
        for table, held in run.rows.items():
            if held:
                _change(changes, table, Tier.CLOSED).rows.extend(row for _, row in held)
                tombstones = _change(changes, table, Tier.ACTIVE).tombstones
                tombstones.extend((key, row.row_version) for key, row in held)
    return changes


def _add_changed(
    changes: TierChanges, table: str, changed: dict[Any, Row | None], seq: int
) -> None:
    residency = TABLES[table].residency
    home = Tier.CLOSED if residency is Residency.HISTORY else Tier.ACTIVE
    rows = [row for row in changed.values() if row is not None]
    if rows:
        _change(changes, table, home).rows.extend(rows)
    dropped = [(key, seq) for key, row in changed.items() if row is None]
    if dropped:
        for tier in Tier if residency is Residency.RUN else (home,):
            _change(changes, table, tier).tombstones.extend(dropped)


def _change(changes: TierChanges, table: str, tier: Tier) -> TierChange:
    return changes.setdefault((table, tier), TierChange())
