"""Every event there is, by tag.

A new kind of event is one struct in a family file, one line here and one rule in the fold.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import get_args

from servo.core.events.assets import (
    AssetObserved,
    AssetReported,
    AssetWiped,
    CheckEvaluated,
    DefinitionsDeployed,
    DynamicPartitionsChanged,
    OutputsExpired,
    QuarantineDecided,
)
from servo.core.events.automation import AutomationEvaluated, AutomationTicked
from servo.core.events.backfills import BackfillChunkPlanned, BackfillCreated, BackfillStateChanged
from servo.core.events.dispatch import (
    CancelGraceExpired,
    DispatchAckTimedOut,
    DispatchEnqueued,
    DispatchRequested,
    ExecutionTimedOut,
    LeaseExpired,
)
from servo.core.events.envelope import Event
from servo.core.events.freshness import FreshnessChanged
from servo.core.events.parking import ParkedBatchExpired
from servo.core.events.quotas import LaneWeightSet, PoolLimitSet, QuotaSet
from servo.core.events.runs import (
    PlanCreated,
    PlanDeadlineExceeded,
    PlanFailed,
    PlanSegmentExpanded,
    RunAdmitted,
    RunCancelRequested,
    RunDeadlineExceeded,
    RunRequested,
)
from servo.core.events.schedules import (
    SchedulePaused,
    ScheduleRemoved,
    ScheduleResumed,
    ScheduleRewound,
    ScheduleTicked,
    ScheduleUpserted,
    TicksSkipped,
)
from servo.core.events.sensors import (
    SensorCursorReset,
    SensorEvaluated,
    SensorMessageReceived,
    SensorPaused,
    SensorRemoved,
    SensorResumed,
    SensorUpserted,
)
from servo.core.events.tasks import TaskFinished, TaskStarted
from servo.core.events.timers import TimerCancelled, TimerEnqueued, TimerFired, TimerRequested

KnownEvent = (
    RunRequested
    | PlanCreated
    | PlanFailed
    | PlanSegmentExpanded
    | RunAdmitted
    | RunCancelRequested
    | RunDeadlineExceeded
    | PlanDeadlineExceeded
    | TaskStarted
    | TaskFinished
    | DispatchRequested
    | DispatchEnqueued
    | DispatchAckTimedOut
    | LeaseExpired
    | ExecutionTimedOut
    | CancelGraceExpired
    | TimerRequested
    | TimerEnqueued
    | TimerFired
    | TimerCancelled
    | QuotaSet
    | PoolLimitSet
    | LaneWeightSet
    | ScheduleUpserted
    | ScheduleRemoved
    | SchedulePaused
    | ScheduleResumed
    | ScheduleTicked
    | ScheduleRewound
    | TicksSkipped
    | SensorUpserted
    | SensorRemoved
    | SensorPaused
    | SensorResumed
    | SensorCursorReset
    | SensorMessageReceived
    | SensorEvaluated
    | AutomationTicked
    | AutomationEvaluated
    | BackfillCreated
    | BackfillChunkPlanned
    | BackfillStateChanged
    | DefinitionsDeployed
    | CheckEvaluated
    | QuarantineDecided
    | AssetObserved
    | AssetReported
    | OutputsExpired
    | AssetWiped
    | DynamicPartitionsChanged
    | FreshnessChanged
    | ParkedBatchExpired
)

EVENTS: Mapping[str, type[Event]] = MappingProxyType(
    {str(kind.__struct_config__.tag): kind for kind in get_args(KnownEvent)}
)
