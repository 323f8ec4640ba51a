"""Which code a command is about."""

import click

as_dagster_option = click.option(
    "--as-dagster", is_flag=True, help="Run code that imports dagster; Servo takes its place."
)
