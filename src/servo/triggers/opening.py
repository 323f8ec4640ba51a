"""All kinds of triggers of a workspace, each with its evaluator processes.

Every code location has its own processes, which import only its code: a location cannot disturb the
evaluators of another.

Only processes that host triggers import this module.
"""

from collections.abc import Callable, Sequence
from functools import partial

from servo.code.evaluator.plan_store import PlanStore
from servo.code.evaluator.pool import SIZE, EvaluatorPool
from servo.code.process_setup import ProcessSetup
from servo.core.locations import just, one_of
from servo.leader.protocols import WatchedLeaderForTriggers
from servo.ports.world import World
from servo.triggers.backfills import Backfills
from servo.triggers.conditions import Conditions
from servo.triggers.host import TriggerContext, TriggerKind, Triggers
from servo.triggers.schedules import Schedules
from servo.triggers.sensors import SENSORS_AT_ONCE, Sensors


def open_triggers(
    leader: WatchedLeaderForTriggers,
    world: World,
    locations: Sequence[ProcessSetup],
    records: Callable[[], PlanStore],
    *,
    only_backfills: bool = False,
) -> Triggers:
    """Open all triggers of the workspace, or only those that continue backfills."""
    triggers = Triggers(leader, world.clock)
    for number, setup in enumerate(locations):
        name = setup.location.name
        # Triggers that name no location are evaluated once, by the first location.
        has = just(name) if number else one_of((name,))
        open_pool = partial(
            EvaluatorPool,
            setup,
            lambda: records().salt,
            clock=world.clock,
            entropy=world.entropy,
        )
        context = TriggerContext(leader, open_pool(size=SIZE), world.clock, world.entropy, has)
        kinds: list[TriggerKind] = [Backfills(context, records)]
        if not only_backfills:
            kinds += _evaluated(context, open_pool)
        triggers.add(name, context, kinds)
    return triggers


def _evaluated(
    context: TriggerContext, open_pool: Callable[..., EvaluatorPool]
) -> list[TriggerKind]:
    """The triggers that run user code, each kind with separate evaluators."""

    def beside(size: int) -> TriggerContext:
        return context.beside(open_pool(size=size))

    # A function may hang: triggers that only need the clock or a plan do not wait for it.
    schedules = Schedules(context, deciding=beside(SIZE))
    sensors = Sensors(beside(SENSORS_AT_ONCE))
    # One process, because an evaluation of conditions continues from the previous one.
    return [schedules, sensors, Conditions(beside(1))]
