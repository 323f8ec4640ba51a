"""The requests to an evaluator process, and its answers.

An answer never carries an exception: what user code raised is a string, with secrets removed.
"""

from datetime import datetime
from typing import Any

import msgspec

from servo.code.backfills.requests import Asked, Outline
from servo.core.automation.trees import Tree
from servo.core.declared import Declared
from servo.core.events.assets import AssetObserved, AssetReported, DynamicPartitionsChanged
from servo.core.events.automation import AutomationEvaluated, AutomationTicked
from servo.core.events.runs import PlanCreated, RunRequested
from servo.core.plan import Plan
from servo.core.state.rows.automation import BackfillRow
from servo.core.state.rows.execution import TaskRow
from servo.sdk.definitions.executors import ExecutorDefinition


class EvaluateTick(msgspec.Struct, frozen=True, kw_only=True, tag="tick"):
    """Which runs does this tick of a schedule request?"""

    schedule_id: str
    tick_id: str
    scheduled_for: datetime


class EvaluateTicks(msgspec.Struct, frozen=True, kw_only=True, tag="ticks"):
    """The same for many schedules without user code."""

    ticks: tuple[EvaluateTick, ...]


class EvaluateSensor(msgspec.Struct, frozen=True, kw_only=True, tag="look"):
    """What does a sensor request now?

    `seq` is the entry of the ledger up to which it must see everything, `since` the one after which
    a sensor without a cursor begins, `failures` how often it has failed in a row. An asset
    or run sensor gets a single event if `alone`, and skips the first if it is to `pass_over` it.
    `payload` is the payload with which a push sensor is tested.
    """

    sensor_id: str
    eval_id: str
    cursor: str | None = None
    seq: int = 0
    since: int = 0
    failures: int = 0
    alone: bool = False
    pass_over: bool = False
    payload: str = ""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message; a large payload is stored under its digest."""

    message_id: str
    eval_id: str
    received_at: datetime
    payload: str = ""
    payload_digest: str = ""


class EvaluateMessages(msgspec.Struct, frozen=True, kw_only=True, tag="arrived"):
    """What does a push sensor request for these messages? The answer may cover only the first."""

    sensor_id: str
    messages: tuple[Message, ...]


class EvaluateConditions(msgspec.Struct, frozen=True, kw_only=True, tag="judge"):
    """What do the conditions of a sensor request now? `forget` starts from what is recorded."""

    sensor_id: str
    forget: bool = False


class PreviewConditions(msgspec.Struct, frozen=True, kw_only=True, tag="preview-conditions"):
    """What would the conditions of the selected assets request now? Without a selection, all."""

    select: tuple[str, ...] = ()


class PlanChunks(msgspec.Struct, frozen=True, kw_only=True, tag="plan-chunks"):
    """What do these chunks of a backfill materialize? One answer each."""

    backfill: BackfillRow
    chunks: tuple[int, ...]


class PlanBackfill(msgspec.Struct, frozen=True, kw_only=True, tag="plan-backfill"):
    """What would a backfill do? Without a selection, of every asset that has partitions."""

    asked: Asked
    select: tuple[str, ...] = ()


class RunScope(msgspec.Struct, frozen=True, kw_only=True):
    """What a new run covers: a selection or a job, and partitions. Without either, every asset.

    `ranges` are first and last partitions. `config` is the configuration of the run, checked
    against what the selected code accepts.
    """

    select: tuple[str, ...] = ()
    job: str | None = None
    checks_only: bool = False
    partitions: tuple[str, ...] = ()
    ranges: tuple[tuple[str, str], ...] = ()
    config: dict[str, Any] = {}


class PlanRun(RunScope, frozen=True, kw_only=True, tag="plan-run", omit_defaults=True):
    """Which tasks would a new run have?"""

    @classmethod
    def of(cls, scope: RunScope) -> "PlanRun":
        """The question for the run of this scope."""
        return cls(**{name: getattr(scope, name) for name in RunScope.__struct_fields__})


class PlanRetry(msgspec.Struct, frozen=True, kw_only=True, tag="plan-retry"):
    """Which tasks would repeat these tasks of a run, or those of them that make selected assets?

    `job` is the job of the run; if the code no longer defines it, it adds nothing.
    """

    run_id: str
    job: str | None = None
    tasks: tuple[TaskRow, ...]
    select: tuple[str, ...] = ()


class DescribeCode(msgspec.Struct, frozen=True, kw_only=True, tag="describe-code"):
    """What does the code declare?"""


class RequestedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A requested run and its plan. A large plan has been stored."""

    requested: RunRequested
    planned: PlanCreated


class Evaluated(msgspec.Struct, frozen=True, kw_only=True, tag="evaluated", omit_defaults=True):
    """The result of an evaluation: runs, or why there are none, or the error.

    `dynamic` are partitions to add or remove, `reported` the asset events of a sensor. `more` is
    set by a sensor that has more to evaluate at once. `unasked` is set if the code could not be
    imported or the store could not be reached: that is not a failure of the schedule or sensor.
    `cause` is the position of the event that a sensor reacted to, if it is an event of this
    workspace, and `correlation` is its origin.
    """

    runs: tuple[RequestedRun, ...] = ()
    dynamic: tuple[DynamicPartitionsChanged, ...] = ()
    reported: tuple[AssetReported | AssetObserved, ...] = ()
    skipped: str = ""
    cursor: str | None = None
    more: bool = False
    error: str = ""
    unasked: bool = False
    cause: str = ""
    correlation: str = ""


class EvaluatedMany(msgspec.Struct, frozen=True, kw_only=True, tag="evaluated-many"):
    """The answers to several questions, in their order."""

    answers: tuple[Evaluated, ...]


class ConditionsEvaluated(
    msgspec.Struct, frozen=True, kw_only=True, tag="judged", omit_defaults=True
):
    """The result of an evaluation of conditions: what to commit, and when to evaluate again.

    It is based on the ledger up to `seq`. If it exceeds one batch, other batches come `first`.
    """

    first: tuple[tuple[AutomationTicked | AutomationEvaluated, ...], ...] = ()
    ticked: tuple[AutomationTicked | AutomationEvaluated, ...] = ()
    runs: tuple[RequestedRun, ...] = ()
    next_due: datetime | None = None
    seq: int = 0
    error: str = ""


class ConditionForecast(msgspec.Struct, frozen=True, kw_only=True):
    """What the condition of an asset or a check would request now, and why.

    `requested` are partitions, `""` for an asset without any.
    """

    asset_key: str
    sensor_id: str
    requested: tuple[str, ...]
    tree: Tree


class ConditionsPreviewed(msgspec.Struct, frozen=True, kw_only=True, tag="conditions-previewed"):
    """What conditions would request now, in the order of the graph."""

    forecasts: tuple[ConditionForecast, ...]


class BackfillPlanned(msgspec.Struct, frozen=True, kw_only=True, tag="backfill-planned"):
    """What a backfill would do."""

    outline: Outline


class RunPlanned(msgspec.Struct, frozen=True, kw_only=True, tag="run-planned", omit_defaults=True):
    """The tasks of a run, with the configuration and the labels that its job and partitions give.

    `executor` limits how many of its tasks run at a time. `hints` are remarks for the user,
    such as a dependency that may be misspelt.
    """

    plan: Plan
    location: str = ""
    config: dict[str, Any] = {}
    labels: dict[str, str] = {}
    executor: ExecutorDefinition | None = None
    hints: tuple[str, ...] = ()


class CodeDescribed(msgspec.Struct, frozen=True, kw_only=True, tag="code-described"):
    """What the code declares: its assets, schedules and sensors."""

    declared: Declared


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag="refused", omit_defaults=True):
    """The request cannot be answered: an error with its kind, for the caller to raise."""

    kind: str
    message: str
    remedy: str = ""


class Started(msgspec.Struct, frozen=True, kw_only=True, tag="started"):
    """The process has imported the code and is ready; or the error why it has not."""

    error: str = ""


EvaluatorQuestion = (
    EvaluateTick
    | EvaluateTicks
    | EvaluateSensor
    | EvaluateMessages
    | EvaluateConditions
    | PlanChunks
    | PreviewConditions
    | PlanBackfill
    | PlanRun
    | PlanRetry
    | DescribeCode
)
EvaluatorAnswer = (
    Started
    | Evaluated
    | EvaluatedMany
    | ConditionsEvaluated
    | ConditionsPreviewed
    | BackfillPlanned
    | RunPlanned
    | CodeDescribed
    | Refused
)

questions = msgspec.msgpack.Decoder(EvaluatorQuestion)
answers = msgspec.msgpack.Decoder(EvaluatorAnswer)
