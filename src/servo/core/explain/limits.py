"""Which limits are reached: run slots, and for tasks a pool, a slot, the queue or a worker."""

from shlex import quote

from msgspec.structs import replace

from servo.core.explain import words
from servo.core.explain.finding import Finding, FindingStatus, What
from servo.core.explain.records import Records
from servo.core.state.rows.execution import RunRow, TaskRow
from servo.core.state.states import RunState, TaskState

RESUME = "servo resume"
NOBODY = "no leader is running in this workspace"


def waiting_for_worker(records: Records, task: TaskRow) -> Finding:
    """Why a ready task does not run."""
    holders = records.tasks_in(TaskState.DISPATCHED, TaskState.RUNNING)
    found = (
        _pool(records, task, [row for row in holders if row.pool == task.pool])
        or _slots(records, task, holders)
        or _queue(records, task)
        or _worker(records, task)
    )
    if records.led is False:
        command = f"{RESUME} {quote(task.location)}" if task.location else RESUME
        return replace(found, next=f"{NOBODY}: start a leader and its workers", command=command)
    return found


def _pool(records: Records, task: TaskRow, holders: list[TaskRow]) -> Finding | None:
    quota = records.quota("pool", task.pool) if task.pool else None
    limit = None if quota is None else quota.max_concurrent_tasks
    if limit is None or len(holders) < limit:
        return None
    where = f"the pool {task.pool}"
    return _waits(
        task,
        What.POOL_FULL,
        f"for a slot in {where}: {_full(limit, holders)}",
        f"wait for one of those to finish, or raise the limit of {where}",
        f"servo admin pool set {task.pool} {limit + 1}",
    )


def _slots(records: Records, task: TaskRow, holders: list[TaskRow]) -> Finding | None:
    limit = records.most_tasks()
    if len(holders) < limit:
        return None
    return _waits(
        task,
        What.SLOTS_FULL,
        f"for a slot of the workspace: {_full(limit, holders)}",
        "wait for one of those to finish, or raise the limit",
        f"servo admin quota --max-parallel {limit + 1}",
    )


def _queue(records: Records, task: TaskRow) -> Finding | None:
    quota = records.quota("workspace")
    limit = None if quota is None else quota.max_queued_tasks
    sent = records.tasks_in(TaskState.DISPATCHED)
    if limit is None or len(sent) < limit:
        return None
    return _waits(
        task,
        What.QUEUE_FULL,
        f"for a place in the queue: {_full(limit, sent)}",
        "start workers, or raise the limit",
        f"servo admin quota --max-queued {limit + 1}",
    )


def _worker(records: Records, task: TaskRow) -> Finding:
    ready = records.tasks_in(TaskState.READY)
    others = sum(row.location == task.location for row in ready) - 1
    among = f", as {words.plural(others, 'other task')} do" if others else ""
    which = f" of location {task.location}" if task.location else ""
    text = f"for a free worker{which}{among}"
    return _waits(task, What.TASK_READY, text, f"it starts when a worker{which} is free", "")


def _waits(task: TaskRow, what: What, text: str, after: str, command: str) -> Finding:
    """What a task has been waiting for since it became ready."""
    since = "" if task.ready_at is None else f" since {words.instant(task.ready_at)}"
    return Finding(
        what=what,
        status=FindingStatus.WAITS,
        subject=task.task_key,
        text=f"{words.task(task)} waits{since} {text}",
        at=task.ready_at,
        seq=task.row_version,
        next=after,
        command=command,
    )


def _full(limit: int, holders: list[TaskRow]) -> str:
    """How a limit is used up, and by what."""
    if not limit:
        return "its limit is 0, so nothing runs"
    names = words.listed([words.task(row) for row in holders])
    return f"{len(holders)} of {limit} taken, by {names}"


# --- runs -----------------------------------------------------------------------------------------


def waiting_for_run_slot(records: Records, run: RunRow) -> Finding:
    """Why a planned run has not started."""
    active = records.runs_in(RunState.RUNNING, RunState.CANCELLING)
    planned = [row for row in records.runs_in(RunState.PENDING) if row.plan_fingerprint]
    waiting = [row for row in planned if row.lane == run.lane]
    turn = (-run.priority, run.row_version)
    ahead = sum((-row.priority, row.row_version) < turn for row in waiting)
    quota = records.quota("workspace")
    limit = None if quota is None else quota.max_concurrent_runs
    found = Finding(
        what=What.RUN_WAITS,
        status=FindingStatus.WAITS,
        subject=run.run_id,
        text=f"{run.run_id} waits for a free run slot",
        at=run.created_at,
        seq=run.row_version,
    )
    if limit is None or len(active) < limit:
        return _about_to_start(records, found)
    holders = words.listed([row.run_id for row in active])
    used = f"{len(active)} of {limit} runs are active: {holders}" if limit else "the limit is 0"
    goes = "goes" if ahead == 1 else "go"
    before = f"; {words.plural(ahead, 'run')} {goes} before it" if ahead else ""
    return replace(
        found,
        text=f"{found.text}: {used}{before}",
        next="it starts when enough of them have finished; or raise the limit",
        command=f"servo admin quota --max-runs {limit + 1}",
    )


def runs_of_the_day(records: Records) -> list[Finding]:
    """Whether the daily limit of runs is reached: rejected requests leave no record."""
    quota = records.quota("workspace")
    limit = None if quota is None else quota.max_daily_runs
    if quota is None or limit is None or quota.daily_runs_count < limit:
        return []
    if quota.daily_runs_day != records.now.date().isoformat():
        return []
    return [
        Finding(
            what=What.DAILY_LIMIT,
            status=FindingStatus.WAITS,
            subject=quota.daily_runs_day,
            text="no more runs are accepted today: the workspace is limited to "
            f"{words.plural(limit, 'run')} a day",
            seq=quota.row_version,
            next="wait until midnight UTC, or raise the limit",
            command=f"servo admin quota --max-daily-runs {limit + 1}",
        )
    ]


def _about_to_start(records: Records, found: Finding) -> Finding:
    """A slot is free; only a leader is needed to assign it."""
    if records.led is False:
        return replace(found, text=f"{found.text}; one is free, but {NOBODY}", command=RESUME)
    return replace(found, text=f"{found.text}; one is free", next="it starts in a moment")
