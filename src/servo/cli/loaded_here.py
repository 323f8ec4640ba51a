"""Who evaluates what a person asks for: this process, or one that it starts."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from servo.cli.workspace import Where
from servo.code.evaluator.answering import EvaluatorHere
from servo.code.evaluator.loaded_location import EvaluatorEnvironment, LoadedLocation
from servo.code.evaluator.plan_store import PlanStore
from servo.code.evaluator.pool import EvaluatorPool
from servo.code.setting import open_instance
from servo.host.leading import setting_for
from servo.ledger.paths import Paths
from servo.ports.object_store import ObjectStore
from servo.processes.asset_log import asset_log
from servo.sdk.definitions.project import Project
from servo.workspace.system import SystemClock


def loaded_here(
    project: Project, store: ObjectStore, where: Where, *, salt: bytes
) -> LoadedLocation:
    """Where what a person asks for is evaluated: here, as the plan of `servo materialize` is."""
    clock = SystemClock()
    records = PlanStore(store=store, paths=Paths(where.tenant, where.workspace), salt=salt)
    setting = setting_for("", Path.cwd(), where.url, tenant=where.tenant, workspace=where.workspace)
    around = EvaluatorEnvironment(
        clock=clock,
        log=asset_log(),
        environ=os.environ,
        instance=cache(lambda: open_instance(setting)),
    )
    return LoadedLocation(project, records, around)


def evaluator_here(
    project: Project, store: ObjectStore, where: Where, *, salt: bytes
) -> EvaluatorHere:
    """The evaluator that operations ask: the code that this command has loaded."""
    return EvaluatorHere(loaded_here(project, store, where, salt=salt))


@contextmanager
def evaluator_process(
    code: str, where: Where, *, salt: bytes, as_dagster: bool
) -> Generator[EvaluatorPool]:
    """A process with the code, which is killed when an answer takes too long."""
    setting = setting_for(
        code,
        Path.cwd(),
        where.url,
        tenant=where.tenant,
        workspace=where.workspace,
        as_dagster=as_dagster,
    )
    evaluators = EvaluatorPool(setting, lambda: salt, size=1)
    try:
        yield evaluators
    finally:
        evaluators.close()
