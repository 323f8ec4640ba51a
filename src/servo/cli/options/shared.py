"""Options that many commands have, so that they mean the same everywhere."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from servo.cli.options.workspace import Command
from servo.cli.rendering.output import console
from servo.operations.interface.listing import DEFAULT_LIMIT, MAX_LIMIT, Page

json_option = click.option("--json", "json_", is_flag=True, help="Print the result as JSON.")


def limit_option(what: str) -> Callable[[Command], Command]:
    """The option for the size of a page, as the argument `limit`."""
    return click.option(
        "--limit",
        type=click.IntRange(1, MAX_LIMIT),
        default=DEFAULT_LIMIT,
        show_default=True,
        help=f"Maximum number of {what}, up to {MAX_LIMIT}.",
    )


def paged(command: Command) -> Command:
    """Give a command the options of a list that begins with the newest, as its argument `page`."""

    @limit_option("rows")
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
