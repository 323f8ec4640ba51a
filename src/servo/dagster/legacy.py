"""Small things that older files use."""

import logging
from types import SimpleNamespace
from typing import Any

from servo.sdk.resources import InitResourceContext, ResourceDefinition

LOGGER = "servo.asset"


class ExperimentalWarning(Warning):
    """Never given here; for `warnings.filterwarnings`."""


class BetaWarning(Warning):
    """Never given here; for `warnings.filterwarnings`."""


class PreviewWarning(Warning):
    """Never given here; for `warnings.filterwarnings`."""


class SupersessionWarning(FutureWarning):
    """Never given here; for `warnings.filterwarnings`."""


def get_dagster_logger(name: str | None = None) -> logging.Logger:
    """A logger whose lines are captured with those of the asset that runs."""
    return logging.getLogger(f"{LOGGER}.{name}" if name else LOGGER)


def make_values_resource(**kwargs: Any) -> ResourceDefinition:
    """A resource that is its configuration: values by name, of these types."""

    def values(context: InitResourceContext) -> SimpleNamespace:
        return SimpleNamespace(**(context.resource_config or {}))

    return ResourceDefinition(values, config_schema=kwargs or None)
