"""What the code of one location declares, as its deployment tells the workspace."""

from typing import TypeVar

import msgspec

from servo.core.events.assets import AssetDefinition
from servo.core.events.schedules import ScheduleUpserted
from servo.core.events.sensors import SensorUpserted

T = TypeVar("T", ScheduleUpserted, SensorUpserted)

LOCATION_LABEL = "servo/location"
"""The label of a schedule or a sensor that names the code it is from."""

EVALUATED_LABEL = "servo/evaluated"
"""The label of a schedule whose ticks are for user code to decide about."""

AUTOMATION_LABEL = "servo/automation"
"""The label of a sensor that evaluates conditions, and of the runs it asks for."""


KIND_LABEL = "servo/kind"
"""The label of a sensor that says what it looks at: `poll`, `push`, `assets` or `runs`.

One without it is not asked: it stands for something else.
"""


class Declared(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Assets, schedules and sensors, each as the event that defines it has it."""

    assets: tuple[AssetDefinition, ...] = ()
    schedules: tuple[ScheduleUpserted, ...] = ()
    sensors: tuple[SensorUpserted, ...] = ()

    def located(self, location: str) -> "Declared":
        """The same with its place in every label, so that it is known whose a schedule is."""
        named = {LOCATION_LABEL: location}
        return msgspec.structs.replace(
            self,
            schedules=tuple(_labelled(event, named) for event in self.schedules),
            sensors=tuple(_labelled(event, named) for event in self.sensors),
        )


def _labelled(event: T, labels: dict[str, str]) -> T:
    return msgspec.structs.replace(event, labels={**event.labels, **labels})
