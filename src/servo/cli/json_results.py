"""What `--json` of every command prints.

The types are those that operations and hosts return. Their JSON Schema is recorded with that of the
operations, so that scripts can rely on what they read. A command with several types prints one of
them, depending on its options.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from servo.code.backfills.view import ShownBackfill
from servo.code.evaluator.messages import ConditionForecast
from servo.core.lanes import LaneWeight
from servo.core.quotas import WorkspaceLimit
from servo.core.state.rows.automation import ScheduleTickRow, SensorEvalRow
from servo.core.state.rows.system import DeadLetterRow, QuotaRow
from servo.host.checking import LocationReport
from servo.host.one_pass import PassReport
from servo.host.projects import ProjectCreated
from servo.operations.admin import Collected, Comparison, Inspection, Rebuilt, VerifyReport
from servo.operations.assets import AssetDetail, AssetHistory, FreshnessHistory, WipeResult
from servo.operations.backfill_requests import BackfillBegun, BackfillPreview
from servo.operations.backfills import BackfillChanged, BackfillDetail, BackfillFinished, Resumed
from servo.operations.dead_letters import DeadLetter
from servo.operations.dynamic_partitions import PartitionSetChange
from servo.operations.explain import Explanation
from servo.operations.interface.listing import Listing
from servo.operations.logs import LogChunk, RunLogs
from servo.operations.partitions import PartitionCounts, PartitionListing
from servo.operations.quarantine import QuarantineDecision, QuarantinedOutput
from servo.operations.quotas import LaneChanged, PoolLimit, QuotaChanged
from servo.operations.run_requests import RunPreview
from servo.operations.runs import RunCancelled, RunDetail, RunListing
from servo.operations.sql import SqlResult
from servo.operations.stale import StaleListing
from servo.operations.status import WorkspaceStatus
from servo.operations.triggers.automation import ConditionDetail, ConditionEvaluation
from servo.operations.triggers.conditions import ListedCondition
from servo.operations.triggers.schedules import (
    ListedSchedule,
    ScheduleChanged,
    ScheduleDetail,
    UpcomingTicks,
)
from servo.operations.triggers.sensor_messages import MessageSent
from servo.operations.triggers.sensor_trials import SensorEvaluation
from servo.operations.triggers.sensors import (
    CursorMoved,
    ListedSensor,
    SensorChanged,
    SensorCursor,
    SensorDetail,
)
from servo.operations.triggers.ticks import TickFinished, TickPreview

RESULTS: Mapping[str, tuple[Any, ...]] = MappingProxyType(
    {
        "admin dead-letters list": (Listing[DeadLetterRow],),
        "admin dead-letters show": (DeadLetter,),
        "admin gc": (Collected,),
        "admin inspect": (Inspection,),
        "admin lane list": (Listing[LaneWeight],),
        "admin lane reset": (LaneChanged,),
        "admin lane set": (LaneChanged,),
        "admin pool list": (Listing[QuotaRow],),
        "admin pool remove": (PoolLimit,),
        "admin pool set": (PoolLimit,),
        "admin quota": (Listing[WorkspaceLimit], QuotaChanged),
        "admin rebuild": (Rebuilt, Comparison),
        "admin verify": (VerifyReport,),
        "asset history": (AssetHistory, FreshnessHistory),
        "asset show": (AssetDetail,),
        "asset wipe": (WipeResult,),
        "automation evaluate": (Listing[ConditionForecast],),
        "automation history": (Listing[ConditionEvaluation],),
        "automation list": (Listing[ListedCondition],),
        "automation pause": (SensorChanged,),
        "automation resume": (SensorChanged,),
        "automation show": (ConditionDetail,),
        "backfill cancel": (BackfillChanged,),
        "backfill create": (BackfillBegun, BackfillFinished, None),
        "backfill list": (Listing[ShownBackfill],),
        "backfill pause": (BackfillChanged,),
        "backfill preview": (BackfillPreview,),
        "backfill resume": (BackfillChanged,),
        "backfill retry-failed": (BackfillBegun, BackfillFinished),
        "backfill show": (BackfillDetail,),
        "backfill wait": (BackfillFinished,),
        "check": (Listing[LocationReport],),
        "init": (ProjectCreated,),
        "list": (Listing[LocationReport],),
        "logs": (RunLogs, LogChunk),
        "materialize": (RunDetail, RunPreview),
        "partitions add": (PartitionSetChange,),
        "partitions delete": (PartitionSetChange,),
        "partitions list": (PartitionListing,),
        "partitions stale": (StaleListing,),
        "partitions status": (PartitionCounts,),
        "quarantine approve": (QuarantineDecision,),
        "quarantine list": (Listing[QuarantinedOutput],),
        "quarantine reject": (QuarantineDecision,),
        "resume": (Resumed,),
        "run cancel": (RunCancelled,),
        "run list": (RunListing,),
        "run retry": (RunDetail,),
        "run show": (RunDetail,),
        "schedule list": (Listing[ListedSchedule],),
        "schedule pause": (ScheduleChanged,),
        "schedule preview": (UpcomingTicks,),
        "schedule resume": (ScheduleChanged,),
        "schedule show": (ScheduleDetail,),
        "schedule ticks": (Listing[ScheduleTickRow],),
        "schedule trigger": (TickFinished, TickPreview),
        "sensor cursor": (SensorCursor, CursorMoved),
        "sensor evaluate": (SensorEvaluation,),
        "sensor history": (Listing[SensorEvalRow],),
        "sensor list": (Listing[ListedSensor],),
        "sensor pause": (SensorChanged,),
        "sensor push": (MessageSent,),
        "sensor resume": (SensorChanged,),
        "sensor show": (SensorDetail,),
        "sql": (SqlResult,),
        "status": (WorkspaceStatus,),
        "tick": (PassReport,),
        "why": (Explanation,),
        "why-not": (Explanation,),
    }
)

WITHOUT_JSON: Mapping[str, str] = MappingProxyType(
    {
        "completion": "prints a script for a shell",
        "demo": "is a story for a person at a terminal",
        "dev": "runs until it is stopped, and prints what happens",
    }
)
"""Commands that have no result, and why."""
