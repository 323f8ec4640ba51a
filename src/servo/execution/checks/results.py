"""The return value of a check's function, as results of its declared checks."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from servo.core.events.assets import Severity
from servo.errors import Invalid
from servo.leader.assignments import CheckOutcome
from servo.processes.frames import sendable
from servo.sdk.checks.definition import (
    AssetCheckKey,
    AssetCheckResult,
    AssetCheckSeverity,
    AssetCheckSpec,
)
from servo.sdk.metadata.entries import encode_metadata
from servo.sdk.resources.redaction import hidden

MAX_MESSAGE = 8_000
MAX_METADATA = 32_000

_STORED = {severity: Severity(severity.value) for severity in AssetCheckSeverity}


def listed(found: Any) -> list[Any]:
    """Everything a function returned or yielded; called where it may still be interrupted."""
    if isinstance(found, Iterable) and not isinstance(found, str | bytes | Mapping):
        return list(cast("Iterable[Any]", found))
    return [found]


def results_of(found: Sequence[Any], specs: Sequence[AssetCheckSpec], where: str) -> list[Any]:
    """What was returned as results; a truth value is one where there is a single check."""
    results: list[Any] = []
    for item in found:
        # numpy's truth values are those of most comparisons on frames
        if len(specs) == 1 and type(item).__name__ in ("bool", "bool_"):
            results.append(AssetCheckResult(passed=bool(item)))
        elif isinstance(item, AssetCheckResult):
            results.append(item)
        else:
            raise Invalid(
                f"{where} returned {type(item).__name__} instead of AssetCheckResult",
                remedy="return AssetCheckResult(passed=...) for every check",
            )
    return results


def matched(
    results: Sequence[AssetCheckResult], specs: Sequence[AssetCheckSpec], where: str
) -> dict[AssetCheckKey, AssetCheckResult]:
    """Results by check; `Invalid` for one that was not declared, or came twice."""
    found: dict[AssetCheckKey, AssetCheckResult] = {}
    for result in results:
        spec = _spec_of(result, specs, where)
        if spec.key in found:
            raise Invalid(
                f"{where} reported the check {spec.name} of {spec.asset} twice",
                remedy="report every check once",
            )
        found[spec.key] = result
    return found


def _spec_of(
    result: AssetCheckResult, specs: Sequence[AssetCheckSpec], where: str
) -> AssetCheckSpec:
    fitting = [
        spec
        for spec in specs
        if result.check_name in (None, spec.name) and result.asset_key in (None, spec.asset)
    ]
    if len(fitting) == 1:
        return fitting[0]
    declared = ", ".join(f"{spec.name} of {spec.asset}" for spec in specs) or "none"
    named = f"a check {result.check_name}" if result.check_name else "a check without a name"
    of = f" of {result.asset_key}" if result.asset_key else ""
    problem = "could be several" if fitting else "was not declared"
    raise Invalid(
        f"{where} reported {named}{of}, which {problem}",
        remedy=f"use check_name and asset_key of a declared check: {declared}",
    )


def found_by(
    spec: AssetCheckSpec, result: AssetCheckResult, default: AssetCheckSeverity
) -> CheckOutcome:
    """A result as it is recorded. The severity that was declared stands for the usual one."""
    usual = result.severity is AssetCheckSeverity.ERROR
    return CheckOutcome(
        name=spec.name,
        asset_key=spec.asset.canonical(),
        passed=bool(result.passed),
        blocking=spec.blocking,
        severity=_STORED[default if usual else result.severity],
        message=sendable(hidden().text(result.description or "")[:MAX_MESSAGE]),
        metadata=bounded(result.metadata),
    )


def failed(
    spec: AssetCheckSpec, message: str, default: AssetCheckSeverity, **metadata: Any
) -> CheckOutcome:
    """The result of a check that failed without returning one."""
    result = AssetCheckResult(
        passed=False, severity=default, description=message, metadata=metadata
    )
    return found_by(spec, result, default)


def bounded(metadata: Mapping[str, Any]) -> str:
    """Metadata as it is stored; entries that are too large are left out, and named."""
    kept: dict[str, Any] = {}
    left_out: list[str] = []
    size = 0
    for name, value in metadata.items():
        size += len(one := encode_metadata({name: value}))
        if len(one) <= MAX_METADATA and size <= MAX_METADATA:
            kept[name] = value
        else:
            size -= len(one)
            left_out.append(name)
    if left_out:
        kept["left_out"] = f"too large: {', '.join(left_out)}"[:1000]
    return encode_metadata(kept)
