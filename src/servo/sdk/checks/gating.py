"""What happens to an output after its checks.

| failed with | as declared    | block on error | warn only |
|-------------|----------------|----------------|-----------|
| CRITICAL    | block          | block          | warn      |
| ERROR       | warn, or block | block          | warn      |
|             | if `blocking`  |                |           |
| WARN, INFO  | allow          | allow          | allow     |

If the asset has quarantine, an output that would be blocked is held back instead. The worst result
of several checks decides. A check that passed always allows the output.
"""

from collections.abc import Iterable
from enum import Enum, IntEnum
from typing import Protocol

from servo.core.events.assets import Severity
from servo.errors import Invalid


class CheckPolicy(Enum):
    """What a failed check does to the output of an asset."""

    AS_DECLARED = "as_declared"
    BLOCK_ON_ERROR = "block_on_error"
    WARN_ONLY = "warn_only"
    QUARANTINE = "quarantine"


class GateVerdict(IntEnum):
    """What happens to an output, from best to worst."""

    ALLOW = 0
    WARN = 1
    QUARANTINE = 2
    BLOCK = 3


class CheckFinding(Protocol):
    """The parts of a check result that the decision depends on."""

    @property
    def passed(self) -> bool:
        """Whether the check passed."""
        ...

    @property
    def severity(self) -> Severity:
        """The severity of the failure."""
        ...

    @property
    def blocking(self) -> bool:
        """Whether the check is declared as blocking."""
        ...


def check_verdict(finding: CheckFinding, policy: CheckPolicy) -> GateVerdict:
    """What one check alone would do to the output."""
    if finding.passed or finding.severity in (Severity.INFO, Severity.WARN):
        return GateVerdict.ALLOW
    if policy is CheckPolicy.WARN_ONLY:
        return GateVerdict.WARN
    strict = policy is CheckPolicy.BLOCK_ON_ERROR
    if finding.severity is Severity.CRITICAL or strict or finding.blocking:
        return GateVerdict.QUARANTINE if policy is CheckPolicy.QUARANTINE else GateVerdict.BLOCK
    return GateVerdict.WARN


def gate_verdict(
    findings: Iterable[CheckFinding], policy: CheckPolicy, *, quarantine: bool
) -> GateVerdict:
    """What all checks together do to the output; without any, it is allowed."""
    worst = max((check_verdict(found, policy) for found in findings), default=GateVerdict.ALLOW)
    return GateVerdict.QUARANTINE if quarantine and worst is GateVerdict.BLOCK else worst


def to_policy(given: CheckPolicy | str | None, what: str, *, quarantine: bool) -> CheckPolicy:
    """The policy of this name; `Invalid` if there is none, or if it contradicts `quarantine`."""
    known = {policy.value: policy for policy in CheckPolicy}
    if isinstance(given, CheckPolicy):
        found: CheckPolicy | None = given
    else:
        found = CheckPolicy.AS_DECLARED if given is None else known.get(given)
    if found is None:
        raise Invalid(
            f"{what}: there is no check_policy {given!r}", remedy=f"use one of {', '.join(known)}"
        )
    if quarantine and found is CheckPolicy.WARN_ONLY:
        raise Invalid(
            f"{what}: quarantine has no effect with check_policy {found.value!r}, "
            "which never blocks",
            remedy="leave out one of the two",
        )
    return found
