"""What is asked of an evaluator process, and what it answers.

An answer never carries an exception: what user code raised is a text, with its secrets taken out.
"""

from datetime import datetime

import msgspec

from servo.core.events.assets import DynamicPartitionsChanged
from servo.core.events.runs import PlanCreated, RunRequested
from servo.core.state.rows.automation import BackfillRow


class Tick(msgspec.Struct, frozen=True, kw_only=True, tag="tick"):
    """What is to be made at this tick of a schedule?"""

    schedule_id: str
    tick_id: str
    scheduled_for: datetime


class Ticks(msgspec.Struct, frozen=True, kw_only=True, tag="ticks"):
    """The same of many schedules that no user code decides about."""

    ticks: tuple[Tick, ...]


class PlanChunks(msgspec.Struct, frozen=True, kw_only=True, tag="plan-chunks"):
    """What is to be made in these chunks of a backfill? One answer each."""

    backfill: BackfillRow
    chunks: tuple[int, ...]


class AskedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that was asked for, and its plan. A large plan has been stored."""

    requested: RunRequested
    planned: PlanCreated


class Evaluated(msgspec.Struct, frozen=True, kw_only=True, tag="evaluated", omit_defaults=True):
    """What an evaluation came to: runs, or why there are none; or what went wrong."""

    runs: tuple[AskedRun, ...] = ()
    dynamic: tuple[DynamicPartitionsChanged, ...] = ()
    skipped: str = ""
    cursor: str | None = None
    error: str = ""


class EvaluatedMany(msgspec.Struct, frozen=True, kw_only=True, tag="evaluated-many"):
    """The answers to several questions, in their order."""

    answers: tuple[Evaluated, ...]


class Started(msgspec.Struct, frozen=True, kw_only=True, tag="started"):
    """The process has imported the code and listens; or it has not, and why."""

    error: str = ""


Question = Tick | Ticks | PlanChunks
Answer = Started | Evaluated | EvaluatedMany

questions = msgspec.msgpack.Decoder(Question)
answers = msgspec.msgpack.Decoder(Answer)
