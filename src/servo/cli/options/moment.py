"""The option `--as-of`: show a workspace as it was."""

from functools import wraps
from typing import Any

import click

from servo.cli.options.workspace import Command
from servo.operations.interface.moments import parse_moment

as_of_option = click.option(
    "--as-of", metavar="SEQ|TIME", help="Show the state as of a ledger entry or a time."
)


def at_a_moment(command: Command) -> Command:
    """Give a command the option that looks at the past, as its argument `as_of`."""

    @as_of_option
    @wraps(command)
    def wrapped(*, as_of: str | None, **rest: Any) -> Any:
        return command(as_of=None if as_of is None else parse_moment(as_of), **rest)

    return wrapped
