"""Why an asset, or a partition, is in its current state, and why it is not newer."""

from collections import deque
from collections.abc import Collection, Sequence
from shlex import quote

from msgspec.structs import replace

from servo.core.explain.asked import asked
from servo.core.explain.causes import first_causes
from servo.core.explain.conditions import told_once
from servo.core.explain.finding import Finding, FindingStatus, What
from servo.core.explain.limits import runs_of_the_day
from servo.core.explain.outputs import judged
from servo.core.explain.records import Records, Subject
from servo.core.explain.starters import starters
from servo.core.explain.tasks import explain_attempt, several
from servo.core.explain.words import ago, instant, listed, partition, place
from servo.core.freshness import FreshnessState
from servo.core.state.rows.assets import AssetRow, MaterializationRow, PartitionStatusRow
from servo.core.state.rows.execution import TaskRow
from servo.core.state.states import TERMINAL_TASK_STATES, TaskState

_GOING = frozenset(
    {
        What.TASK_PLANNED,
        What.TASK_BLOCKED,
        What.TASK_READY,
        What.POOL_FULL,
        What.SLOTS_FULL,
        What.QUEUE_FULL,
        What.TASK_SENT,
        What.TASK_RUNNING,
        What.TASK_SILENT,
        What.TASK_RETRY,
    }
)


def why(records: Records, subject: Subject) -> list[Finding]:
    """What materialized an asset, what was attempted since, and what would materialize it again."""
    found = [_standing(records, subject, whole=True), *_open_questions(records, subject)]
    return told_once([*found, *starters(records, subject, _then(found))])


def why_not(records: Records, subject: Subject) -> list[Finding]:
    """What keeps an asset from being newer: attempts, upstream assets, and what starts it."""
    found = [
        _standing(records, subject, whole=False),
        *_open_questions(records, subject),
        *_above(records, subject),
        *runs_of_the_day(records),
    ]
    return told_once([*found, *starters(records, subject, _then(found))])


def _open_questions(records: Records, subject: Subject) -> list[Finding]:
    return [
        *_attempts(records, subject),
        *_held(records, subject),
        *_freshness(records, subject),
        *_partitions(records, subject),
    ]


def _then(findings: Sequence[Finding]) -> str:
    """When to materialize an asset by hand: not while it is in progress."""
    if any(found.what in _GOING for found in findings):
        return ""
    told = [cause for found in findings for cause in (found, *found.because)]
    first = any(found.command for found in told)
    return "once that is resolved, materialize it by hand" if first else "materialize it by hand"


# --- what there is --------------------------------------------------------------------------------


def _standing(records: Records, subject: Subject, *, whole: bool) -> Finding:
    """The latest output, and with `whole` what requested it; or that there is none."""
    name = place(subject.asset_key, subject.partition_key)
    made = _latest(records, subject)
    if made is None:
        return _without(records, subject, name)
    when = ago(made.created_at, records.now)
    by = f"by {made.run_id}" if made.run_id else "outside Servo, and reported"
    attempt = f", attempt {made.attempt}" if made.attempt else ""
    part = (
        ""
        if made.partition_key is None or subject.partition_key is not None
        else (f" (partition {partition(made.partition_key)})")
    )
    found = Finding(
        what=What.MADE,
        status=FindingStatus.DONE,
        subject=name,
        text=f"{name}{part} was last materialized at {when}, {by}{attempt}",
        at=made.created_at,
        seq=made.created_seq,
        because=_origin(records, made) if whole else (),
    )
    return _defined(records.asset(subject.asset_key), found)


def _latest(records: Records, subject: Subject) -> MaterializationRow | None:
    row = _row(records, subject)
    if row is None or row.last_materialization_id is None:
        return None
    return records.output(row.last_materialization_id)


def _row(records: Records, subject: Subject) -> AssetRow | PartitionStatusRow | None:
    if subject.partition_key is None:
        return records.asset(subject.asset_key)
    return records.partition(subject.asset_key, subject.partition_key)


def _origin(records: Records, made: MaterializationRow) -> tuple[Finding, ...]:
    """What requested the run of an output, and what was decided about the output."""
    run = records.run(made.run_id)
    verdict = judged(records, made)
    return (
        *(() if run is None else asked(records, run)),
        *(() if verdict is None else (verdict,)),
    )


def _without(records: Records, subject: Subject, name: str) -> Finding:
    row = _row(records, subject)
    never = Finding(
        what=What.NEVER_MADE,
        status=FindingStatus.WAITS,
        subject=name,
        text=f"{name} has never been materialized",
        seq=None if row is None else row.row_version,
    )
    if any(made.decided_at is None for made in records.quarantined(subject)):
        text = f"{name} has no data yet: its output is in quarantine"
        never = replace(never, text=text)
    if row is not None and row.latest_floor:
        text = f"{name} was wiped: earlier outputs no longer count"
        never = replace(never, what=What.WIPED, text=text)
    return _defined(records.asset(subject.asset_key), never)


def _defined(asset: AssetRow | None, found: Finding) -> Finding:
    """The finding, with a note if no code defines the asset."""
    if asset is None or asset.defined:
        return found
    missing = "no longer defines" if asset.location else "does not define"
    note = Finding(
        what=What.UNDEFINED,
        status=FindingStatus.NOTE,
        subject=asset.asset_key,
        text=f"the deployed code {missing} {asset.asset_key}",
        next="see `servo list` for what your code defines",
    )
    return replace(found, because=(*found.because, note))


# --- what was tried -------------------------------------------------------------------------------


def _attempts(records: Records, subject: Subject) -> list[Finding]:
    """The state of unfinished tasks, and of the last finished one unless it succeeded."""
    shown = _shown(records, subject)
    return list(several(shown, lambda row: _attempt(records, row), "task"))


def _shown(records: Records, subject: Subject) -> list[TaskRow]:
    tasks = records.tasks_of(subject)
    going = [row for row in tasks if row.state not in TERMINAL_TASK_STATES]
    last = next((row for row in tasks if row.state in TERMINAL_TASK_STATES), None)
    return going if last is None or last.state is TaskState.SUCCEEDED else [*going, last]


def _attempt(records: Records, task: TaskRow) -> Finding:
    found = explain_attempt(records, task)
    return replace(found, text=f"{found.text} (in {task.run_id})")


def _held(records: Records, subject: Subject) -> list[Finding]:
    """Outputs newer than the latest that are in quarantine, and the last rejected one."""
    made = _latest(records, subject)
    floor = 0 if made is None else made.created_seq
    rows = [row for row in records.quarantined(subject) if row.created_seq > floor]
    waiting = [row for row in rows if row.decided_at is None]
    refused = [row for row in rows if row.decided_at is not None and not row.promoted][:1]
    found = [judged(records, row) for row in (*waiting, *refused)]
    return list(several([one for one in found if one is not None], lambda one: one, "output"))


def _freshness(records: Records, subject: Subject) -> list[Finding]:
    """Whether an asset is older than its policy allows, or nearly so."""
    row = None if subject.partition_key is not None else records.freshness(subject.asset_key)
    if row is None or row.state not in (FreshnessState.WARN, FreshnessState.FAIL):
        return []
    failed = row.state is FreshnessState.FAIL
    what = "is older" if failed else "will soon be older"
    return [
        Finding(
            what=What.FRESHNESS,
            status=FindingStatus.FAILED if failed else FindingStatus.WAITS,
            subject=subject.asset_key,
            text=f"it {what} than its freshness policy allows: {row.state.value} since "
            f"{ago(row.changed_at, records.now)}",
            at=row.changed_at,
            seq=row.row_version,
        )
    ]


def _partitions(records: Records, subject: Subject) -> list[Finding]:
    failing = [] if subject.partition_key else records.failing_partitions(subject.asset_key)
    if not failing:
        return []
    names = [partition(key) for key in failing]
    first = place(subject.asset_key, failing[0])
    return [
        Finding(
            what=What.PARTITIONS,
            status=FindingStatus.FAILED,
            subject=subject.asset_key,
            text=f"the last attempt failed for the {_noun(names)} {listed(names)}",
            next="ask about one of them",
            command=f"servo why {quote(first)}",
        )
    ]


def _noun(names: list[str]) -> str:
    return "partition" if len(names) == 1 else "partitions"


# --- what is above --------------------------------------------------------------------------------


def _above(records: Records, subject: Subject) -> list[Finding]:
    """The upstream assets: the first that is missing or failing, and those that are newer."""
    asset = records.asset(subject.asset_key)
    if asset is None or not asset.upstream:
        return []
    told = {
        cause.task.asset_key
        for task in _shown(records, subject)
        for cause in first_causes(records, task)
    }
    return [*_troubled(records, asset, told), *_newer(records, asset, subject)]


def _troubled(records: Records, asset: AssetRow, told: Collection[str]) -> tuple[Finding, ...]:
    """Upstream assets that are missing or failing, as far up as the chain is unbroken.

    Without those in `told`, which were already named as causes of the last attempt.
    """
    below: dict[str, str] = {asset.asset_key: ""}
    causes: list[AssetRow] = []
    queue = deque([asset])
    while queue:
        lower = queue.popleft()
        rows = [records.asset(key) for key in lower.upstream if key not in below]
        bad = [row for row in rows if row is not None and _trouble(row)]
        below.update((row.asset_key, lower.asset_key) for row in bad)
        queue.extend(bad)
        if not bad and lower is not asset and lower.asset_key not in told:
            causes.append(lower)
    return several(causes, lambda row: _above_one(row, _between(below, row, asset)), "asset")


def _trouble(row: AssetRow) -> str:
    if row.consecutive_failures:
        often = row.consecutive_failures
        last = (
            "" if row.last_failure_at is None else f", the last at {instant(row.last_failure_at)}"
        )
        return f"failed{f' {often} times in a row' if often > 1 else ''}{last}"
    if row.last_materialization_id is None and row.last_observed_at is None:
        return "has never been materialized"
    return ""


def _between(below: dict[str, str], row: AssetRow, asset: AssetRow) -> list[str]:
    path: list[str] = []
    lower = below[row.asset_key]
    while lower != asset.asset_key:
        path.append(lower)
        lower = below[lower]
    return path


def _above_one(row: AssetRow, between: list[str]) -> Finding:
    path = f" (in between: {listed(between)})" if between else ""
    return Finding(
        what=What.UPSTREAM,
        status=FindingStatus.FAILED if row.consecutive_failures else FindingStatus.WAITS,
        subject=row.asset_key,
        text=f"it depends on {row.asset_key}, which {_trouble(row)}{path}",
        at=row.last_failure_at,
        seq=row.row_version,
        next="see why",
        command=f"servo why-not {quote(row.asset_key)}",
    )


def _newer(records: Records, asset: AssetRow, subject: Subject) -> list[Finding]:
    """The upstream assets that are newer than an asset."""
    made = _latest(records, subject)
    rows = [records.asset(key) for key in asset.upstream]
    if made is None:
        return []
    newer = [row.asset_key for row in rows if row is not None and _after(row, made.created_seq)]
    if not newer:
        return []
    text = f"its upstream assets are newer: {listed(newer)}"
    return [
        Finding(what=What.UPSTREAM, status=FindingStatus.NOTE, subject=asset.asset_key, text=text)
    ]


def _after(row: AssetRow, seq: int) -> bool:
    return row.last_materialization_seq is not None and row.last_materialization_seq > seq
