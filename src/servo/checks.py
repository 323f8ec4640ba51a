"""Checks for what is asked of most tables, ready to be declared.

    from servo import checks

    orders_checks = [
        checks.row_count(orders, min=1, blocking=True),
        checks.unique(orders, "id"),
    ]

They take tables of Polars, pandas, Arrow and DuckDB, lists of dicts, and dicts of lists. All of
them take the same further options:

- `name`, `description`, `metadata`, `blocking`, `severity` and `timeout`, as `@asset_check` does
- `when="before"`: look at what the asset is made from, before its function is called; `input` says
  at which of its parameters if it has several
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypedDict, Unpack

import msgspec

from servo.core.cron import Cron
from servo.errors import Invalid
from servo.execution.checks import rules as check_rules
from servo.execution.checks.rules import CheckSubject
from servo.execution.checks.schema import expected
from servo.execution.checks.schema import schema as schema_rule
from servo.sdk.assets.signature import Signature
from servo.sdk.assets.specs import AssetSpec, to_key
from servo.sdk.checks.context import AssetCheckExecutionContext
from servo.sdk.checks.definition import (
    AssetCheckResult,
    AssetChecksDefinition,
    AssetCheckSeverity,
    AssetCheckSpec,
    CheckOptions,
    asset_check,
    is_before,
    to_ins,
    to_severity,
    to_timeout,
)
from servo.sdk.partitions.time_partitions import TimeWindowPartitionsDefinition
from servo.sdk.triggers.freshness_sensors import DEADLINES, MAX_AGE, TIMEZONE
from servo.workspace.composition import system_clock

__all__ = [
    "build_last_update_freshness_checks",
    "build_time_partition_freshness_checks",
    "freshness",
    "not_null",
    "row_count",
    "schema",
    "sql",
    "unique",
]

CheckRule = Callable[[CheckSubject], AssetCheckResult]


class Options(TypedDict, total=False):
    """What every check here takes."""

    name: str
    description: str
    metadata: Mapping[str, Any]
    blocking: bool
    severity: AssetCheckSeverity | str
    timeout: timedelta | float
    when: str
    input: str


def row_count(
    asset: Any,
    *,
    min: int | None = None,  # noqa: A002 - the plain word, and nothing here needs the function
    max: int | None = None,  # noqa: A002 - the plain word, and nothing here needs the function
    min_ratio: float | None = None,
    **options: Unpack[Options],
) -> AssetChecksDefinition:
    """At least `min` rows, at most `max`, and at least `min_ratio` times as many as last time."""
    if min is None and max is None and min_ratio is None:
        raise Invalid("row_count has no limit", remedy="give min, max or min_ratio")
    if min is not None and max is not None and min > max:
        raise Invalid(f"row_count: min {min} is more than max {max}", remedy="swap them")

    def rule(subject: CheckSubject) -> AssetCheckResult:
        return check_rules.row_count(subject, least=min, most=max, min_ratio=min_ratio)

    looks = CheckOptions(sees_previous=min_ratio is not None)
    return _define(asset, "row_count", rule, options, looks)


def not_null(
    asset: Any, columns: str | Iterable[str], **options: Unpack[Options]
) -> AssetChecksDefinition:
    """No null in any of these columns; pandas' NaN is one."""
    names = _columns("not_null", columns)

    def rule(subject: CheckSubject) -> AssetCheckResult:
        return check_rules.not_null(subject, columns=names)

    return _define(asset, _called("not_null", names), rule, options)


def unique(
    asset: Any, columns: str | Iterable[str], **options: Unpack[Options]
) -> AssetChecksDefinition:
    """No two rows with the same values in all of these columns; nulls are not compared."""
    names = _columns("unique", columns)

    def rule(subject: CheckSubject) -> AssetCheckResult:
        return check_rules.unique(subject, columns=names)

    return _define(asset, _called("unique", names), rule, options)


def freshness(
    asset: Any,
    *,
    max_age: timedelta | float,
    column: str | None = None,
    **options: Unpack[Options],
) -> AssetChecksDefinition:
    """The newest time in `column` is at most `max_age` ago; without a column, the output is."""
    age = max_age if isinstance(max_age, timedelta) else timedelta(seconds=max_age)
    if age <= timedelta():
        raise Invalid(f"freshness: max_age is {max_age}", remedy="use a time, more than 0")

    def rule(subject: CheckSubject) -> AssetCheckResult:
        return check_rules.freshness(subject, max_age=age, column=column)

    told = {**options.get("metadata", {}), MAX_AGE: age.total_seconds()}
    return _define(asset, "freshness", rule, {**options, "metadata": told})


def build_last_update_freshness_checks(
    assets: Sequence[Any],
    lower_bound_delta: timedelta,
    deadline_cron: str | None = None,
    timezone: str = "UTC",
    severity: AssetCheckSeverity | str = AssetCheckSeverity.WARN,
    blocking: bool = False,
) -> list[AssetChecksDefinition]:
    """For each asset, a check that it was made at most so long ago, or before the last deadline."""
    if lower_bound_delta <= timedelta():
        raise Invalid(
            f"lower_bound_delta is {lower_bound_delta}", remedy="use a time of more than 0"
        )
    cron = None if deadline_cron is None else Cron(deadline_cron, timezone)
    told: dict[str, Any] = {MAX_AGE: lower_bound_delta.total_seconds()}
    if deadline_cron is not None:
        told = {DEADLINES: deadline_cron, TIMEZONE: timezone}
    options = Options(severity=severity, blocking=blocking, metadata=told)

    def rule(subject: CheckSubject) -> AssetCheckResult:
        return check_rules.last_update(subject, within=lower_bound_delta, deadlines=cron)

    return [_define(asset, "freshness_check", rule, options) for asset in assets]


def build_time_partition_freshness_checks(
    assets: Sequence[Any],
    deadline_cron: str,
    timezone: str = "UTC",
    severity: AssetCheckSeverity | str = AssetCheckSeverity.WARN,
    blocking: bool = False,
) -> list[AssetChecksDefinition]:
    """For each asset, a check that the last partition before the last deadline was made.

    It looks at what the workspace knows, so it is for a schedule or a sensor of its own.
    """
    cron = Cron(deadline_cron, timezone)

    def check(asset: Any) -> AssetChecksDefinition:
        key, windows = to_key(asset, what="freshness"), _windows_of(asset)

        def look(context: AssetCheckExecutionContext) -> AssetCheckResult:
            now = context.instance.world.clock.now()
            there = context.instance.get_materialized_partitions(key)
            return check_rules.last_partition(windows, cron, now, there)

        decorate = asset_check(
            asset=key,
            name="freshness_check",
            blocking=blocking,
            severity=severity,
            metadata={DEADLINES: deadline_cron, TIMEZONE: timezone},
        )
        return decorate(look)

    return [check(asset) for asset in assets]


def _windows_of(asset: Any) -> TimeWindowPartitionsDefinition:
    specs: Sequence[Any] = [asset] if isinstance(asset, AssetSpec) else getattr(asset, "specs", ())
    found = [spec.partitions_def for spec in specs]
    if len(found) == 1 and isinstance(found[0], TimeWindowPartitionsDefinition):
        return found[0]
    raise Invalid(
        f"{asset!r} has no partitions of time",
        remedy="pass an asset with a DailyPartitionsDefinition, or another of time",
    )


def schema(
    asset: Any, columns: Mapping[str, Any], *, allow_extra: bool = True, **options: Unpack[Options]
) -> AssetChecksDefinition:
    """These columns with these types, by Arrow's names or Python's; None is any type."""
    wanted = expected(columns)

    def rule(subject: CheckSubject) -> AssetCheckResult:
        return schema_rule(subject, columns=wanted, allow_extra=allow_extra)

    return _define(asset, "schema", rule, options)


def sql(
    asset: Any, query: str, *, ins: Mapping[str, Any] | None = None, **options: Unpack[Options]
) -> AssetChecksDefinition:
    """A DuckDB query that selects one boolean: whether the data is good.

    The asset is the table `asset`, and the table of its name; what it is made from goes by its
    names too, and other assets by those that `ins` gives them.
    """
    if not query.strip():
        raise Invalid("sql: the query is empty", remedy="select one boolean")

    def rule(subject: CheckSubject) -> AssetCheckResult:
        return check_rules.sql(subject, query=query)

    return _define(asset, "sql", rule, options, CheckOptions(ins=to_ins(ins), query=query))


def _define(
    asset: Any,
    name: str,
    rule: CheckRule,
    options: Options,
    looks: CheckOptions | None = None,
) -> AssetChecksDefinition:
    """A check with the options that people give; `looks` says what it looks at besides."""
    known = Options.__optional_keys__
    if strangers := sorted(set(options) - known):
        raise Invalid(
            f"{name}: there is no option {', '.join(strangers)}",
            remedy=f"use some of {', '.join(sorted(known))}",
        )
    spec = AssetCheckSpec(
        name=options.get("name", name),
        asset=to_key(asset, what=name),
        description=options.get("description"),
        blocking=options.get("blocking", False),
        metadata=options.get("metadata", {}),
    )
    what = f"check {spec.name}"
    before = is_before(options.get("when", "after"), what)
    if "input" in options and not before:
        raise Invalid(f"{what} names an input", remedy='say when="before" too, or leave it out')

    def check(subject: Any) -> AssetCheckResult:
        """Look at a subject, or at a bare value as a test has it."""
        if not isinstance(subject, CheckSubject):
            now = system_clock().now()
            subject = CheckSubject(value=subject, key=spec.asset, now=now, made_at=now)
        return rule(subject)

    looks = looks or CheckOptions()
    settings = msgspec.structs.replace(
        looks,
        before=before,
        timeout=to_timeout(options.get("timeout"), what),
        severity=to_severity(options.get("severity", AssetCheckSeverity.ERROR), what),
        rule=True,
        input=options.get("input"),
    )
    return AssetChecksDefinition(check, (spec,), Signature(inputs=tuple(looks.ins)), settings)


def _columns(what: str, columns: str | Iterable[str]) -> tuple[str, ...]:
    names = (columns,) if isinstance(columns, str) else tuple(columns)
    if not names:
        raise Invalid(f"{what} names no columns", remedy="name at least one")
    return names


def _called(what: str, columns: Iterable[str]) -> str:
    """A name that tells checks of different columns apart."""
    text = "_".join((what, *columns))
    return "".join(sign if sign.isascii() and sign.isalnum() else "_" for sign in text)
