"""Evaluators of code without a leader: in this process, or in one that it starts."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache

from servo.code.evaluator.answering import EvaluatorHere
from servo.code.evaluator.loaded_location import EvaluatorEnvironment, LoadedLocation
from servo.code.evaluator.plan_store import PlanStore
from servo.code.evaluator.pool import EvaluatorPool
from servo.code.process_setup import ProcessSetup, open_instance
from servo.ports.object_store import ObjectStore
from servo.processes.asset_log import asset_log
from servo.sdk.definitions.project import Project
from servo.workspace.composition import system_clock, system_entropy


def evaluator_here(
    project: Project, setup: ProcessSetup, store: ObjectStore, *, salt: bytes
) -> EvaluatorHere:
    """An evaluator in this process, with the code that it has imported."""
    records = PlanStore(
        store=store, paths=setup.address.paths, salt=salt, location=setup.location.name
    )
    around = EvaluatorEnvironment(
        clock=system_clock(),
        entropy=system_entropy(),
        log=asset_log(),
        environ=os.environ,
        instance=cache(lambda: open_instance(setup)),
    )
    return EvaluatorHere(LoadedLocation(project, records, around))


@contextmanager
def evaluator_process(setup: ProcessSetup, *, salt: bytes) -> Generator[EvaluatorPool]:
    """A process with the code, which is killed when an answer takes too long."""
    evaluators = EvaluatorPool(
        setup, lambda: salt, clock=system_clock(), entropy=system_entropy(), size=1
    )
    try:
        yield evaluators
    finally:
        evaluators.close()
