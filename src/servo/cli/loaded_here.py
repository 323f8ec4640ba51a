"""Who evaluates what a person asks for: this process, or one that it starts."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from servo.cli.options.workspace import Where
from servo.code.evaluator.answering import EvaluatorHere
from servo.code.evaluator.loaded_location import EvaluatorEnvironment, LoadedLocation
from servo.code.evaluator.plan_store import PlanStore
from servo.code.evaluator.pool import EvaluatorPool
from servo.code.setting import CodeLocation, open_instance
from servo.ports.object_store import ObjectStore
from servo.processes.asset_log import asset_log
from servo.sdk.definitions.project import Project
from servo.workspace.system import SystemClock


def loaded_here(
    project: Project, store: ObjectStore, where: Where, *, salt: bytes, location: str = ""
) -> LoadedLocation:
    """Where what a person asks for is evaluated: here, as the plan of `servo materialize` is."""
    clock = SystemClock()
    records = PlanStore(store=store, paths=where.address.paths, salt=salt, location=location)
    setting = where.setting(CodeLocation(name=location, code="", folder=str(Path.cwd())))
    around = EvaluatorEnvironment(
        clock=clock,
        log=asset_log(),
        environ=os.environ,
        instance=cache(lambda: open_instance(setting)),
    )
    return LoadedLocation(project, records, around)


def evaluator_here(
    project: Project, store: ObjectStore, where: Where, *, salt: bytes, location: str = ""
) -> EvaluatorHere:
    """The evaluator that operations ask: the code that this command has loaded."""
    return EvaluatorHere(loaded_here(project, store, where, salt=salt, location=location))


@contextmanager
def evaluator_process(
    location: CodeLocation, where: Where, *, salt: bytes
) -> Generator[EvaluatorPool]:
    """A process with the code, which is killed when an answer takes too long."""
    evaluators = EvaluatorPool(where.setting(location), lambda: salt, size=1)
    try:
        yield evaluators
    finally:
        evaluators.close()
