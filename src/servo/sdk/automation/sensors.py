"""Which sensor evaluates the condition of which asset or check.

A project with conditions has a default sensor that evaluates them. An
`AutomationConditionSensorDefinition` takes over those of its target; two sensors cannot have the
same target.
"""

from typing import Any

from servo.core.declared import AUTOMATION_LABEL
from servo.core.events.sensors import SensorUpserted
from servo.sdk.automation.graph import DEFAULT_SENSOR, ConditionSubject, divided, text_of
from servo.sdk.definitions.project import Project
from servo.sdk.triggers.run_requests import DefaultSensorStatus
from servo.sdk.triggers.sensors import AutomationConditionSensorDefinition

INTERVAL_S = 1.0
MOST_NAMED = 3


def sensors_of_conditions(project: Project) -> dict[str, list[ConditionSubject]]:
    """The sensors that evaluate conditions, and the assets and checks of each."""
    given = project.sensors.values()
    return divided(
        project, [one for one in given if isinstance(one, AutomationConditionSensorDefinition)]
    )


def subjects_of_sensor(project: Project, sensor_id: str) -> frozenset[ConditionSubject]:
    """The assets and checks whose conditions a sensor evaluates."""
    return frozenset(sensors_of_conditions(project).get(sensor_id, ()))


def run_tags_of(project: Project, sensor_id: str) -> dict[str, str]:
    """The tags of the runs that a sensor requests."""
    return dict(_definition(project, sensor_id).run_tags or {})


def declared_sensors(project: Project) -> tuple[SensorUpserted, ...]:
    """The sensors of conditions that a deployment records."""
    found = sensors_of_conditions(project)
    return tuple(_declared(project, name, of) for name, of in found.items())


def _declared(project: Project, name: str, of: list[ConditionSubject]) -> SensorUpserted:
    sensor = _definition(project, name)
    seconds = sensor.minimum_interval_seconds
    return SensorUpserted(
        sensor_id=name,
        asset_selection=tuple(text_of(one) for one in of[:100]),
        min_interval_ms=round((INTERVAL_S if seconds is None else seconds) * 1000),
        enabled=sensor.default_status is DefaultSensorStatus.RUNNING,
        labels={AUTOMATION_LABEL: "conditions"},
        target=_described(name, sensor.target, of),
    )


def _described(name: str, target: Any, of: list[ConditionSubject]) -> str:
    """The assets and checks of a sensor, as users write them."""
    if name == DEFAULT_SENSOR:
        return "everything that has a condition"
    if isinstance(target, str):
        return target
    more = f" and {len(of) - MOST_NAMED} more" if len(of) > MOST_NAMED else ""
    return ", ".join(text_of(one) for one in of[:MOST_NAMED]) + more


def _definition(project: Project, name: str) -> AutomationConditionSensorDefinition:
    given: Any = project.sensors.get(name)
    if given is not None:
        return given
    running = DefaultSensorStatus.RUNNING
    return AutomationConditionSensorDefinition(name=name, target="*", default_status=running)
