"""All kinds of triggers of a workspace, each with the processes that evaluate for it.

Imported where triggers are wanted, and not by whoever only makes assets.
"""

from collections.abc import Callable

from servo.code.evaluator.plan_store import PlanStore
from servo.code.evaluator.pool import SIZE, EvaluatorPool
from servo.code.setting import Setting
from servo.leader.service import Service, World
from servo.triggers.backfills import Backfills
from servo.triggers.conditions import Conditions
from servo.triggers.host import Means, TriggerKind, Triggers
from servo.triggers.schedules import Schedules
from servo.triggers.sensors import SENSORS_AT_ONCE, Sensors


def open_triggers(
    service: Service,
    world: World,
    setting: Setting,
    records: Callable[[], PlanStore],
    *,
    only_backfills: bool = False,
) -> Triggers:
    """What starts runs without a person in this workspace, or only what backfills go on with."""

    def evaluators(size: int) -> EvaluatorPool:
        return EvaluatorPool(setting, lambda: records().salt, size=size)

    means = Means(service, evaluators(SIZE), world.clock, world.entropy)
    kinds: list[TriggerKind] = [Backfills(means, records)]
    if not only_backfills:
        sensors = Sensors(means.beside(evaluators(SENSORS_AT_ONCE)))
        # One process, because an evaluation of conditions goes on from the one before.
        conditions = Conditions(means.beside(evaluators(1)))
        # A function may hang: what only clocks and plans decide about does not wait for it.
        schedules = Schedules(means, deciding=means.beside(evaluators(SIZE)))
        kinds += [schedules, sensors, conditions]
    return Triggers(service, world.clock, means, kinds)
