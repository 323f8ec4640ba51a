"""Rows of the tables about conditions and freshness."""

from datetime import datetime

from servo.core.freshness import FreshnessState
from servo.core.state.rows.row import Row


class AutomationSensorRow(Row, frozen=True, kw_only=True):
    """Where the evaluation of a sensor's conditions stands."""

    sensor_id: str
    tick: int
    last_eval_id: str
    applied_seq: int
    ticked_at: datetime
    requested_count: int = 0
    run_keys: tuple[str, ...] = ()
    last_requested_at: datetime | None = None


class AutomationStateRow(Row, frozen=True, kw_only=True):
    """What is remembered of the condition of an asset; `requested` at its last evaluation."""

    sensor_id: str
    asset_key: str
    tick: int
    cursor: str = ""
    requested: str = ""
    requested_count: int = 0
    last_requested_at: datetime | None = None
    evaluated_at: datetime


class AutomationEvaluationRow(Row, frozen=True, kw_only=True):
    """An evaluation of the condition of an asset that there was something to tell of."""

    sensor_id: str
    asset_key: str
    tick: int
    requested: str = ""
    requested_count: int = 0
    tree: str = ""
    evaluated_at: datetime


class AssetFreshnessRow(Row, frozen=True, kw_only=True):
    """How fresh an asset is; `version` counts the changes."""

    asset_key: str
    state: FreshnessState
    version: int
    changed_at: datetime
    materialization_seq: int | None = None
    recorded_at: datetime


class FreshnessChangeRow(Row, frozen=True, kw_only=True):
    """One change of the freshness of an asset."""

    asset_key: str
    version: int
    state: FreshnessState
    previous: FreshnessState
    changed_at: datetime
    materialization_seq: int | None = None
    recorded_at: datetime
