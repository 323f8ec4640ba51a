"""Options about the code of a command."""

import click

as_dagster_option = click.option(
    "--as-dagster", is_flag=True, help="Load code that imports dagster; Servo replaces it."
)
