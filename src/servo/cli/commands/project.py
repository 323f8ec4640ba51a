"""`servo list`, `servo check`, `servo init`: a project before anything runs."""

from pathlib import Path

import click

from servo.cli.options.code import as_dagster_option
from servo.cli.options.project import one_location
from servo.cli.options.shared import json_option
from servo.cli.rendering.output import console, emit_json, plural
from servo.cli.rendering.tables import grid
from servo.host.projects import check_project, create_project, list_definitions


@click.command("list")
@click.argument("code", required=False)
@json_option
@as_dagster_option
def list_(*, code: str | None, json_: bool, as_dagster: bool) -> None:
    """List the assets of CODE, a file or a module, upstream assets first."""
    found = list_definitions(one_location(code, as_dagster=as_dagster))
    if json_:
        emit_json(found)
        return
    table = grid("asset", "upstream", "group", "description", whole=1)
    for made in found.items:
        first = made.description.partition("\n")[0]
        table.add_row(made.asset_key, ", ".join(made.upstream), made.group, first)
    console().print(table)


@click.command("check")
@click.argument("code", required=False)
@json_option
@as_dagster_option
def check(*, code: str | None, json_: bool, as_dagster: bool) -> None:
    """Load CODE, a file or a module, and report errors with file and line."""
    found = check_project(one_location(code, as_dagster=as_dagster))
    if json_:
        emit_json(found)
        return
    for hint in found.hints:
        console(stderr=True).print(f"hint: {hint}")
    console().print(f"{found.location}: {plural(found.assets, 'asset')}, no errors")


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
