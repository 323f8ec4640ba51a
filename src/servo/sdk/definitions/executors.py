"""Executors: how many tasks of a project run at the same time.

Servo always runs code on its own warm workers. These names, known from Dagster, only limit how many
workers it starts.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

import msgspec

from servo.errors import Invalid


class ExecutorDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """The maximum number of concurrent tasks; None leaves it to the command that starts workers."""

    name: str
    max_concurrent: int | None = None

    def configured(
        self, config_or_config_fn: Mapping[str, Any] | None = None, name: str | None = None
    ) -> "ExecutorDefinition":
        """A copy with a limit: `configured({"max_concurrent": 4})`."""
        config = config_or_config_fn or {}
        if not isinstance(config, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - people pass functions
            raise Invalid(
                f"the executor {self.name} is configured with {config!r}",
                remedy='use configured({"max_concurrent": 4})',
            )
        refuse_unknown(config, what=f"the executor {self.name}")
        kind = next((kind for kind in _KINDS if kind in config), None)
        if kind is not None:
            return _KINDS[kind].configured(config[kind] or {}, name or self.name)
        most = _limit(config.get("max_concurrent"))
        return ExecutorDefinition(
            name=name or self.name, max_concurrent=self.max_concurrent or most
        )


_KNOWN = (
    "max_concurrent",
    "retries",
    "start_method",
    "tag_concurrency_limits",
    "marker_to_close",
    "in_process",
    "multiprocess",
)
"""The accepted options; only the limits have an effect, since the workers manage the rest."""


def refuse_unknown(config: Mapping[str, Any], *, what: str) -> None:
    """Raise `Invalid` for an option that no executor has."""
    unknown = [key for key in config if key not in _KNOWN]
    if unknown:
        close = get_close_matches(str(unknown[0]), _KNOWN, n=1)
        raise Invalid(
            f"{what} has no option {unknown[0]!r}",
            remedy=f"did you mean {close[0]!r}?" if close else "use max_concurrent",
        )


def _limit(given: Any) -> int | None:
    """The maximum number of concurrent tasks; 0 means no limit."""
    if given is not None and (not isinstance(given, int) or isinstance(given, bool) or given < 0):
        raise Invalid(f"max_concurrent is {given!r}", remedy="use a whole number of at least 1")
    return given or None


in_process_executor = ExecutorDefinition(name="in_process", max_concurrent=1)
multiprocess_executor = ExecutorDefinition(name="multiprocess")
multi_or_in_process_executor = ExecutorDefinition(name="multi_or_in_process")

_KINDS = {"in_process": in_process_executor, "multiprocess": multiprocess_executor}


def check_executor(value: object, *, what: str) -> ExecutorDefinition | None:
    """Check that a value is one of these executors or None."""
    if value is None or isinstance(value, ExecutorDefinition):
        return value
    kind = getattr(value, "name", None) or type(value).__name__
    raise Invalid(
        f"{what}: there is no executor {kind}",
        remedy="use in_process_executor or multiprocess_executor, or leave it out: "
        "Servo runs everything on its own workers",
    )


def at_most(workers: int, *executors: ExecutorDefinition | None) -> int:
    """How many workers to start, if so many are asked for."""
    limits = [e.max_concurrent for e in executors if e is not None and e.max_concurrent]
    return min([workers, *limits])
