"""New runs: plan one, start it, or retry the tasks of another run that did not succeed.

Planning needs user code, so the evaluator of a code location does it. The plan is data: the process
that starts the run imports no user code.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from servo.code.evaluator.messages import PlanRetry, PlanRun, RunPlanned, RunScope
from servo.core.ids import check_text
from servo.core.keys import TaskOperation
from servo.core.partitions import shown_partition
from servo.core.plan import Plan, TaskSpec
from servo.core.state.rows.execution import RunRow, TaskRow
from servo.core.state.states import TaskState
from servo.core.tags import JOB_LABEL, MAX_PRIORITY, PRIORITIES, request_tags
from servo.errors import Conflict, NotFound
from servo.operations.interface.evaluating import Evaluates, answer_from
from servo.operations.interface.moments import PRESENT
from servo.operations.interface.numbers import check_number
from servo.operations.interface.roles import operation, step
from servo.operations.runs import RunDetail, find_run, run_detail
from servo.projection.read.lookup import Lookup
from servo.projection.read.reader import Snapshot
from servo.sdk.definitions.executors import ExecutorDefinition
from servo.workspace.receipt import Receipt
from servo.workspace.run_requests import (
    WantedRun,
    by_person,
    request_fingerprint,
    run_events,
    run_key_taken,
    with_config,
)
from servo.workspace.workspace import Workspace

RUN_KEY_PREFIX = "manual:"
"""What a person's run key begins with: none of a schedule or a sensor is ever the same."""


class NewRun(RunScope, frozen=True, kw_only=True):
    """A requested run: a selection or a job, and how to run it.

    Without either, every asset is materialized. `ranges` are first and last partitions. Repeating a
    request with the same `run_key` creates no second run. Tasks of a run with a higher `priority`
    start first. `tags` win over the `default_tags` of the project. With `isolate`, each task runs
    in a process of its own.
    """

    tags: dict[str, str] = msgspec.field(default_factory=dict)
    default_tags: dict[str, str] = msgspec.field(default_factory=dict)
    isolate: bool = False
    priority: int = 0
    run_key: str | None = None

    @property
    def text(self) -> str:
        """The request as the user wrote it."""
        what = f"job {self.job}" if self.job is not None else " ".join(self.select) or "all assets"
        return f"checks of {what}" if self.checks_only else what


class PlannedTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task that a run would have.

    `partition_key` is its partition as it is stored, `partition` as people write it.
    """

    task_key: str
    asset_key: str
    also_makes: tuple[str, ...]
    partition_key: str | None
    partition: str | None
    operation: TaskOperation
    upstream: tuple[str, ...]


class RunPreview(msgspec.Struct, frozen=True, kw_only=True):
    """The tasks that a run would have, in an order in which they could run.

    `hints` are remarks on the code, such as a dependency that may be misspelt.
    """

    tasks: list[PlannedTask]
    config: dict[str, Any]
    labels: dict[str, str]
    hints: tuple[str, ...] = ()


class RunTriggered(msgspec.Struct, frozen=True, kw_only=True):
    """A requested run, and the receipt.

    `created` is false if the run key belongs to an earlier, equal request: then it is that run.
    """

    run_id: str
    created: bool
    receipt: Receipt


@operation
def plan_run(workspace: Workspace, evaluates: Evaluates, new: NewRun) -> RunPreview:
    """The tasks that a run would have. Nothing is created."""
    del workspace  # the evaluator reads it
    return previewed(prepare_run(evaluates, new))


@operation
def trigger_run(workspace: Workspace, evaluates: Evaluates, new: NewRun) -> RunTriggered:
    """Start a run. The leader of the workspace does the work."""
    return start_run(workspace, prepare_run(evaluates, new))


@operation
def retry_run(
    workspace: Workspace,
    evaluates: Evaluates,
    run_id: str,
    *,
    everything: bool = False,
    select: Sequence[str] = (),
) -> RunTriggered:
    """Start a run, with the tags of another, that repeats the tasks of it that did not succeed.

    With `everything` it repeats all of them, with `select` those that make the selected assets.
    """
    repeated = run_to_retry(workspace, run_id, everything=everything, select=select)
    return start_run(workspace, prepare_retry(evaluates, repeated, select))


# --- in steps, for whoever also waits -------------------------------------------------------------


class PreparedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is planned and not started. `again` is the run that it repeats."""

    plan: Plan
    text: str
    location: str
    labels: Mapping[str, str]
    config: Mapping[str, Any] = {}
    run_key: str | None = None
    again: RunRow | None = None
    executor: ExecutorDefinition | None = None
    hints: tuple[str, ...] = ()


def prepare_run(evaluates: Evaluates, new: NewRun) -> PreparedRun:
    """Plan a run; refuses what the code cannot do."""
    found = answer_from(evaluates, PlanRun.of(new), RunPlanned)
    tags = request_tags(
        new.tags, defaults=new.default_tags, location=found.location, isolate=new.isolate
    )
    return PreparedRun(
        plan=found.plan,
        text=new.text,
        location=found.location,
        labels={**found.labels, **tags, **_priority(new.priority)},
        config=found.config,
        run_key=None if new.run_key is None else check_text(new.run_key, "run key"),
        executor=found.executor,
        hints=found.hints,
    )


@step
def run_to_retry(
    workspace: Workspace, run_id: str, *, everything: bool = False, select: Sequence[str] = ()
) -> RunDetail:
    """A run with those of its tasks that are to be repeated; `Conflict` if there are none."""
    found = workspace.read(lambda snapshot: run_detail(snapshot, run_id), as_of=PRESENT)
    whole = everything or bool(select)
    tasks = [task for task in found.tasks if whole or task.state is not TaskState.SUCCEEDED]
    if not tasks:
        raise Conflict(
            f"every task of {found.run.run_id} succeeded",
            remedy=f"repeat them with `servo run retry --all {found.run.run_id}`",
        )
    return msgspec.structs.replace(found, tasks=tasks)


def prepare_retry(
    evaluates: Evaluates, repeated: RunDetail, select: Sequence[str] = ()
) -> PreparedRun:
    """Plan the run that repeats these tasks of another."""
    run = repeated.run
    tasks: tuple[TaskRow, ...] = tuple(repeated.tasks)
    question = PlanRetry(
        run_id=run.run_id, job=run.labels.get(JOB_LABEL), tasks=tasks, select=tuple(select)
    )
    found = answer_from(evaluates, question, RunPlanned)
    return PreparedRun(
        plan=found.plan,
        text=f"retry {run.run_id}",
        location=found.location,
        labels=run.labels,
        again=run,
        executor=found.executor,
    )


@step
def start_run(workspace: Workspace, prepared: PreparedRun) -> RunTriggered:
    """Start a run that is planned; `Conflict` if its run key belongs to another request."""
    wanted = by_person(_wanted(prepared, workspace.token()), workspace.actor, prepared.again)
    salt = workspace.identity()
    events = run_events(workspace.store, workspace.paths, salt, wanted)
    receipt = workspace.submit(*events, cause=prepared.again).checked()
    run_id = str(receipt.data.get("run_id", events[0].run_id))
    if receipt.reason and receipt.applied:  # the run key is known, with another request
        raise run_key_taken(wanted.request_id or wanted.run_key, _asked_for(workspace, run_id))
    # Nobody else has the key that was made here: if it is known, an earlier try went through.
    created = prepared.run_key is None or not receipt.repeated
    return RunTriggered(run_id=run_id, created=created, receipt=receipt)


def previewed(prepared: PreparedRun) -> RunPreview:
    """The summary of a plan."""
    return RunPreview(
        tasks=[_task(task) for task in prepared.plan.tasks],
        config=dict(prepared.config),
        labels=dict(prepared.labels),
        hints=prepared.hints,
    )


def _wanted(prepared: PreparedRun, token: str) -> WantedRun:
    tags = with_config(prepared.labels, prepared.config)
    kind = "materialize" if prepared.again is None else f"retry:{prepared.again.run_id}"
    wanted = WantedRun(
        plan=prepared.plan,
        run_key=f"{kind}:{token}",
        tags=tags,
        location=prepared.location,
        text=prepared.text,
    )
    if prepared.run_key is None:
        return wanted
    return msgspec.structs.replace(
        wanted,
        run_key=f"{RUN_KEY_PREFIX}{prepared.run_key}",
        request_id=prepared.run_key,
        fingerprint=request_fingerprint(prepared.plan, tags),
    )


def _priority(priority: int) -> dict[str, str]:
    _ = check_number(priority, "priority", range(-MAX_PRIORITY, MAX_PRIORITY + 1))
    return {PRIORITIES[0]: str(priority)} if priority else {}


def _asked_for(workspace: Workspace, run_id: str) -> str:
    """The request of an earlier run, for the error about its run key."""

    def use(snapshot: Snapshot) -> str:
        return find_run(Lookup(snapshot), run_id).request_text

    try:
        text = workspace.read(use)
    except NotFound:  # not published yet
        text = ""
    return f"{run_id} was requested for {text or 'something else'}"


def _task(task: TaskSpec) -> PlannedTask:
    return PlannedTask(
        task_key=task.task_key,
        asset_key=task.asset_key,
        also_makes=task.also_makes,
        partition_key=task.partition,
        partition=shown_partition(task.partition),
        operation=task.operation,
        upstream=task.upstream,
    )
