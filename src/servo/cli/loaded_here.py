"""Evaluating in the process of a command what a person asks for."""

import os
from functools import cache
from pathlib import Path

from servo.cli.workspace import Where
from servo.code.evaluator.loaded_location import EvaluatorEnvironment, LoadedLocation
from servo.code.evaluator.plan_store import PlanStore
from servo.code.setting import CodeLocation, open_instance
from servo.ledger.paths import Paths
from servo.ports.object_store import ObjectStore
from servo.processes.asset_log import asset_log
from servo.sdk.definitions.project import Project
from servo.workspace.system import SystemClock


def loaded_here(
    project: Project, store: ObjectStore, where: Where, *, salt: bytes, location: str = ""
) -> LoadedLocation:
    """Where what a person asks for is evaluated: here, as the plan of `servo materialize` is."""
    clock = SystemClock()
    paths = Paths(where.tenant, where.workspace)
    records = PlanStore(store=store, paths=paths, salt=salt, location=location)
    setting = where.setting(CodeLocation(name=location, code="", folder=str(Path.cwd())))
    around = EvaluatorEnvironment(
        clock=clock,
        log=asset_log(),
        environ=os.environ,
        instance=cache(lambda: open_instance(setting)),
    )
    return LoadedLocation(project, records, around)
