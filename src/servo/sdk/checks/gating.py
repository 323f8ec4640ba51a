"""What becomes of an output when its checks are known.

| failed with | as declared    | block on error | warn only |
|-------------|----------------|----------------|-----------|
| CRITICAL    | block          | block          | warn      |
| ERROR       | warn, or block | block          | warn      |
|             | if `blocking`  |                |           |
| WARN, INFO  | allow          | allow          | allow     |

Where an asset has quarantine, what would block holds the output back instead. The worst of
several checks decides. A check that passed allows, whatever it is.
"""

from collections.abc import Iterable
from enum import Enum, IntEnum
from typing import Protocol

from servo.core.events.assets import Severity
from servo.errors import Invalid


class CheckPolicy(Enum):
    """What failed checks may do to an asset."""

    AS_DECLARED = "as_declared"
    BLOCK_ON_ERROR = "block_on_error"
    WARN_ONLY = "warn_only"
    QUARANTINE = "quarantine"


class GateVerdict(IntEnum):
    """What becomes of an output, from good to bad."""

    ALLOW = 0
    WARN = 1
    QUARANTINE = 2
    BLOCK = 3


class CheckFinding(Protocol):
    """What is asked of the result of a check."""

    @property
    def passed(self) -> bool:
        """Whether the data is good."""
        ...

    @property
    def severity(self) -> Severity:
        """How bad it is if it is not."""
        ...

    @property
    def blocking(self) -> bool:
        """Whether the check was declared to block."""
        ...


def verdict(finding: CheckFinding, policy: CheckPolicy) -> GateVerdict:
    """What one check means for the output."""
    if finding.passed or finding.severity in (Severity.INFO, Severity.WARN):
        return GateVerdict.ALLOW
    if policy is CheckPolicy.WARN_ONLY:
        return GateVerdict.WARN
    strict = policy is CheckPolicy.BLOCK_ON_ERROR
    if finding.severity is Severity.CRITICAL or strict or finding.blocking:
        return GateVerdict.QUARANTINE if policy is CheckPolicy.QUARANTINE else GateVerdict.BLOCK
    return GateVerdict.WARN


def decide(
    findings: Iterable[CheckFinding], policy: CheckPolicy, *, quarantine: bool
) -> GateVerdict:
    """What all checks together mean for the output; none at all allow it."""
    worst = max((verdict(found, policy) for found in findings), default=GateVerdict.ALLOW)
    return GateVerdict.QUARANTINE if quarantine and worst is GateVerdict.BLOCK else worst


def to_policy(given: CheckPolicy | str | None, what: str, *, quarantine: bool) -> CheckPolicy:
    """The policy that a person meant; `Invalid` if there is none such, or it contradicts itself."""
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
