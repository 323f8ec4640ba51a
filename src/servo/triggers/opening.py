"""All kinds of triggers of a workspace, each with the processes that evaluate for it.

Every code location has its own, with processes that import nothing but its code: what one location
does to its evaluators is of no concern to the others.

Imported where triggers are wanted, and not by whoever only makes assets.
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
    """What starts runs without a person in this workspace, or only what backfills go on with."""
    triggers = Triggers(leader, world.clock)
    for number, setup in enumerate(locations):
        name = setup.location.name
        # What names no location is evaluated once, and so by the first of them.
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
    """What user code decides about, each kind with evaluators of its own."""

    def beside(size: int) -> TriggerContext:
        return context.beside(open_pool(size=size))

    # A function may hang: what only clocks and plans decide about does not wait for it.
    schedules = Schedules(context, deciding=beside(SIZE))
    sensors = Sensors(beside(SENSORS_AT_ONCE))
    # One process, because an evaluation of conditions goes on from the one before.
    return [schedules, sensors, Conditions(beside(1))]
