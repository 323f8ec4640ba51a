"""Which moment a command looks at: now, or with `--as-of` any of the past."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import click

from servo.cli.output import progress
from servo.cli.workspace import Command, Target
from servo.operations.moments import parse_moment
from servo.projection.read.reader import Reader, Snapshot
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


def at_a_moment(command: Command) -> Command:
    """Give a command the option that looks at the past, as its argument `as_of`."""

    @as_of_option
    @wraps(command)
    def wrapped(*, as_of: str | None, **rest: Any) -> Any:
        return command(as_of=None if as_of is None else parse_moment(as_of), **rest)

    return wrapped
