"""Push sensors: evaluated once for each message that is sent to them.

    @push_sensor(target="orders")
    def order_placed(context):
        return RunRequest(run_key=str(context.payload["order"]))

A message has an id, so sending it again changes nothing. Once acknowledged, a message is evaluated
even if every process dies in between. Messages come from `servo sensor push`, from
`ServoInstance.push_sensor_message`, or from anything else that can write to the store.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from servo.errors import Invalid
from servo.sdk.resources.resources import Resources
from servo.sdk.triggers.run_requests import SensorResult
from servo.sdk.triggers.sensors import (
    SensorDefinition,
    SensorEvaluationContext,
    SensorFunction,
    decorator_of,
)


class PushSensorContext(SensorEvaluationContext):
    """The context of a push sensor's function: `payload`, `message_id` and `received_at`."""

    def __init__(
        self,
        *,
        message_id: str = "",
        payload: Any = None,
        received_at: datetime | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.message_id = message_id
        self.payload = payload
        self.received_at = received_at

    def update_cursor(self, cursor: str | None) -> None:
        """Not supported: messages have ids and need no cursor."""
        del cursor
        raise _no_cursor(self.sensor_name)


class PushSensorDefinition(SensorDefinition, frozen=True, kw_only=True):
    """A sensor that is evaluated once for each message."""

    def evaluate(self, context: SensorEvaluationContext) -> SensorResult:
        """The runs to request, or the reason for none."""
        found = super().evaluate(context)
        if found.cursor is not None:
            raise _no_cursor(self.name)
        return found


def push_sensor(
    fn: SensorFunction | None = None, /, *, name: str | None = None, **options: Any
) -> Any:
    """Define a sensor by a function that is called once for each message.

        @push_sensor(target="orders")
        def order_placed(context):
            return RunRequest(run_key=str(context.payload["order"]))

    The options are those of `SensorDefinition`.
    """
    return decorator_of(fn, PushSensorDefinition, name, options)


def build_push_sensor_context(
    payload: Any = None,
    message_id: str = "message",
    instance: Any = None,
    resources: Mapping[str, Any] | None = None,
    sensor_name: str = "",
) -> PushSensorContext:
    """Build a context to call the function of a push sensor in a test."""
    return PushSensorContext(
        payload=payload,
        message_id=message_id,
        instance=instance,
        resources=Resources(resources),
        sensor_name=sensor_name,
    )


def _no_cursor(name: str) -> Invalid:
    return Invalid(
        f"sensor {name} is a push sensor and has no cursor",
        remedy="do not set a cursor: each message is evaluated once, by its id",
    )
