"""What the code of one location declares when it is deployed."""

from typing import TypeVar

import msgspec

from servo.core.events.assets import AssetDefinition
from servo.core.events.schedules import ScheduleUpserted
from servo.core.events.sensors import SensorUpserted

T = TypeVar("T", ScheduleUpserted, SensorUpserted)

LOCATION_LABEL = "servo/location"
"""The label with the code location of a schedule or a sensor."""

EVALUATED_LABEL = "servo/evaluated"
"""The label of a schedule whose ticks are evaluated by user code."""

AUTOMATION_LABEL = "servo/automation"
"""The label of a sensor that evaluates conditions, and of the runs it requests."""


KIND_LABEL = "servo/kind"
"""The label with the kind of a sensor: `poll`, `push`, `assets` or `runs`.

A sensor without it is not evaluated.
"""


class Declared(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Assets, schedules and sensors, each as the event that defines it has it."""

    assets: tuple[AssetDefinition, ...] = ()
    schedules: tuple[ScheduleUpserted, ...] = ()
    sensors: tuple[SensorUpserted, ...] = ()

    def located(self, location: str) -> "Declared":
        """The same with the code location in every label."""
        named = {LOCATION_LABEL: location}
        return msgspec.structs.replace(
            self,
            schedules=tuple(_labelled(event, named) for event in self.schedules),
            sensors=tuple(_labelled(event, named) for event in self.sensors),
        )


def _labelled(event: T, labels: dict[str, str]) -> T:
    return msgspec.structs.replace(event, labels={**event.labels, **labels})
