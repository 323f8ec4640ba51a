"""The gating matrix, cell by cell."""

from itertools import product

import pytest

from servo import asset
from servo.core.events.assets import Severity
from servo.errors import Invalid
from servo.leader.assignments import CheckOutcome
from servo.sdk.checks.gating import CheckPolicy, GateVerdict, gate_verdict

ALLOW, WARN, HOLD, BLOCK = (
    GateVerdict.ALLOW,
    GateVerdict.WARN,
    GateVerdict.QUARANTINE,
    GateVerdict.BLOCK,
)

# Failed, by severity and policy: what follows without and with `blocking`.
MATRIX = {
    (Severity.INFO, CheckPolicy.AS_DECLARED): (ALLOW, ALLOW),
    (Severity.INFO, CheckPolicy.BLOCK_ON_ERROR): (ALLOW, ALLOW),
    (Severity.INFO, CheckPolicy.WARN_ONLY): (ALLOW, ALLOW),
    (Severity.INFO, CheckPolicy.QUARANTINE): (ALLOW, ALLOW),
    (Severity.WARN, CheckPolicy.AS_DECLARED): (ALLOW, ALLOW),
    (Severity.WARN, CheckPolicy.BLOCK_ON_ERROR): (ALLOW, ALLOW),
    (Severity.WARN, CheckPolicy.WARN_ONLY): (ALLOW, ALLOW),
    (Severity.WARN, CheckPolicy.QUARANTINE): (ALLOW, ALLOW),
    (Severity.ERROR, CheckPolicy.AS_DECLARED): (WARN, BLOCK),
    (Severity.ERROR, CheckPolicy.BLOCK_ON_ERROR): (BLOCK, BLOCK),
    (Severity.ERROR, CheckPolicy.WARN_ONLY): (WARN, WARN),
    (Severity.ERROR, CheckPolicy.QUARANTINE): (WARN, HOLD),
    (Severity.CRITICAL, CheckPolicy.AS_DECLARED): (BLOCK, BLOCK),
    (Severity.CRITICAL, CheckPolicy.BLOCK_ON_ERROR): (BLOCK, BLOCK),
    (Severity.CRITICAL, CheckPolicy.WARN_ONLY): (WARN, WARN),
    (Severity.CRITICAL, CheckPolicy.QUARANTINE): (HOLD, HOLD),
}


def found(severity: Severity, *, passed: bool = False, blocking: bool = False) -> CheckOutcome:
    return CheckOutcome(name="c", passed=passed, blocking=blocking, severity=severity)


def test_every_severity_and_policy_has_its_cell() -> None:
    assert set(MATRIX) == set(product(Severity, CheckPolicy))


@pytest.mark.parametrize(("severity", "policy"), MATRIX)
@pytest.mark.parametrize("blocking", [False, True])
def test_a_failed_check_does_what_its_cell_says(
    severity: Severity, policy: CheckPolicy, blocking: bool
) -> None:
    expected = MATRIX[severity, policy][blocking]
    one = found(severity, blocking=blocking)
    assert gate_verdict([one], policy, quarantine=False) is expected
    held = HOLD if expected is BLOCK else expected
    assert gate_verdict([one], policy, quarantine=True) is held


@pytest.mark.parametrize(("severity", "policy"), MATRIX)
def test_a_check_that_passed_allows(severity: Severity, policy: CheckPolicy) -> None:
    one = found(severity, passed=True, blocking=True)
    assert gate_verdict([one], policy, quarantine=False) is ALLOW


def test_the_worst_decides_and_none_allow() -> None:
    declared = CheckPolicy.AS_DECLARED
    several = [found(Severity.WARN), found(Severity.CRITICAL), found(Severity.ERROR)]
    assert gate_verdict(several, declared, quarantine=False) is BLOCK
    assert gate_verdict([], declared, quarantine=False) is ALLOW


def test_a_policy_goes_by_name_and_a_wrong_one_is_told() -> None:
    def orders() -> int:
        return 1

    made = asset(check_policy="warn_only")(orders)
    assert made.behaviour.check_policy is CheckPolicy.WARN_ONLY
    with pytest.raises(Invalid, match=r"no check_policy 'strict'.*as_declared, block_on_error"):
        asset(check_policy="strict")(orders)
    with pytest.raises(Invalid, match="quarantine has no effect"):
        asset(check_policy="warn_only", quarantine=True)(orders)
