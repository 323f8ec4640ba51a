"""The conditions of a workspace, the sensor of each, and its last evaluation."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from servo.core.automation.assets import subject
from servo.core.declared import AUTOMATION_LABEL
from servo.core.explain.conditions import evaluator_of
from servo.core.state.rows.assets import AssetRow
from servo.core.state.rows.automation import SensorDefinitionRow, SensorStateRow
from servo.core.state.rows.conditions import AutomationStateRow
from servo.core.state.states import SensorStatus
from servo.errors import Conflict, NotFound
from servo.projection.partitions.asset_names import find_asset
from servo.projection.read.reader import Snapshot
from servo.sdk.automation.graph import DEFAULT_SENSOR


class ListedCondition(msgspec.Struct, frozen=True, kw_only=True):
    """An asset or a check with a condition, and its last evaluation.

    `asset_key` is `asset:check` for a check. `evaluated_at` is when there last was something new
    about it. `sensor_id` is None while nobody evaluates it.
    """

    asset_key: str
    condition: str
    sensor_id: str | None = None
    sensor_status: SensorStatus | None = None
    tick: int | None = None
    evaluated_at: datetime | None = None
    requested_count: int = 0
    last_requested_at: datetime | None = None


def all_conditions(snapshot: Snapshot) -> list[ListedCondition]:
    """Every asset and check that has a condition, by its key."""
    sensors, statuses = sensors_of_conditions(snapshot), _statuses(snapshot)
    states: dict[str, list[AutomationStateRow]] = {}
    for row in snapshot.rows("automation_state"):
        if isinstance(row, AutomationStateRow):
            states.setdefault(row.asset_key, []).append(row)
    assets = [row for row in snapshot.rows("assets") if isinstance(row, AssetRow) and row.defined]
    found = [
        _listed((name, condition), sensors, states.get(name, []), statuses)
        for row in assets
        for name, condition in _conditions(row)
    ]
    return sorted(found, key=lambda row: row.asset_key)


def _conditions(row: AssetRow) -> list[tuple[str, str]]:
    """The condition of an asset and those of its checks, under the names they are recorded by."""
    own = [(row.asset_key, row.automation_condition)] if row.automation_condition else []
    of_checks = sorted(row.check_conditions.items())
    return [*own, *((subject((row.asset_key, check)), text) for check, text in of_checks)]


def _listed(
    told: tuple[str, str],
    sensors: Sequence[SensorDefinitionRow],
    states: list[AutomationStateRow],
    statuses: dict[str, SensorStatus],
) -> ListedCondition:
    states.sort(key=lambda row: row.row_version, reverse=True)
    name, condition = told
    listed = ListedCondition(asset_key=name, condition=condition)
    sensor = evaluator_of(name, sensors, states)
    if sensor is None:
        return listed
    by = sensor.sensor_id
    listed = msgspec.structs.replace(listed, sensor_id=by, sensor_status=statuses.get(by))
    state = next((row for row in states if row.sensor_id == by), None)
    if state is None:
        return listed
    return msgspec.structs.replace(
        listed,
        tick=state.tick,
        evaluated_at=state.evaluated_at,
        requested_count=state.requested_count,
        last_requested_at=state.last_requested_at,
    )


def condition_of(snapshot: Snapshot, name: str) -> ListedCondition:
    """The condition of the asset with this name, or of a check: `asset:check`."""
    rows = snapshot.rows("assets")
    asset, colon, check = name.partition(":")
    key = find_asset([row.asset_key for row in rows if isinstance(row, AssetRow)], asset)
    key = f"{key}{colon}{check}"
    found = {row.asset_key: row for row in all_conditions(snapshot)}
    if key not in found:
        raise NotFound(
            f"{key} has no automation condition",
            remedy="add one: @asset(automation_condition=AutomationCondition.eager())",
        )
    return found[key]


# --- sensors --------------------------------------------------------------------------------------


def sensors_of_conditions(snapshot: Snapshot) -> list[SensorDefinitionRow]:
    """The sensors that evaluate conditions, by name."""
    rows = [r for r in snapshot.rows("sensor_definitions") if isinstance(r, SensorDefinitionRow)]
    found = [row for row in rows if AUTOMATION_LABEL in row.labels and row.removed_at is None]
    return sorted(found, key=lambda row: row.sensor_id)


def find_condition_sensor(snapshot: Snapshot, name: str | None) -> tuple[str, SensorStatus]:
    """The sensor of this name and its status; without a name the default one, or the only one."""
    names = [row.sensor_id for row in sensors_of_conditions(snapshot)]
    if name is None and DEFAULT_SENSOR in names:
        name = DEFAULT_SENSOR
    elif name is None and len(names) == 1:
        name = names[0]
    if not names:
        raise NotFound(
            "no sensor evaluates conditions in this workspace",
            remedy="add an automation condition to an asset and start `servo dev`",
        )
    if name is None:
        raise Conflict(
            "several sensors evaluate conditions", remedy=f"choose one of: {', '.join(names)}"
        )
    if name not in names:
        raise NotFound(
            f"no sensor {name} evaluates conditions", remedy=f"choose one of: {', '.join(names)}"
        )
    return name, _statuses(snapshot)[name]


def _statuses(snapshot: Snapshot) -> dict[str, SensorStatus]:
    rows = snapshot.rows("sensor_state")
    return {row.sensor_id: row.status for row in rows if isinstance(row, SensorStateRow)}
