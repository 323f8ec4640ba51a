"""Logs: the output of a run's executions, afterwards or while they run.

About once a second, an execution stores its output so far as one object, which it replaces.
Following therefore means polling: each poll returns what is new since the last one.
"""

from collections.abc import Callable, Iterator, Mapping

import msgspec

from servo.core.state.rows.execution import RunRow, TaskRow
from servo.core.state.states import TERMINAL_RUN_STATES
from servo.errors import NotFound, ServoError
from servo.ledger.paths import unquoted
from servo.operations.interface.listing import Page
from servo.operations.interface.moments import AsOf
from servo.operations.interface.roles import operation
from servo.operations.runs import find_run, newest_run, newest_runs
from servo.ports.object_store import ObjectMeta
from servo.projection.partitions.asset_names import find_asset
from servo.projection.read.lookup import Lookup
from servo.projection.read.reader import Snapshot
from servo.workspace.workspace import Workspace

OVERLAP = 4096


class LogQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Whose output: that of a run, by default the newest, or of one asset of it.

    Without an `asset`, a `run` that names no run may name an asset of the newest run.
    """

    run: str | None = None
    asset: str | None = None


class LogChunk(msgspec.Struct, frozen=True, kw_only=True):
    """Something that one execution printed; `offset` counts the bytes given of it before."""

    run_id: str
    task_key: str
    attempt: int
    exec_id: str
    offset: int = 0
    text: str


class RunLogs(msgspec.Struct, frozen=True, kw_only=True):
    """All that the executions of a run printed, by task and attempt."""

    run_id: str
    items: list[LogChunk]


@operation
def get_logs(workspace: Workspace, query: LogQuery, *, as_of: AsOf | None = None) -> RunLogs:
    """What the executions of a run have printed.

    Logs have no versions: with `as_of`, executions that had not begun by then are left out, and
    the output of the others is whole.
    """
    source = workspace.read(lambda snapshot: _source(snapshot, query), as_of=as_of)
    found = list(_Tail(workspace, source.run.run_id).look(source))
    if as_of is not None:
        begun = source.attempts
        found = [one for one in found if one.attempt <= begun.get(one.task_key, 0)]
    return RunLogs(run_id=source.run.run_id, items=found)


@operation
def follow_logs(
    workspace: Workspace, query: LogQuery, *, wait: Callable[[], object]
) -> Iterator[LogChunk]:
    """Follow the output of a run's executions until the run has finished.

    `wait` is called between two polls. If there is no run yet, wait for the first one.
    """
    while query.run is None and _is_unused(workspace):
        _ = wait()
    source = workspace.read(lambda snapshot: _source(snapshot, query))
    tail = _Tail(workspace, source.run.run_id)
    same = LogQuery(run=source.run.run_id, asset=source.asset_text)
    while True:
        yield from tail.look(source)
        # The state was read before the look: a run ends after the last of it was printed.
        if source.run.state in TERMINAL_RUN_STATES:
            return
        _ = wait()
        source = workspace.read(lambda snapshot: _source(snapshot, same))


def _is_unused(workspace: Workspace) -> bool:
    """Whether there was no run yet; the workspace may have published nothing at all."""
    try:
        return not workspace.read(lambda snapshot: newest_runs(snapshot, Page(limit=1))).items
    except NotFound:
        return True


# --- which run, and which of its tasks ------------------------------------------------------------


class _Source(msgspec.Struct, frozen=True, kw_only=True):
    """A run, its attempts by task, and the asset whose tasks are meant, if it is one.

    `asset_key` is None also while a run that goes on has no task for `asset_text` yet.
    """

    run: RunRow
    attempts: Mapping[str, int]
    asset_text: str | None = None
    asset_key: str | None = None

    def has(self, task_key: str) -> bool:
        """Whether the output of a task is meant."""
        return self.asset_text is None or _asset_of(task_key) == self.asset_key


def _source(snapshot: Snapshot, query: LogQuery) -> _Source:
    if query.run is None or query.asset is not None:
        return _in_run(snapshot, _run(snapshot, query.run), query.asset)
    try:
        return _in_run(snapshot, _run(snapshot, query.run), None)
    except NotFound as no_run:
        try:
            return _in_run(snapshot, _run(snapshot, None), query.run, must_be_there=True)
        except ServoError:
            raise no_run from None


def _in_run(
    snapshot: Snapshot, run: RunRow, asset: str | None, *, must_be_there: bool = False
) -> _Source:
    """A run with the tasks that are meant; an asset may have none yet, unless it must."""
    tasks = Lookup(snapshot).all(TaskRow, run_id=run.run_id)
    attempts = {task.task_key: task.attempt for task in tasks}
    found = _Source(run=run, attempts=attempts, asset_text=asset)
    if asset is None:
        return found
    makers = {key: task.asset_key for task in tasks for key in (task.asset_key, *task.also_makes)}
    try:
        return msgspec.structs.replace(found, asset_key=makers[find_asset(makers, asset)])
    except NotFound:
        if must_be_there or run.state in TERMINAL_RUN_STATES:
            raise
        return found


def _run(snapshot: Snapshot, run_id: str | None) -> RunRow:
    return newest_run(snapshot) if run_id is None else find_run(Lookup(snapshot), run_id)


# --- what is new ----------------------------------------------------------------------------------


class _Tail:
    """The logs of one run: each look gives what was stored since the last one."""

    def __init__(self, workspace: Workspace, run_id: str) -> None:
        self._store = workspace.store
        self._run_id = run_id
        self._prefix = workspace.paths.logs_of(run_id)
        self._versions: dict[str, str] = {}
        self._seen: dict[str, bytes] = {}
        self._offsets: dict[str, int] = {}

    def look(self, source: _Source) -> Iterator[LogChunk]:
        """What is new of the tasks that are meant."""
        for meta in self._store.list_after(self._prefix):
            task_key, attempt, exec_id = self._named(meta.key)
            if not source.has(task_key) or self._versions.get(meta.key) == meta.version:
                continue
            offset = self._offsets.get(meta.key, 0)
            new = self._new(meta)
            if new:
                yield LogChunk(
                    run_id=self._run_id,
                    task_key=task_key,
                    attempt=attempt,
                    exec_id=exec_id,
                    offset=offset,
                    text=new.decode(errors="replace"),
                )

    def _new(self, meta: ObjectMeta) -> bytes:
        data = self._store.get(meta.key).data
        new = _behind(self._seen.get(meta.key, b""), data)
        self._versions[meta.key], self._seen[meta.key] = meta.version, data
        self._offsets[meta.key] = self._offsets.get(meta.key, 0) + len(new)
        return new

    def _named(self, key: str) -> tuple[str, int, str]:
        """The task, attempt and execution whose log this is."""
        task, attempt, file = key.removeprefix(self._prefix).split("/")
        return unquoted(task), int(attempt), file.removesuffix(".txt")


def _asset_of(task_key: str) -> str:
    return task_key.rpartition(":")[0].partition("[")[0]


def _behind(before: bytes, now: bytes) -> bytes:
    """What came after `before`, whose beginning may be gone: long logs keep only their end."""
    if now.startswith(before):
        return now[len(before) :]
    place = now.rfind(before[-OVERLAP:])
    return now if place < 0 else now[place + min(OVERLAP, len(before)) :]
