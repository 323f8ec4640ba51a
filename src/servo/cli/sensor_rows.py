"""The sensors of a workspace as they were published, and what came of their evaluations."""

from difflib import get_close_matches

import msgspec

from servo.core.events.sensors import SensorMode
from servo.core.state.rows.automation import (
    SensorDefinitionRow,
    SensorEvalRow,
    SensorMessageRow,
    SensorStateRow,
)
from servo.errors import Invalid, NotFound
from servo.projection.read.lookup import Lookup, Page, Paged
from servo.projection.read.reader import Snapshot


class ListedSensor(msgspec.Struct, frozen=True, kw_only=True):
    """A sensor, and how it stands."""

    definition: SensorDefinitionRow
    state: SensorStateRow

    @property
    def name(self) -> str:
        """The sensor."""
        return self.definition.sensor_id

    @property
    def pushed(self) -> bool:
        """Whether it is told by messages."""
        return self.definition.mode is SensorMode.PUSH


def all_sensors(found: Snapshot) -> list[ListedSensor]:
    """Every sensor that is deployed, by name."""
    rows = [row for row in found.rows("sensor_state") if isinstance(row, SensorStateRow)]
    states = {row.sensor_id: row for row in rows}
    listed = [
        ListedSensor(definition=row, state=states[row.sensor_id])
        for row in found.rows("sensor_definitions")
        if isinstance(row, SensorDefinitionRow) and row.removed_at is None
    ]
    return sorted(listed, key=lambda row: row.name)


def one_sensor(found: Snapshot, name: str) -> ListedSensor:
    """The sensor of this name."""
    rows = {row.name: row for row in all_sensors(found)}
    if name not in rows:
        close = get_close_matches(name, rows, n=1)
        listed = ", ".join(rows) or "none; deploy some with `servo dev`"
        raise NotFound(
            f"there is no sensor {name} in this workspace",
            remedy=f"did you mean {close[0]}?" if close else f"there is {listed}",
        )
    return rows[name]


def pushed_sensor(found: Snapshot, name: str) -> ListedSensor:
    """The push sensor of this name."""
    row = one_sensor(found, name)
    if not row.pushed:
        raise Invalid(
            f"sensor {name} looks by itself and takes no messages",
            remedy="define it with @push_sensor, or see `servo sensor list`",
        )
    return row


def evaluations(found: Snapshot, name: str, page: Page) -> Paged[SensorEvalRow]:
    """What came of the evaluations of a sensor, the newest first."""
    return Lookup(found).page(SensorEvalRow, page, name="eval_id", sensor_id=name)


def waiting_messages(found: Snapshot, name: str) -> list[SensorMessageRow]:
    """The messages that wait for a sensor, the oldest first."""
    rows = Lookup(found).all(SensorMessageRow, sensor_id=name)
    return sorted(rows, key=lambda row: row.arrival)
