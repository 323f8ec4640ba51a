"""All kinds of triggers of a workspace, each with the processes that evaluate for it.

Imported where triggers are wanted, and not by whoever only makes assets.
"""

from collections.abc import Callable

from servo.code.evaluator.pool import SIZE, Office
from servo.code.evaluator.records import Records
from servo.code.setting import Setting
from servo.leader.service import Service, World
from servo.triggers.backfills import Backfills
from servo.triggers.conditions import Conditions
from servo.triggers.host import Kind, Means, Triggers
from servo.triggers.schedules import Schedules
from servo.triggers.sensors import SENSORS_AT_ONCE, Sensors


def open_triggers(
    service: Service,
    world: World,
    setting: Setting,
    records: Callable[[], Records],
    *,
    only_backfills: bool = False,
) -> Triggers:
    """What starts runs without a person in this workspace, or only what backfills go on with."""

    def office(size: int) -> Office:
        return Office(setting, lambda: records().salt, size=size)

    means = Means(service, office(SIZE), world.clock, world.entropy)
    kinds: list[Kind] = [Backfills(means, records)]
    if not only_backfills:
        sensors = Sensors(means.beside(office(SENSORS_AT_ONCE)))
        # One process, because an evaluation of conditions goes on from the one before.
        conditions = Conditions(means.beside(office(1)))
        # A function may hang: what only clocks and plans decide about does not wait for it.
        schedules = Schedules(means, deciding=means.beside(office(SIZE)))
        kinds += [schedules, sensors, conditions]
    return Triggers(service, world.clock, means, kinds)
