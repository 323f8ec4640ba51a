"""Running the checks of an output, and what follows from them."""

from collections.abc import Sequence
from typing import Any

from servo.core.events.assets import Severity
from servo.core.events.tasks import Gate
from servo.errors import ServoError
from servo.sdk.checks import AssetCheckResult, AssetChecksDefinition, AssetCheckSeverity
from servo.sdk.context import AssetExecutionContext
from servo.sdk.metadata import encode_metadata
from servo.sdk.redaction import hidden
from servo.sdk.resources import Resources
from servo.worker.messages import Checked

MAX_MESSAGE = 8_000

_STORED = {AssetCheckSeverity.WARN: Severity.WARN, AssetCheckSeverity.ERROR: Severity.ERROR}


def run_checks(
    checks: Sequence[AssetChecksDefinition],
    value: Any,
    context: AssetExecutionContext,
    resources: Resources,
) -> list[Checked]:
    """What every check says of a value; one that raises has failed."""
    return [_run(check, value, context, resources) for check in checks]


def _run(
    check: AssetChecksDefinition, value: Any, context: AssetExecutionContext, resources: Resources
) -> Checked:
    spec, signature = check.spec, check.signature
    arguments = dict.fromkeys(signature.inputs, value)
    if signature.context:
        arguments[signature.context] = context
    for name in signature.resources:
        arguments[name] = getattr(resources, name)
    try:
        return _told(check, check.fn(**arguments))
    except Exception as error:  # noqa: BLE001 - a check is user code
        kind = "" if isinstance(error, ServoError) else f"{type(error).__name__}: "
        message = hidden().text(f"{kind}{error}")[:MAX_MESSAGE]
        return Checked(name=spec.name, passed=False, blocking=spec.blocking, message=message)


def _told(check: AssetChecksDefinition, found: Any) -> Checked:
    spec = check.spec
    if isinstance(found, bool):
        return Checked(name=spec.name, passed=found, blocking=spec.blocking)
    if not isinstance(found, AssetCheckResult):
        message = f"{check.where} returned {type(found).__name__} and no AssetCheckResult"
        return Checked(name=spec.name, passed=False, blocking=spec.blocking, message=message)
    return Checked(
        name=spec.name,
        passed=found.passed,
        blocking=spec.blocking,
        severity=_STORED[found.severity],
        message=hidden().text(found.description or "")[:MAX_MESSAGE],
        metadata=encode_metadata(dict(found.metadata)) if found.metadata else "",
    )


def gate(checked: Sequence[Checked]) -> Gate:
    """What becomes of an output: promoted, promoted with a mark, or held back."""
    failed = [check for check in checked if not check.passed and check.severity is Severity.ERROR]
    if any(check.blocking for check in failed):
        return Gate.QUARANTINED
    return Gate.WARNED if failed else Gate.PROMOTED
