"""`servo sql`: query the tables of a workspace, now or at any moment of its past."""

import csv
import sys
from datetime import datetime
from decimal import Decimal
from itertools import islice
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from servo.cli.options.moment import at_a_moment
from servo.cli.options.workspace import with_workspace
from servo.cli.rendering.output import console, emit_json, instant, number, plural
from servo.cli.rendering.tables import headed
from servo.operations.interface.moments import AsOf
from servo.operations.sql import SqlResult, run_sql
from servo.workspace.workspace import Workspace

_FORMATS = click.Choice(["table", "csv", "json"])


@click.command("sql")
@click.argument("statement")
@click.option(
    "--format",
    "format_",
    type=_FORMATS,
    default="table",
    show_default=True,
    help="Output format; json prints one object per row.",
)
@click.option("--json", "json_", is_flag=True, help="Print columns, rows and position as JSON.")
@at_a_moment
@with_workspace
def sql(
    *, workspace: Workspace, statement: str, format_: str, as_of: AsOf | None, json_: bool
) -> None:
    """Query the tables of a workspace and the data of its assets with SQL.

    STATEMENT is one SELECT, or - to read it from standard input. "show tables" lists the tables
    and "describe runs" the columns of one. Read maps as labels['team'] and nested values as
    source->>'$.kind'.

    The data of an asset is data."shop/orders", or data.orders if no other key ends with it.
    """
    text = sys.stdin.read() if statement == "-" else statement
    answer = run_sql(workspace, text, as_of=as_of)
    match "struct" if json_ else format_:
        case "struct":
            emit_json(answer)
        case "json":
            emit_json([dict(zip(answer.columns, row, strict=True)) for row in answer.rows])
        case "csv":
            _print_csv(answer)
        case _:
            _print_table(answer)


# --- formats --------------------------------------------------------------------------------------


def _print_csv(answer: SqlResult) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(answer.columns)
    writer.writerows([_plain(value, null="") for value in row] for row in answer.rows)


def _print_table(answer: SqlResult) -> None:
    out = console()
    table = _table(answer)
    if _fits(out, table):
        out.print(table)
    else:
        _print_records(out, answer)
    rows = plural(len(answer.rows), "row")
    where = f"entry {number(answer.applied_seq)}, {instant(answer.as_of)}"
    console(stderr=True).print(Text(f"{rows} · {where}", style="dim"))


def _table(answer: SqlResult) -> Table:
    table = headed()
    for place, name in enumerate(answer.columns):
        numbers = any(_is_number(row[place]) for row in islice(answer.rows, 20))
        table.add_column(name, justify="right" if numbers else "left", no_wrap=True)
    for row in answer.rows:
        table.add_row(*(_cell(value) for value in row))
    return table


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _fits(out: Console, table: Table) -> bool:
    return Measurement.get(out, out.options.update(width=100_000), table).maximum <= out.width


def _print_records(out: Console, answer: SqlResult) -> None:
    """Print row by row, one column per line, where a table would be too wide."""
    width = max(map(len, answer.columns))
    for count, row in enumerate(answer.rows, start=1):
        out.print(Text(f"── {count} ", style="bold"))
        for name, value in zip(answer.columns, row, strict=True):
            line = Text.assemble((f"{name:<{width}}  ", "cyan"), _cell(value))
            out.print(line, soft_wrap=True)


def _cell(value: Any) -> Text:
    return Text("null", style="dim") if value is None else Text(_plain(value))


def _plain(value: Any, *, null: str = "null") -> str:
    match value:
        case None:
            return null
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case datetime():
            return value.isoformat(sep=" ").replace("+00:00", "Z")
        case dict() | list() | tuple():
            return msgspec.json.encode(value, enc_hook=str).decode()
        case _:
            return str(value)
