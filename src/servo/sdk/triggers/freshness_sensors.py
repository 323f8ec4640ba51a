"""A sensor that runs freshness checks when an asset has become too old.

A check runs when its asset is made, and then it is fresh. That it no longer is, only somebody who
looks later can tell: this sensor asks for the check once the asset is older than it may be, and not
again before it was made anew. A check that has deadlines is asked for once after each.
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
"""The metadata of a check that says how old its asset may be."""

DEADLINES = "servo/deadline_cron"
"""The metadata of a check that says by when its asset has to be made, each time."""

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
    """A sensor that asks for these checks, each when its asset has become too old."""
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
    """What there is to ask for a check: the last deadline, or an output that has become too old."""
    if DEADLINES in spec.metadata:
        deadlines = Cron(spec.metadata[DEADLINES], spec.metadata.get(TIMEZONE, "UTC"))
        passed = deadlines.newest_between(now - LONGEST_LOOK, now, 1)
        return int(passed[-1].timestamp()) if passed else None
    made = context.instance.get_latest_materialization_event(spec.asset)
    old = made is not None and now - made.at > timedelta(seconds=spec.metadata[MAX_AGE])
    return made.storage_id if made is not None and old else None
