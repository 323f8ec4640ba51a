"""Sensors: list them, show their evaluations, pause and resume them, set their cursors."""

import msgspec

from servo.core.events.sensors import (
    SensorCursorReset,
    SensorMode,
    SensorPaused,
    SensorResumed,
)
from servo.core.state.rows.automation import (
    SensorDefinitionRow,
    SensorEvalRow,
    SensorMessageRow,
    SensorStateRow,
)
from servo.core.state.states import SensorStatus
from servo.errors import Conflict, Invalid
from servo.operations.interface.listing import Listing, Page, listing_of
from servo.operations.interface.moments import PRESENT, AsOf
from servo.operations.interface.naming import unknown
from servo.operations.interface.roles import operation, step
from servo.projection.read.lookup import Lookup
from servo.projection.read.reader import Snapshot
from servo.workspace.receipt import Receipt
from servo.workspace.workspace import Workspace

NEWEST = 10


class ListedSensor(msgspec.Struct, frozen=True, kw_only=True):
    """A sensor and its state."""

    definition: SensorDefinitionRow
    state: SensorStateRow

    @property
    def name(self) -> str:
        return self.definition.sensor_id

    @property
    def pushed(self) -> bool:
        """Whether it is a push sensor, evaluated for messages instead of polling."""
        return self.definition.mode is SensorMode.PUSH


class SensorDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A sensor, its newest evaluations, and the oldest messages that wait for it."""

    sensor: ListedSensor
    evaluations: list[SensorEvalRow]
    messages: list[SensorMessageRow]


class SensorCursor(msgspec.Struct, frozen=True, kw_only=True):
    """The cursor of a sensor. `state_version` grows with every change."""

    sensor_id: str
    cursor: str | None
    state_version: int


class SensorChanged(msgspec.Struct, frozen=True, kw_only=True):
    """A sensor that was paused or resumed, and the receipt."""

    sensor_id: str
    receipt: Receipt


class CursorMoved(msgspec.Struct, frozen=True, kw_only=True):
    """A cursor that was set, and the receipt."""

    sensor_id: str
    cursor: str | None
    receipt: Receipt


# --- reading --------------------------------------------------------------------------------------


@operation
def list_sensors(workspace: Workspace, *, as_of: AsOf | None = None) -> Listing[ListedSensor]:
    """Every deployed sensor, by name."""
    return workspace.read(lambda snapshot: Listing(items=all_sensors(snapshot)), as_of=as_of)


@operation
def get_sensor(workspace: Workspace, name: str, *, as_of: AsOf | None = None) -> SensorDetail:
    """One sensor, its newest evaluations and the messages that wait for it."""

    def detail(snapshot: Snapshot) -> SensorDetail:
        return SensorDetail(
            sensor=find_sensor(snapshot, name),
            evaluations=newest_evaluations(snapshot, name, Page(limit=NEWEST)).items,
            messages=waiting_messages(snapshot, name)[:NEWEST],
        )

    return workspace.read(detail, as_of=as_of)


@operation
def list_evaluations(
    workspace: Workspace, name: str, page: Page, *, as_of: AsOf | None = None
) -> Listing[SensorEvalRow]:
    """The newest evaluations of a sensor."""

    def evaluations(snapshot: Snapshot) -> Listing[SensorEvalRow]:
        _ = find_sensor(snapshot, name)
        return newest_evaluations(snapshot, name, page)

    return workspace.read(evaluations, as_of=as_of)


@operation
def get_cursor(workspace: Workspace, name: str, *, as_of: AsOf | None = None) -> SensorCursor:
    """The cursor of a sensor."""
    state = workspace.read(lambda snapshot: find_sensor(snapshot, name), as_of=as_of).state
    return SensorCursor(sensor_id=name, cursor=state.cursor, state_version=state.state_version)


# --- changing -------------------------------------------------------------------------------------


@operation
def pause_sensor(workspace: Workspace, name: str) -> SensorChanged:
    """Pause a sensor. Messages for it wait until it is resumed."""
    check_not_paused(name, present_sensor(workspace, name).state.status)
    event = SensorPaused(sensor_id=name, changed_by=workspace.actor)
    return SensorChanged(sensor_id=name, receipt=workspace.submit(event).checked())


@operation
def resume_sensor(workspace: Workspace, name: str) -> SensorChanged:
    """Resume a sensor from its cursor. Its failure count restarts at zero."""
    check_stopped(name, present_sensor(workspace, name).state.status)
    event = SensorResumed(sensor_id=name, changed_by=workspace.actor)
    return SensorChanged(sensor_id=name, receipt=workspace.submit(event).checked())


@operation
def move_cursor(
    workspace: Workspace,
    name: str,
    cursor: str | None,
    *,
    expected_state_version: int | None = None,
) -> CursorMoved:
    """Set the cursor of a sensor, or clear it. The result of a running evaluation is discarded.

    With `expected_state_version`, `Conflict` if the sensor has changed since that version.
    """
    row = present_sensor(workspace, name)
    if row.pushed:
        raise Invalid(
            f"sensor {name} is a push sensor and has no cursor",
            remedy=f"send it a message with `servo sensor push {name}`",
        )
    event = SensorCursorReset(
        sensor_id=name,
        cursor=cursor,
        expected_state_version=expected_state_version,
        changed_by=workspace.actor,
    )
    return CursorMoved(sensor_id=name, cursor=cursor, receipt=workspace.submit(event).checked())


def check_not_paused(name: str, status: SensorStatus) -> None:
    """`Conflict` if a sensor is paused."""
    if status is SensorStatus.PAUSED:
        raise Conflict(
            f"sensor {name} is already paused",
            remedy=f"resume it with `servo sensor resume {name}`",
        )


def check_stopped(name: str, status: SensorStatus) -> None:
    """`Conflict` if a sensor is neither paused nor stopped by its failures."""
    if status is SensorStatus.ACTIVE:
        raise Conflict(
            f"sensor {name} is not paused",
            remedy=f"see its evaluations with `servo sensor history {name}`",
        )


@step
def present_sensor(workspace: Workspace, name: str) -> ListedSensor:
    """A sensor as it is at the end of the ledger."""
    return workspace.read(lambda snapshot: find_sensor(snapshot, name), as_of=PRESENT)


# --- what a snapshot knows ------------------------------------------------------------------------


def all_sensors(snapshot: Snapshot) -> list[ListedSensor]:
    """Every sensor that is deployed, by name."""
    rows = [row for row in snapshot.rows("sensor_state") if isinstance(row, SensorStateRow)]
    states = {row.sensor_id: row for row in rows}
    listed = [
        ListedSensor(definition=row, state=states[row.sensor_id])
        for row in snapshot.rows("sensor_definitions")
        if isinstance(row, SensorDefinitionRow) and row.removed_at is None
    ]
    return sorted(listed, key=lambda row: row.name)


def find_sensor(snapshot: Snapshot, name: str) -> ListedSensor:
    """The sensor of this name."""
    rows = {row.name: row for row in all_sensors(snapshot)}
    if name not in rows:
        raise unknown("sensor", name, rows)
    return rows[name]


def newest_evaluations(snapshot: Snapshot, name: str, page: Page) -> Listing[SensorEvalRow]:
    """A page of the evaluations of a sensor, newest first."""
    return listing_of(Lookup(snapshot).page(SensorEvalRow, page, name="eval_id", sensor_id=name))


def waiting_messages(snapshot: Snapshot, name: str) -> list[SensorMessageRow]:
    """The messages that wait for a sensor, the oldest first."""
    rows = Lookup(snapshot).all(SensorMessageRow, sensor_id=name)
    return sorted(rows, key=lambda row: row.arrival)
