"""Which moment a command looks at: now, or with `--as-of` any of the past."""

from collections.abc import Generator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import click

from servo.cli.options.workspace import Command
from servo.cli.rendering.output import progress
from servo.operations.moments import AsOf, Progress, ignore, parse_moment

as_of_option = click.option(
    "--as-of", metavar="SEQ|TIME", help="Show the past: after a ledger entry, or at a time."
)


def at_a_moment(command: Command) -> Command:
    """Give a command the option that looks at the past, as its argument `as_of`."""

    @as_of_option
    @wraps(command)
    def wrapped(*, as_of: str | None, **rest: Any) -> Any:
        return command(as_of=None if as_of is None else parse_moment(as_of), **rest)

    return wrapped


@contextmanager
def replaying(as_of: AsOf | None) -> Generator[Progress]:
    """Show how far the ledger was replayed, for a read of the past that may take a while."""
    if as_of is None:
        yield ignore
        return
    with progress() as bar:

        def step(seq: int) -> None:
            bar("replaying the ledger", seq, as_of if isinstance(as_of, int) else seq)

        yield step
