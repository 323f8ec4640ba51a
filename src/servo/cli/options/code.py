"""Options about the code of a command."""

import click

from servo.cli.rendering.output import console
from servo.sdk.definitions.needs import near_misses
from servo.sdk.definitions.project import Project

as_dagster_option = click.option(
    "--as-dagster", is_flag=True, help="Load code that imports dagster; Servo replaces it."
)


def tell_near_misses(project: Project) -> None:
    """Print hints about dependencies that may be misspelt, on standard error."""
    for told in near_misses(project):
        console(stderr=True).print(f"hint: {told}")
