"""Which code a command is about."""

import click

from servo.cli.rendering.output import console
from servo.sdk.definitions.needs import near_misses
from servo.sdk.definitions.project import Project

as_dagster_option = click.option(
    "--as-dagster", is_flag=True, help="Load code that imports dagster; Servo replaces it."
)


def tell_near_misses(project: Project) -> None:
    """Remark on what is depended on and may be misspelt, next to what a command prints."""
    for told in near_misses(project):
        console(stderr=True).print(f"hint: {told}")
