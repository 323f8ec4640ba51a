"""What schedules and sensors return: run requests, or the reason for none."""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

import msgspec

from servo.core.keys import AssetKey
from servo.errors import Invalid
from servo.sdk.assets.specs import check_tags, to_key
from servo.sdk.partitions.definition import (
    AddDynamicPartitionsRequest,
    DeleteDynamicPartitionsRequest,
)
from servo.sdk.resources.run_config import RunConfig

_set = msgspec.structs.force_setattr


class RunStatus(Enum):
    """The status of a run, for run status sensors."""

    QUEUED = "QUEUED"
    NOT_STARTED = "NOT_STARTED"
    MANAGED = "MANAGED"
    STARTING = "STARTING"
    STARTED = "STARTED"
    SUCCESS = "SUCCESS"
    FAILURE = "FAILURE"
    CANCELING = "CANCELING"
    CANCELED = "CANCELED"


class DefaultScheduleStatus(Enum):
    """Whether a schedule is running as soon as it is deployed."""

    RUNNING = "RUNNING"
    STOPPED = "STOPPED"


class DefaultSensorStatus(Enum):
    """Whether a sensor is running as soon as it is deployed."""

    RUNNING = "RUNNING"
    STOPPED = "STOPPED"


class RunRequest(msgspec.Struct, frozen=True):
    """A request for a run, returned by a schedule or a sensor.

        RunRequest(run_key="2026-01-01", partition_key="2026-01-01")

    Args:
        run_key: the idempotency key: requests with the same key start one run.
        run_config: the run config of the run.
        tags: the tags of the run.
        job_name: the job to run, if the sensor has several.
        asset_selection: only these assets of the target.
        stale_assets_only: only the assets that are stale.
        partition_key: the partition to materialize.
        asset_check_keys: only these checks.
    """

    run_key: str | None = None
    run_config: Any = None
    tags: Mapping[str, str] | None = None
    job_name: str | None = None
    asset_selection: Sequence[Any] | None = None
    stale_assets_only: bool = False
    partition_key: str | None = None
    asset_check_keys: Sequence[Any] | None = None

    def __post_init__(self) -> None:
        what = f"RunRequest {self.run_key or ''}".strip()
        key: Any = self.run_key
        if key is not None and (not isinstance(key, str) or not key):
            raise Invalid(f"the run key is {key!r}", remedy="use a string or None")
        if key is not None:
            _set(self, "run_key", str(key))  # a MultiPartitionKey is a subclass of str
        if self.run_config is not None:
            _set(self, "run_config", RunConfig.of(self.run_config).to_config_dict())
        _set(self, "tags", check_tags(self.tags or {}, what=what))
        for name in ("job_name", "partition_key"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise Invalid(f"{what}: the {name} is {value!r}", remedy="use a string or None")
        if self.asset_selection is not None:
            chosen: Any = self.asset_selection
            several = (chosen,) if isinstance(chosen, str | AssetKey) else chosen
            _set(self, "asset_selection", tuple(to_key(item) for item in several))

    def with_replaced_attrs(self, **changes: Any) -> "RunRequest":
        """A copy of the request with other values for these attributes."""
        return msgspec.structs.replace(self, **changes)


class SkipReason(msgspec.Struct, frozen=True):
    """Why a schedule or a sensor requests no run."""

    skip_message: str | None = None

    def __post_init__(self) -> None:
        message: Any = self.skip_message
        if message is not None and not isinstance(message, str):
            raise Invalid(
                f"the message of a SkipReason is {message!r}", remedy="use a string or None"
            )


class SensorResult(msgspec.Struct, frozen=True):
    """The result of a sensor evaluation.

        SensorResult(run_requests=[RunRequest(run_key="a")], cursor="a")

    Args:
        run_requests: the runs to start.
        skip_reason: why there are none.
        cursor: what `context.cursor` is at the next evaluation.
        dynamic_partitions_requests: partition keys to add or delete, applied before the runs.
        asset_events: materializations and observations of external assets to record.
    """

    run_requests: Sequence[RunRequest] | None = None
    skip_reason: SkipReason | str | None = None
    cursor: str | None = None
    dynamic_partitions_requests: (
        Sequence[AddDynamicPartitionsRequest | DeleteDynamicPartitionsRequest] | None
    ) = None
    asset_events: Sequence[Any] = ()

    def __post_init__(self) -> None:
        if self.run_requests and self.skip_reason:
            raise Invalid(
                "a SensorResult has both run_requests and a skip_reason",
                remedy="return only one of the two",
            )
        if isinstance(self.skip_reason, str):
            _set(self, "skip_reason", SkipReason(self.skip_reason))
        if isinstance(self.run_requests, RunRequest):
            _set(self, "run_requests", (self.run_requests,))
        for item in self.run_requests or ():
            _check_request(item)
        cursor: Any = self.cursor
        if cursor is not None and not isinstance(cursor, str):
            raise Invalid(f"the cursor is {cursor!r}", remedy="use a string, such as json.dumps(…)")
        _set(self, "run_requests", tuple(self.run_requests or ()))
        _set(self, "dynamic_partitions_requests", tuple(self.dynamic_partitions_requests or ()))


def _check_request(item: Any) -> None:
    if not isinstance(item, RunRequest):
        raise Invalid(f"{item!r} is not a RunRequest", remedy="return RunRequest(…)")


def collected(answer: Any, *, what: str) -> SensorResult:
    """What a function returned or yielded, as a `SensorResult`.

    Accepts a request, a list of them, a reason, a `SensorResult`, None, or an iterator of requests
    and reasons, of which the last reason counts.
    """
    if isinstance(answer, SensorResult):
        return answer
    if answer is None:
        return SensorResult(skip_reason=SkipReason())
    if isinstance(answer, RunRequest | SkipReason):
        return _joined([answer])
    if isinstance(answer, Iterable) and not isinstance(answer, str | bytes | Mapping):
        return _joined(list(answer), what=what)  # pyright: ignore[reportUnknownArgumentType] - each is checked
    raise Invalid(
        f"{what} returned {answer!r}", remedy="return RunRequest(…), a list of them, or SkipReason"
    )


def _joined(items: list[Any], *, what: str = "") -> SensorResult:
    for item in items:
        if isinstance(item, SensorResult) and len(items) == 1:
            return item
        if not isinstance(item, RunRequest | SkipReason):
            raise Invalid(f"{what} returned {item!r}", remedy="return RunRequest(…) or SkipReason")
    requests = tuple(item for item in items if isinstance(item, RunRequest))
    reasons = [item for item in items if isinstance(item, SkipReason)]
    if requests:
        return SensorResult(run_requests=requests)
    return SensorResult(skip_reason=reasons[-1] if reasons else SkipReason())
