"""`servo admin dead-letters`: requests that could not be applied."""

from base64 import b64decode

import click
from rich.text import Text

from servo.cli.options.groups import NounGroup
from servo.cli.options.moment import at_a_moment
from servo.cli.options.shared import json_option, paged, tell_older
from servo.cli.options.workspace import with_workspace
from servo.cli.rendering.output import console, emit_json, instant, size
from servo.cli.rendering.tables import grid
from servo.operations.dead_letters import get_dead_letter, list_dead_letters
from servo.operations.interface.listing import Page
from servo.operations.interface.moments import AsOf
from servo.workspace.workspace import Workspace


@click.group("dead-letters", cls=NounGroup)
def dead_letters() -> None:
    """Show requests that could not be applied and whose sender could not be told."""


@dead_letters.command("list", short_help="List the dead letters.")
@paged
@at_a_moment
@json_option
@with_workspace
def list_(*, workspace: Workspace, page: Page, as_of: AsOf | None, json_: bool) -> None:
    """List requests that could not be applied, newest first, and why."""
    found = list_dead_letters(workspace, page, as_of=as_of)
    if json_:
        emit_json(found)
        return
    table = grid("source", "hash", "recorded", "size", "status", "reason", whole=5)
    for row in found.items:
        table.add_row(
            row.source,
            row.sha256[:8],
            instant(row.recorded_at),
            size(row.size),
            row.status,
            Text(row.reason),
        )
    console().print(table if found.items else "There are no dead letters.")
    tell_older(found.next_cursor)


@dead_letters.command("show", short_help="Print what was sent.")
@click.argument("source")
@click.option("--sha256", default="", help="Beginning of its hash, if SOURCE has several letters.")
@json_option
@with_workspace
def show(*, workspace: Workspace, source: str, sha256: str, json_: bool) -> None:
    """Print exactly the bytes that were sent; why they were refused goes to standard error.

    SOURCE is from `servo admin dead-letters list`.
    """
    found = get_dead_letter(workspace, source, sha256=sha256)
    if json_:
        emit_json(found)
        return
    letter = found.letter
    click.echo(f"{letter.status} in entry {letter.seq}: {letter.reason}", err=True)
    data = (found.text or "").encode() if found.base64 is None else b64decode(found.base64)
    click.echo(data, nl=False)
