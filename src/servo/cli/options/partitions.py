"""Partitions as they are named on the command line."""

import click

from servo.cli.options.workspace import Command


def with_partitions(command: Command) -> Command:
    """Give a command the options that name partitions, as its arguments `partitions`, `ranges`."""
    one = click.option(
        "--partition",
        "partitions",
        multiple=True,
        metavar="KEY",
        help="A partition to materialize; repeatable.",
    )
    several = click.option(
        "--partition-range",
        "ranges",
        multiple=True,
        nargs=2,
        metavar="FIRST LAST",
        help="Partitions to materialize, from FIRST to LAST.",
    )
    return one(several(command))


def partition_option(command: Command) -> Command:
    """Give a command the option that names one partition, as its argument `partition`."""
    return click.option(
        "--partition", help="Partition key, if it is awkward to write after a colon."
    )(command)
