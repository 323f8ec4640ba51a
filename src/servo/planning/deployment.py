"""Plan a deployment: the events that bring a workspace up to date with the code.

There are none if nothing changed, so requesting a run of unchanged code writes nothing.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from servo.core.declared import LOCATION_LABEL, Declared
from servo.core.definitions import as_defined, as_stored, definitions_bytes, definitions_digest
from servo.core.events.assets import AssetDefinition, DefinitionsDeployed
from servo.core.events.envelope import Event
from servo.core.events.schedules import ScheduleRemoved, ScheduleUpserted
from servo.core.events.sensors import SensorRemoved, SensorUpserted
from servo.core.state.rows.assets import AssetRow
from servo.core.state.rows.automation import ScheduleDefinitionRow, SensorDefinitionRow
from servo.core.state.state import State
from servo.core.state.states import ScheduleStatus
from servo.errors import Conflict

_Row = ScheduleDefinitionRow | SensorDefinitionRow
_Upserted = ScheduleUpserted | SensorUpserted


def changes(state: State, location: str, declared: Declared) -> list[Event]:
    """The events of a deployment; none if nothing changed."""
    named = declared.located(location)
    return [
        *_assets(state, location, declared),
        *_schedules(state, location, named.schedules),
        *_sensors(state, location, named.sensors),
    ]


def _assets(state: State, location: str, declared: Declared) -> Iterator[Event]:
    if not is_deployed(state.assets.rows, location, declared.assets):
        digest = definitions_digest(definitions_bytes(declared.assets))
        yield DefinitionsDeployed(
            deployment_id=digest, location=location, definitions_digest=digest
        )


def is_deployed(
    rows: Mapping[str, AssetRow], location: str, definitions: Sequence[AssetDefinition]
) -> bool:
    """Whether assets are what a location defines, so that deploying it would change nothing.

    Not told by the deployment that a row names: one that leaves an asset as it is leaves its row.
    """
    definitions = as_stored(definitions)
    defined = {row.asset_key for row in rows.values() if row.defined and row.location == location}
    if defined != {definition.asset_key for definition in definitions}:
        return False
    return all(
        as_defined(rows[one.asset_key], location, one) == rows[one.asset_key] for one in definitions
    )


def _schedules(
    state: State, location: str, schedules: Sequence[ScheduleUpserted]
) -> Iterator[Event]:
    known = {
        name: row
        for name, row in list(state.schedules.rows.items())
        if state.schedule_state.rows[name].status is not ScheduleStatus.REMOVED
    }
    declared = {event.schedule_id: event for event in schedules}
    yield from _changed("schedule", location, known, declared)
    for name in _removed(location, known, declared):
        yield ScheduleRemoved(schedule_id=name)


def _sensors(state: State, location: str, sensors: Sequence[SensorUpserted]) -> Iterator[Event]:
    rows = list(state.sensors.rows.items())
    known = {name: row for name, row in rows if row.removed_at is None}
    declared = {event.sensor_id: event for event in sensors}
    yield from _changed("sensor", location, known, declared)
    for name in _removed(location, known, declared):
        yield SensorRemoved(sensor_id=name)


def _changed(
    what: str, location: str, known: Mapping[str, _Row], declared: Mapping[str, _Upserted]
) -> Iterator[Event]:
    """The new and the changed definitions of one kind of trigger."""
    for name, event in declared.items():
        row = known.get(name)
        _check_place(row, location, f"{what} {name}")
        if row is None or not _says(row, event):
            yield event


def _removed(
    location: str, known: Mapping[str, _Row], declared: Mapping[str, _Upserted]
) -> list[str]:
    """The triggers that a location defined before and defines no longer."""
    return [
        name
        for name, row in known.items()
        if name not in declared and row.labels.get(LOCATION_LABEL) == location
    ]


def _says(row: _Row, event: _Upserted) -> bool:
    """Whether a row already has the content of an event."""
    fields = msgspec.structs.asdict(event)
    del fields["v"]
    return all(getattr(row, name) == value for name, value in fields.items())


def _check_place(row: _Row | None, location: str, what: str) -> None:
    place = location if row is None else row.labels.get(LOCATION_LABEL, location)
    if place != location:
        raise Conflict(
            f"{what} is already defined by the code location {place} in this workspace",
            remedy="rename one of the two, or deploy one to another workspace",
        )
