"""How many tasks the config of a run allows at once on this machine.

The section `execution` is that of an executor in Dagster: `{"config": {"max_concurrent": 3}}`, also
under the name of the executor, `{"config": {"multiprocess": {"max_concurrent": 3}}}`; `in_process`
is one at a time.
"""

from collections.abc import Mapping
from typing import Any, cast

from servo.errors import Invalid
from servo.sdk.definitions.executors import refuse_unknown

IN_PROCESS = "in_process"
MULTIPROCESS = "multiprocess"
MOST = "max_concurrent"


def parallelism(config: Mapping[str, Any], workers: int) -> int:
    """How many of these workers a run with this config uses."""
    execution = _mapping(config.get("execution"))
    given = _mapping(execution.get("config", execution))
    if IN_PROCESS in given or IN_PROCESS in execution:
        return 1
    inner = _mapping(given.get(MULTIPROCESS, given))
    limits = _mapping(inner.get("config", inner))
    refuse_unknown(limits, what="the configuration of the execution")
    most: Any = limits.get(MOST)
    if most is None or most == 0:  # as many as there are
        return workers
    if not isinstance(most, int) or most < 0:
        raise Invalid(
            f"invalid {MOST} in the execution config: {most!r}",
            remedy="use a whole number; 0 means one per worker",
        )
    return min(most, workers)


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
