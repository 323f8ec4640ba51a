"""Small things that older files use."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from servo.sdk.resources.resources import InitResourceContext, ResourceDefinition

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


class BindResourcesToJobs(list[Any]):
    """Jobs, as they are: every job has the resources of its `Definitions`."""


class PipesClient(ABC):
    """What runs a process elsewhere and hears from it: a resource with a method `run`."""

    __servo_resource__ = True

    @abstractmethod
    def run(self, *, context: Any, extras: Any = None, **options: Any) -> Any:
        """Run it, and return a `PipesClientCompletedInvocation`."""


@contextmanager
def instance_for_test(**options: Any) -> Generator[Any]:
    """An instance in memory, for as long as a block runs; it needs no options."""
    del options
    yield import_module("servo").ServoInstance.ephemeral()


def make_values_resource(**kwargs: Any) -> ResourceDefinition:
    """A resource that is its configuration: values by name, of these types."""

    def values(context: InitResourceContext) -> SimpleNamespace:
        return SimpleNamespace(**(context.resource_config or {}))

    return ResourceDefinition(values, config_schema=kwargs or None)
