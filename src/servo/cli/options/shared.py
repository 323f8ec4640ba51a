"""Options that many commands have, so that they mean the same everywhere."""

from functools import wraps
from typing import Any

import click

from servo.cli.options.workspace import Command
from servo.cli.rendering.output import console
from servo.operations.interface.listing import Page

json_option = click.option("--json", "json_", is_flag=True, help="Print the result as JSON.")


def paged(command: Command) -> Command:
    """Give a command the options of a list that begins with the newest, as its argument `page`."""

    @click.option(
        "--limit",
        type=click.IntRange(1),
        default=20,
        show_default=True,
        help="Maximum number of rows.",
    )
    @click.option(
        "--before", metavar="ID", help="Only rows older than this one, to see the next page."
    )
    @wraps(command)
    def wrapped(*, limit: int, before: str | None, **rest: Any) -> Any:
        return command(page=Page(limit=limit, before=before), **rest)

    return wrapped


def tell_older(older: str | None) -> None:
    """Print the option for the next page, if there is one."""
    if older is not None:
        console().print(f"More: --before {older}")
