"""Backfills, their chunks and what is known of partitions, as published."""

from servo.cli.output import plural
from servo.cli.workspace import Where
from servo.code.backfills.view import Backfill, in_tables
from servo.core.partitions import PartitionKey
from servo.core.state.rows.automation import BackfillRow
from servo.errors import Conflict, Invalid, NotFound
from servo.projection.read.lookup import Lookup, Page, Paged
from servo.projection.read.reader import Snapshot
from servo.projection.read.time_travel import snapshot_at
from servo.workspace.instance.instance import NOW


def newest_backfills(snapshot: Snapshot, page: Page) -> Paged[BackfillRow]:
    """A page of backfills, newest first."""
    return Lookup(snapshot).page(BackfillRow, page, name="backfill_id", newest=("created_at",))


def backfill_named(snapshot: Snapshot, name: str) -> BackfillRow | None:
    """The backfill of exactly this id, if there is one."""
    return next(iter(Lookup(snapshot).all(BackfillRow, backfill_id=name)), None)


def find_backfill(snapshot: Snapshot, name: str) -> Backfill:
    """The backfill whose id begins like this."""
    found = Lookup(snapshot).beginning(BackfillRow, "backfill_id", name)
    exact = [row for row in found if row.backfill_id == name]
    if not found:
        raise NotFound(f"there is no backfill {name}", remedy="see `servo backfill list`")
    if len(found) > 1 and not exact:
        raise Conflict(
            f"{plural(len(found), 'backfill')} begin with {name}", remedy="give more of the id"
        )
    row = (exact or found)[0]
    return in_tables(snapshot, row)


def shown_key(typed: str) -> str:
    """A partition for people."""
    try:
        return PartitionKey.parse(typed).display()
    except Invalid:
        return typed


def now_in(where: Where) -> Snapshot | None:
    """How a workspace stands to the last entry; None if nothing was ever written there."""
    try:
        target = where.open()
        return snapshot_at(target.store, target.paths, NOW)
    except NotFound:
        return None
