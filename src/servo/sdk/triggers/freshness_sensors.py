"""A sensor that runs freshness checks when an asset has become too old.

A check that runs right after its asset was materialized always finds it fresh. To notice later that
it no longer is, this sensor requests the check once the asset is older than allowed, and not again
before the next materialization. A check with deadlines is requested once after each deadline.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from servo.core.cron import Cron
from servo.errors import Invalid
from servo.sdk.checks.definition import AssetCheckKey, AssetChecksDefinition, AssetCheckSpec
from servo.sdk.triggers.run_requests import (
    DefaultSensorStatus,
    RunRequest,
    SensorResult,
    SkipReason,
)
from servo.sdk.triggers.sensors import SensorDefinition, SensorEvaluationContext

MAX_AGE = "servo/max_age_seconds"
"""The check metadata with the maximum age of the asset."""

DEADLINES = "servo/deadline_cron"
"""The check metadata with the deadlines of the asset."""

TIMEZONE = "servo/deadline_timezone"

LONGEST_LOOK = timedelta(days=366)


def build_sensor_for_freshness_checks(
    *,
    freshness_checks: Sequence[AssetChecksDefinition],
    minimum_interval_seconds: float | None = None,
    name: str = "freshness_checks_sensor",
    default_status: DefaultSensorStatus = DefaultSensorStatus.STOPPED,
    tags: Mapping[str, str] | None = None,
) -> SensorDefinition:
    """Build a sensor that runs freshness checks when their assets have become too old.

    checks = build_last_update_freshness_checks(
        assets=[orders], lower_bound_delta=timedelta(hours=24)
    )
    build_sensor_for_freshness_checks(freshness_checks=checks)
    """
    specs = tuple(_specs(freshness_checks))

    def evaluate(context: SensorEvaluationContext) -> SensorResult:
        return _overdue(specs, context)

    return SensorDefinition(
        name=name,
        evaluation_fn=evaluate,
        minimum_interval_seconds=minimum_interval_seconds,
        default_status=default_status,
        tags=tags,
        description="Runs freshness checks of assets that have become too old.",
    )


def _specs(checks: Iterable[Any]) -> Iterable[AssetCheckSpec]:
    for check in checks:
        found = check.specs if isinstance(check, AssetChecksDefinition) else ()
        if not found or not all({MAX_AGE, DEADLINES} & spec.metadata.keys() for spec in found):
            raise Invalid(
                f"{getattr(check, 'name', check)!r} is not a freshness check",
                remedy="use checks from servo.checks.freshness or build_..._freshness_checks",
            )
        yield from found


def _overdue(specs: Sequence[AssetCheckSpec], context: SensorEvaluationContext) -> SensorResult:
    asked = msgspec.json.decode(context.cursor or "{}", type=dict[str, int])
    now = context.evaluation_time
    if now is None:
        raise Invalid("the current time is unknown", remedy="pass evaluation_time to the context")
    due: list[AssetCheckKey] = []
    for spec in specs:
        name = f"{spec.asset.canonical()}:{spec.name}"
        reason = _reason(spec, context, now)
        if reason is not None and asked.get(name) != reason:
            asked[name] = reason
            due.append(spec.key)
    if not due:
        return SensorResult(skip_reason=SkipReason("nothing is too old"))
    cursor = msgspec.json.encode(dict(sorted(asked.items()))).decode()
    return SensorResult(run_requests=[RunRequest(asset_check_keys=due)], cursor=cursor)


def _reason(spec: AssetCheckSpec, context: SensorEvaluationContext, now: datetime) -> int | None:
    """Why a check is due: the last deadline, or an output that has become too old."""
    if DEADLINES in spec.metadata:
        deadlines = Cron(spec.metadata[DEADLINES], spec.metadata.get(TIMEZONE, "UTC"))
        passed = deadlines.newest_between(now - LONGEST_LOOK, now, 1)
        return int(passed[-1].timestamp()) if passed else None
    made = context.instance.get_latest_materialization_event(spec.asset)
    old = made is not None and now - made.at > timedelta(seconds=spec.metadata[MAX_AGE])
    return made.storage_id if made is not None and old else None
