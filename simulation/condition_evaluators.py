"""Whether incremental evaluations of conditions agree with a fresh start.

Once the world is quiet, every host has an evaluator of conditions as old as its process. Its result
is then compared with one that starts from what is recorded.
"""

from datetime import datetime, timedelta

from servo.code.evaluator.conditions import ConditionEvaluator, Preview
from servo.sdk.automation.graph import DEFAULT_SENSOR
from simulation.faults import PlainStore
from simulation.kernel import START, Process, Violation
from simulation.trigger_hosts import Host, SimulatedLocation
from simulation.trigger_project import project_of
from simulation.world import SimulatedWorld

TAKES_MS = 3_000


def check_condition_evaluators(
    world: SimulatedWorld, processes: list[Process], store: PlainStore
) -> None:
    """Compare every incremental evaluator with a fresh one."""
    options = world.swarm.triggers
    if options is None or not options.conditions:
        return
    now = START + timedelta(microseconds=world.kernel.now)
    anew: dict[str, Preview] = {}
    going_on: dict[str, Preview] = {}
    for process in processes:
        evaluator = _evaluator_of(world.hosts.get(process.name)) if process.alive else None
        if evaluator is not None:
            loaded = SimulatedLocation(world, process, project_of(world, options), store)
            anew[process.name] = _settled(ConditionEvaluator(loaded, DEFAULT_SENSOR), now)
            process.spawn(lambda p=process, r=evaluator: _keep(going_on, p.name, r, now))
    world.kernel.run_until(world.kernel.ms + TAKES_MS)
    if going_on.keys() != anew.keys():
        raise Violation("an evaluation of conditions does not end")
    for name, found in going_on.items():
        _check(found, anew[name])


def _evaluator_of(host: Host | None) -> ConditionEvaluator | None:
    locations = [] if host is None else [evaluators.loaded for evaluators in host.evaluator_pools]
    condition_evaluators = (loaded.condition_evaluators.get(DEFAULT_SENSOR) for loaded in locations)
    return next((evaluator for evaluator in condition_evaluators if evaluator is not None), None)


def _keep(
    found: dict[str, Preview], name: str, evaluator: ConditionEvaluator, now: datetime
) -> None:
    found[name] = _settled(evaluator, now)


def _settled(evaluator: ConditionEvaluator, now: datetime) -> Preview:
    """The result of an evaluation without further changes."""
    first = evaluator.preview(now)
    if first.requested:
        raise Violation(f"nothing has happened, but {first.requested} is requested")
    return evaluator.preview(now)


def _check(going_on: Preview, anew: Preview) -> None:
    if going_on == anew:
        return
    other = [key for key, tree in anew.trees.items() if going_on.trees.get(key) != tree]
    raise Violation(
        f"an incremental and a fresh evaluation differ in the conditions of {other or 'when'}"
    )
