"""Small names that older files use."""

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
    """Never issued here; for `warnings.filterwarnings`."""


class BetaWarning(Warning):
    """Never issued here; for `warnings.filterwarnings`."""


class PreviewWarning(Warning):
    """Never issued here; for `warnings.filterwarnings`."""


class SupersessionWarning(FutureWarning):
    """Never issued here; for `warnings.filterwarnings`."""


def get_dagster_logger(name: str | None = None) -> logging.Logger:
    """A logger whose lines are captured with those of the running asset."""
    return logging.getLogger(f"{LOGGER}.{name}" if name else LOGGER)


class BindResourcesToJobs(list[Any]):
    """The jobs unchanged: every job has the resources of its `Definitions`."""


class PipesClient(ABC):
    """A client that runs an external process: a resource with a method `run`."""

    __servo_resource__ = True

    @abstractmethod
    def run(self, *, context: Any, extras: Any = None, **options: Any) -> Any:
        """Run the process and return a `PipesClientCompletedInvocation`."""


@contextmanager
def instance_for_test(**options: Any) -> Generator[Any]:
    """An in-memory instance for the duration of a block; it needs no options."""
    del options
    yield import_module("servo").ServoInstance.ephemeral()


def make_values_resource(**kwargs: Any) -> ResourceDefinition:
    """A resource that is its configuration: values by name, of these types."""

    def values(context: InitResourceContext) -> SimpleNamespace:
        return SimpleNamespace(**(context.resource_config or {}))

    return ResourceDefinition(values, config_schema=kwargs or None)
