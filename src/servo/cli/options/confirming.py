"""Asking for confirmation before something is changed for good."""

import sys

import click

from servo.errors import Invalid

DECLINED = 1
"""The exit code of a command that was not confirmed."""

yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")


def confirmed(question: str, *, yes: bool) -> bool:
    """Whether the user agrees; `Invalid` if there is nobody to ask."""
    if yes:
        return True
    try:
        return click.confirm(question, err=True)
    except click.Abort:  # Ctrl-C, or the end of the input
        if sys.stdin.isatty():
            raise
        raise Invalid(
            "confirmation is required, but standard input is not a terminal", remedy="pass --yes"
        ) from None
