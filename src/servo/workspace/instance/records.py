"""Runs and events as an instance returns them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import Any

import msgspec

from servo.core.keys import AssetKey
from servo.core.partitions import shown_partition
from servo.core.state.rows.assets import AssetRow, MaterializationRow
from servo.core.state.rows.execution import RunRow
from servo.core.state.states import RunState
from servo.errors import Invalid
from servo.sdk.assets.results import DataVersion
from servo.sdk.metadata.entries import MetadataValue, decode_metadata
from servo.sdk.triggers.run_requests import RunStatus

_STATUS = {
    RunState.PENDING: RunStatus.QUEUED,
    RunState.RUNNING: RunStatus.STARTED,
    RunState.CANCELLING: RunStatus.CANCELING,
    RunState.SUCCEEDED: RunStatus.SUCCESS,
    RunState.FAILED: RunStatus.FAILURE,
    RunState.CANCELLED: RunStatus.CANCELED,
    RunState.TIMED_OUT: RunStatus.FAILURE,
}
_OVER = frozenset({RunStatus.SUCCESS, RunStatus.FAILURE, RunStatus.CANCELED})


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A run and its status."""

    run_id: str
    status: RunStatus
    tags: Mapping[str, str]
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    job_name: str | None = None
    parent_run_id: str | None = None

    @classmethod
    def of(cls, row: RunRow) -> "Run":
        """The run of a row; labels that are Servo's own are not tags."""
        return cls(
            run_id=row.run_id,
            status=_STATUS[row.state],
            tags={k: v for k, v in row.labels.items() if not k.startswith("servo/")},
            created_at=row.created_at,
            started_at=row.started_at,
            finished_at=row.finished_at,
            job_name=row.labels.get("servo/job"),
            parent_run_id=row.parent_run_id,
        )

    @property
    def is_finished(self) -> bool:
        """Whether it has finished."""
        return self.status in _OVER

    @property
    def is_success(self) -> bool:
        """Whether it succeeded."""
        return self.status is RunStatus.SUCCESS

    @property
    def is_failure(self) -> bool:
        """Whether it failed."""
        return self.status is RunStatus.FAILURE


class RunRecord(msgspec.Struct, frozen=True):
    """A run with its times, in seconds since 1970."""

    run: Run

    @property
    def dagster_run(self) -> Run:
        """The run, under Dagster's name."""
        return self.run

    @property
    def create_timestamp(self) -> datetime:
        """When it was requested."""
        return self.run.created_at

    @property
    def start_time(self) -> float | None:
        """When it started, if it has."""
        return None if self.run.started_at is None else self.run.started_at.timestamp()

    @property
    def end_time(self) -> float | None:
        """When it finished, if it has."""
        return None if self.run.finished_at is None else self.run.finished_at.timestamp()


class RunsFilter(msgspec.Struct, frozen=True):
    """A filter for runs that match all given fields."""

    run_ids: Sequence[str] | None = None
    job_name: str | None = None
    statuses: Sequence[RunStatus] = ()
    tags: Mapping[str, str | Sequence[str]] = {}
    created_after: datetime | None = None
    created_before: datetime | None = None

    def holds(self, run: Run) -> bool:
        """Whether a run matches."""
        return (
            (self.run_ids is None or run.run_id in self.run_ids)
            and (self.job_name is None or run.job_name == self.job_name)
            and (not self.statuses or run.status in self.statuses)
            and all(_has(run.tags, name, value) for name, value in self.tags.items())
            and (self.created_after is None or run.created_at > self.created_after)
            and (self.created_before is None or run.created_at < self.created_before)
        )


def _has(tags: Mapping[str, str], name: str, value: str | Sequence[str]) -> bool:
    return tags.get(name) in ((value,) if isinstance(value, str) else value)


class AssetEventType(Enum):
    """The types of events about assets."""

    ASSET_MATERIALIZATION = "ASSET_MATERIALIZATION"
    ASSET_OBSERVATION = "ASSET_OBSERVATION"


class AssetFact(msgspec.Struct, frozen=True, kw_only=True):
    """A materialization or an observation of an asset, with its metadata."""

    asset_key: AssetKey
    partition: str | None = None
    metadata: Mapping[str, MetadataValue] = {}
    data_version: str = ""
    tags: Mapping[str, str] = {}


class AssetEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event about an asset, with its run and its time."""

    event_type: AssetEventType
    fact: AssetFact
    run_id: str
    at: datetime
    storage_id: int

    @property
    def asset_key(self) -> AssetKey:
        """The asset."""
        return self.fact.asset_key

    @property
    def partition_key(self) -> str | None:
        """The partition, if it is about one."""
        return self.fact.partition

    @property
    def timestamp(self) -> float:
        """When, in seconds since 1970."""
        return self.at.timestamp()

    @property
    def data_version(self) -> DataVersion | None:
        """The version of the data, if one is known."""
        return DataVersion(self.fact.data_version) if self.fact.data_version else None

    @property
    def asset_materialization(self) -> AssetFact | None:
        """The materialization, if it is one."""
        made = self.event_type is AssetEventType.ASSET_MATERIALIZATION
        return self.fact if made else None

    @property
    def asset_observation(self) -> AssetFact | None:
        """The observation, if it is one."""
        made = self.event_type is AssetEventType.ASSET_MATERIALIZATION
        return None if made else self.fact

    @property
    def event_log_entry(self) -> "AssetEvent":
        """The event itself, under Dagster's name."""
        return self


class AssetEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An asset and its latest events."""

    asset_key: AssetKey
    last_materialization_record: AssetEvent | None = None
    last_observation_record: AssetEvent | None = None

    @property
    def last_materialization(self) -> AssetEvent | None:
        """The latest materialization, under its other name."""
        return self.last_materialization_record

    @property
    def last_observation(self) -> AssetEvent | None:
        """The last observation, under its other name."""
        return self.last_observation_record

    @property
    def last_run_id(self) -> str | None:
        """The run that materialized it last, if there is one."""
        made = self.last_materialization_record
        return (made.run_id or None) if made is not None else None


class AssetRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The record of an asset in a workspace."""

    storage_id: int
    asset_entry: AssetEntry


def made_event(row: MaterializationRow) -> AssetEvent:
    """The event of an output."""
    fact = AssetFact(
        asset_key=AssetKey.parse(row.asset_key),
        partition=shown_partition(row.partition_key),
        metadata=decode_metadata(row.metadata) if row.metadata else {},
        data_version=row.data_version or row.content_hash,
    )
    return AssetEvent(
        event_type=AssetEventType.ASSET_MATERIALIZATION,
        fact=fact,
        run_id=row.run_id,
        at=row.created_at,
        storage_id=row.created_seq,
    )


def seen_event(row: AssetRow) -> AssetEvent | None:
    """The event of the last observation of an asset, if there is one."""
    if row.last_observed_at is None:
        return None
    return AssetEvent(
        event_type=AssetEventType.ASSET_OBSERVATION,
        fact=AssetFact(asset_key=AssetKey.parse(row.asset_key), data_version=row.last_data_version),
        run_id="",
        at=row.last_observed_at,
        storage_id=row.row_version,
    )


class EventRecordsFilter(msgspec.Struct, frozen=True):
    """A filter for events about assets."""

    event_type: Any
    asset_key: AssetKey | None = None
    asset_partitions: Sequence[str] | None = None
    after_timestamp: float | None = None
    before_timestamp: float | None = None

    def kind(self) -> AssetEventType:
        """The requested type of events."""
        name = getattr(self.event_type, "value", self.event_type)
        if name not in AssetEventType.__members__:
            raise Invalid(
                f"events of type {name!r} are not recorded",
                remedy=f"use one of {', '.join(AssetEventType.__members__)}",
            )
        return AssetEventType[name]

    def holds(self, event: AssetEvent) -> bool:
        """Whether an event matches."""
        parts, after, before = self.asset_partitions, self.after_timestamp, self.before_timestamp
        return (
            (self.asset_key is None or event.asset_key == self.asset_key)
            and (parts is None or event.partition_key in parts)
            and (after is None or event.timestamp > after)
            and (before is None or event.timestamp < before)
        )


class EventRecordsResult(msgspec.Struct, frozen=True):
    """A page of events, and the cursor of the next one."""

    records: Sequence[AssetEvent]
    cursor: str
    has_more: bool
