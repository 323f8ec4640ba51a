"""What was decided about an output, and the results of its checks."""

from msgspec.structs import replace

from servo.core.events.tasks import Gate
from servo.core.explain.finding import Finding, FindingStatus, What
from servo.core.explain.records import Records
from servo.core.explain.words import instant, place
from servo.core.state.rows.assets import CheckResultRow, MaterializationRow
from servo.core.state.rows.execution import TaskRow


def failed_checks(records: Records, run_id: str, attempt_id: str) -> tuple[Finding, ...]:
    """The failed checks of an attempt."""
    rows = records.checks(run_id, attempt_id)
    return tuple(_check(row) for row in rows if not row.passed)


def _check(row: CheckResultRow) -> Finding:
    weight = f"{row.severity.value.lower()}{', blocking' if row.blocking else ''}"
    said = f": {row.message}" if row.message else ""
    return Finding(
        what=What.CHECK_FAILED,
        status=FindingStatus.FAILED if row.blocking else FindingStatus.NOTE,
        subject=f"{row.asset_key}:{row.check_name}",
        text=f"its check {row.check_name} failed ({weight}){said}",
        at=row.evaluated_at,
        seq=row.row_version,
    )


def judged(records: Records, made: MaterializationRow) -> Finding | None:
    """What was decided about an output; None if it was simply promoted."""
    task = records.tasks(made.run_id).get(made.task_key)
    checks = _checks_of(records, made, task)
    if made.gating_decision is Gate.QUARANTINED:
        return _quarantined(made, checks)
    if made.gating_decision is Gate.WARNED:
        text = "the output was promoted with a warning"
        return _about(made, What.WARNED, FindingStatus.NOTE, text, because=checks)
    if made.expired_at is not None:
        text = f"its data expired at {instant(made.expired_at)}"
        return _about(made, What.EXPIRED, FindingStatus.NOTE, text)
    return None


def _checks_of(
    records: Records, made: MaterializationRow, task: TaskRow | None
) -> tuple[Finding, ...]:
    if task is None or task.attempt != made.attempt:
        return ()
    rows = records.checks(made.run_id, task.attempt_id)
    return tuple(_check(row) for row in rows if not row.passed and row.asset_key == made.asset_key)


def _quarantined(made: MaterializationRow, checks: tuple[Finding, ...]) -> Finding:
    if made.decided_at is None:
        text = f"the output of {instant(made.created_at)} is in quarantine"
        found = _about(made, What.HELD, FindingStatus.WAITS, text, because=checks)
        name = made.materialization_id
        return replace(
            found,
            next=f"check the data, then approve it, or run `servo quarantine reject {name}`",
            command=f"servo quarantine approve {name}",
        )
    by = f" by {made.decided_by}" if made.decided_by else ""
    why = f": {made.decision_reason}" if made.decision_reason else ""
    when = f"{instant(made.decided_at)}{by}{why}"
    if made.promoted:
        text = f"the output was held in quarantine and approved at {when}"
        return _about(made, What.RELEASED, FindingStatus.NOTE, text, because=checks)
    text = f"the output of {instant(made.created_at)} was held in quarantine and rejected at {when}"
    found = _about(made, What.REJECTED, FindingStatus.FAILED, text, because=checks)
    return replace(found, next="fix its upstream data, and materialize it again")


def _about(
    made: MaterializationRow,
    what: What,
    status: FindingStatus,
    text: str,
    *,
    because: tuple[Finding, ...] = (),
) -> Finding:
    return Finding(
        what=what,
        status=status,
        subject=place(made.asset_key, made.partition_key),
        text=text,
        at=made.created_at,
        seq=made.created_seq,
        because=because,
    )
