"""Which moment a command looks at: now, or with `--as-of` any of the past."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

import click

from servo.cli.output import progress
from servo.cli.workspace import Target
from servo.errors import Invalid
from servo.projection.read.reader import Reader, Snapshot
from servo.projection.read.replay import AsOf
from servo.projection.read.time_travel import snapshot_at

T = TypeVar("T")

as_of_option = click.option(
    "--as-of", metavar="SEQ|TIME", help="After a ledger entry, or at an instant."
)


def look(target: Target, as_of: str | None, use: Callable[[Snapshot], T]) -> T:
    """What `use` makes of a workspace as it is, or as it was."""
    if as_of is None:
        return Reader(target.store, target.paths).read(use)
    moment = parse_moment(as_of)
    with progress() as bar:

        def step(seq: int) -> None:
            bar("replaying the ledger", seq, moment if isinstance(moment, int) else seq)

        snapshot = snapshot_at(target.store, target.paths, moment, progress=step)
    return use(snapshot)


def parse_moment(text: str) -> AsOf:
    """A ledger entry or an instant, as people write them; without a zone it is UTC."""
    if text.isdecimal():
        return int(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise Invalid(
            f"{text!r} is neither the number of an entry nor an instant",
            remedy="write 1234, 2026-01-31 or 2026-01-31T12:00:00Z",
        ) from None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
