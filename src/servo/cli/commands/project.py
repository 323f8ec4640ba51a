"""`servo list`, `servo check`, `servo init`: a project before anything runs."""

from pathlib import Path

import click

from servo.cli.code import as_dagster_option, find_code, tell_near_misses
from servo.cli.options import json_option
from servo.cli.output import console, emit_json, plural
from servo.cli.tables import grid
from servo.code.loader import load_project
from servo.errors import Conflict
from servo.sdk.definitions.needs import check_resources

_FIRST = '''"""A first project: `servo materialize` makes everything in it."""

from servo import asset


@asset
def orders():
    """Where the data comes from."""
    return [{"customer": "ada", "amount": 3}, {"customer": "bob", "amount": 4}]


@asset
def revenue(orders):
    """What is made from it: the parameter names the asset."""
    return sum(order["amount"] for order in orders)
'''


@click.command("list")
@click.argument("code", required=False)
@json_option
@as_dagster_option
def list_(*, code: str | None, json_: bool, as_dagster: bool) -> None:
    """List the assets of CODE, a file or a module, in an order they can be made in."""
    folder = Path.cwd()
    project = load_project(find_code(code, folder), folder, as_dagster=as_dagster)
    if json_:
        emit_json(project.definitions())
        return
    table = grid("asset", "made from", "group", "description", whole=1)
    for made in project.definitions():
        first = made.description.partition("\n")[0]
        table.add_row(made.asset_key, ", ".join(made.upstream), made.group, first)
    console().print(table)


@click.command("check")
@click.argument("code", required=False)
@as_dagster_option
def check(*, code: str | None, as_dagster: bool) -> None:
    """Load CODE, a file or a module, and say what is wrong with it by file and line."""
    folder = Path.cwd()
    name = find_code(code, folder)
    project = load_project(name, folder, as_dagster=as_dagster)
    check_resources(project)
    tell_near_misses(project)
    console().print(f"{name}: {plural(len(project.specs), 'asset')}, nothing wrong")


@click.command("init")
@click.argument("folder", default=".", type=click.Path(path_type=Path))
def init(*, folder: Path) -> None:
    """Begin a project in FOLDER: one file of assets that runs as it is."""
    file = folder / "assets.py"
    if file.exists():
        raise Conflict(f"there is a file {file}", remedy="name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(_FIRST)
    where = "" if folder == Path() else f"cd {folder} && "
    console().print(f"wrote {file}; now: {where}servo materialize")
