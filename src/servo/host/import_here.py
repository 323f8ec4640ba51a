"""Importing the code of a location into the process of a command."""

import os

from servo.code.loader import load_location
from servo.errors import ServoError
from servo.processes.redacted_output import redacted_prints
from servo.sdk.definitions.project import Project
from servo.sdk.resources.environment import set_environment
from servo.sdk.resources.redaction import hidden
from servo.sdk.resources.secrets import set_secrets
from servo.workspace.code_location import CodeLocation


def import_here(location: CodeLocation) -> Project:
    """What the code defines. What it prints meanwhile, and an error, are redacted.

    Its secrets can be read from then on: some commands evaluate a schedule in their own process.
    """
    set_environment(os.environ)
    known = hidden()
    try:
        with redacted_prints(known):
            project = load_location(location)
    except ServoError as error:
        if not known:
            raise
        message, remedy = known.text(error.message), known.text(error.remedy)
        raise type(error)(message, remedy=remedy) from None
    set_secrets(project.secrets)
    return project
