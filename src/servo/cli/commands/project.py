"""`servo list`, `servo check`, `servo init`: a project before anything runs."""

from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import click

from servo.cli.options.code import as_dagster_option
from servo.cli.options.project import locations
from servo.cli.options.shared import json_option
from servo.cli.options.workspace import Command
from servo.cli.rendering.output import EXIT_CODES, console, emit_json, fail, plural
from servo.cli.rendering.tables import grid
from servo.errors import Invalid
from servo.host.checking import LocationReport, check_locations, report_locations
from servo.host.projects import create_project
from servo.operations.interface.listing import Listing
from servo.workspace.code_location import CodeLocation


def _of_locations(command: Command) -> Command:
    """Give a command the locations that its argument CODE names, as its argument `chosen`."""

    @click.argument("code", nargs=-1)
    @json_option
    @as_dagster_option
    @wraps(command)
    def wrapped(*, code: Sequence[str], as_dagster: bool, **rest: Any) -> Any:
        return command(chosen=locations(code, as_dagster=as_dagster), **rest)

    return wrapped


@click.command("list")
@_of_locations
def list_(*, chosen: Sequence[CodeLocation], json_: bool) -> int:
    """List the assets of CODE, upstream assets first.

    CODE is one or more files, modules or code locations; without it, all of the project file.
    """
    return _tell(report_locations(chosen), _show_assets, json_=json_)


@click.command("check")
@_of_locations
def check(*, chosen: Sequence[CodeLocation], json_: bool) -> int:
    """Load CODE and report errors with file and line.

    CODE is one or more files, modules or code locations; without it, all of the project file.
    """
    return _tell(check_locations(chosen), _show_checks, json_=json_)


def _tell(
    found: list[LocationReport],
    show: Callable[[Sequence[LocationReport]], None],
    *,
    json_: bool,
) -> int:
    """Print the reports on locations, and their errors; the exit code."""
    if json_:
        emit_json(Listing(items=found))
    else:
        show(found)
    return _fail_for(found)


def _show_checks(found: Sequence[LocationReport]) -> None:
    for report in found:
        for hint in report.hints:
            console(stderr=True).print(f"hint: {hint}")
        if not report.error:
            count = plural(len(report.assets), "asset")
            console().print(f"{report.location}: {count}, no errors")


def _show_assets(reports: Sequence[LocationReport]) -> None:
    found = [report for report in reports if not report.error]
    several = len(found) > 1
    columns = ("asset", "upstream", "group", "description")
    table = grid(*(["location"] if several else []), *columns, whole=2 if several else 1)
    for report in found:
        for made in report.assets:
            place = [report.location] if several else []
            first = made.description.partition("\n")[0]
            table.add_row(*place, made.asset_key, ", ".join(made.upstream), made.group, first)
    console().print(table)


def _fail_for(found: Sequence[LocationReport]) -> int:
    """Print the errors of locations; the exit code."""
    broken = [report for report in found if report.error]
    for report in broken:
        fail(f"{report.location}: {report.error}")
    return EXIT_CODES[Invalid] if broken else 0


@click.command("init")
@click.argument("folder", default=".", type=click.Path(path_type=Path))
@json_option
def init(*, folder: Path, json_: bool) -> None:
    """Create a project in FOLDER: a file with two example assets, and a project file.

    The project file is servo.toml, or a section of pyproject.toml if that exists. Existing files
    and settings are kept.
    """
    found = create_project(folder)
    if json_:
        emit_json(found)
        return
    where = "" if folder == Path() else f"cd {folder} && "
    console().print(f"Wrote {', '.join(found.files)}. Next: {where}servo materialize")
