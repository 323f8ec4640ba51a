"""`servo list`, `servo check`, `servo init`: a project before anything runs."""

from pathlib import Path

import click

from servo.cli.new_project import begin_project
from servo.cli.options.code import as_dagster_option, tell_near_misses
from servo.cli.options.project import one_location
from servo.cli.options.shared import json_option
from servo.cli.rendering.output import console, emit_json, plural
from servo.cli.rendering.tables import grid
from servo.code.loader import load_location
from servo.errors import Conflict
from servo.sdk.definitions.needs import check_resources


@click.command("list")
@click.argument("code", required=False)
@json_option
@as_dagster_option
def list_(*, code: str | None, json_: bool, as_dagster: bool) -> None:
    """List the assets of CODE, a file or a module, upstream assets first."""
    project = load_location(one_location(code, as_dagster=as_dagster))
    if json_:
        emit_json(project.definitions())
        return
    table = grid("asset", "upstream", "group", "description", whole=1)
    for made in project.definitions():
        first = made.description.partition("\n")[0]
        table.add_row(made.asset_key, ", ".join(made.upstream), made.group, first)
    console().print(table)


@click.command("check")
@click.argument("code", required=False)
@as_dagster_option
def check(*, code: str | None, as_dagster: bool) -> None:
    """Load CODE, a file or a module, and report errors with file and line."""
    location = one_location(code, as_dagster=as_dagster)
    project = load_location(location)
    check_resources(project)
    tell_near_misses(project)
    console().print(f"{location.name}: {plural(len(project.specs), 'asset')}, no errors")


@click.command("init")
@click.argument("folder", default=".", type=click.Path(path_type=Path))
def init(*, folder: Path) -> None:
    """Create a project in FOLDER: a file with two example assets, and a project file.

    The project file is servo.toml, or a section of pyproject.toml if that exists. Existing files
    and settings are kept.
    """
    written = begin_project(folder)
    if not written:
        raise Conflict(f"{folder} already has a project", remedy="choose another folder")
    where = "" if folder == Path() else f"cd {folder} && "
    console().print(f"Wrote {', '.join(written)}. Next: {where}servo materialize")
