"""The states of runs and tasks, and the reasons they change.

    PLANNED ─┬─> BLOCKED ──> READY ──> DISPATCHED ──> RUNNING ─┬─> SUCCEEDED
             └─────────────> READY      │   ^            │     ├─> FAILED
                                        │   └─ again     v     ├─> SKIPPED
                                        └────────> RETRY_WAIT  └─> CANCELLED
                                                       └─> READY

A task that runs can also be given back before it began, and is READY again.

The four on the right are terminal and stay. Every other state has something that leaves it: an
upstream that ends, a slot that frees, or a deadline kept in the row.
"""

from enum import StrEnum


class TaskState(StrEnum):
    PLANNED = "PLANNED"
    BLOCKED = "BLOCKED"
    READY = "READY"
    DISPATCHED = "DISPATCHED"
    RUNNING = "RUNNING"
    RETRY_WAIT = "RETRY_WAIT"
    SKIPPED = "SKIPPED"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"
    SUCCEEDED = "SUCCEEDED"


# By name, because finding a member in its enumeration costs more than the comparison it is for.
PLANNED = TaskState.PLANNED
BLOCKED = TaskState.BLOCKED
READY = TaskState.READY
DISPATCHED = TaskState.DISPATCHED
RUNNING = TaskState.RUNNING
RETRY_WAIT = TaskState.RETRY_WAIT
SKIPPED = TaskState.SKIPPED
CANCELLED = TaskState.CANCELLED
FAILED = TaskState.FAILED
SUCCEEDED = TaskState.SUCCEEDED

TERMINAL_TASK_STATES = frozenset({SKIPPED, CANCELLED, FAILED, SUCCEEDED})


class RunState(StrEnum):
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    CANCELLING = "CANCELLING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    TIMED_OUT = "TIMED_OUT"


TERMINAL_RUN_STATES = frozenset(
    {RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED, RunState.TIMED_OUT}
)


class TransitionReason(StrEnum):
    """Why a task is in the state it is in."""

    PLANNED = "planned"
    WAITING_FOR_UPSTREAM = "waiting_for_upstream"
    DEPENDENCIES_SATISFIED = "dependencies_satisfied"
    DISPATCHED_TO_WORKER = "dispatched_to_worker"
    EXECUTION_STARTED = "execution_started"
    GIVEN_BACK = "given_back"
    EXECUTION_SUCCEEDED = "execution_succeeded"
    EXECUTION_FAILED = "execution_failed"
    EXECUTION_SKIPPED = "execution_skipped"
    TIMED_OUT = "timed_out"
    INTERRUPTED = "interrupted"
    HEARTBEAT_TIMEOUT = "heartbeat_timeout"
    DISPATCH_ACK_TIMEOUT = "dispatch_ack_timeout"
    RETRY_TIMER_EXPIRED = "retry_timer_expired"
    USER_CANCELLED = "user_cancelled"
    SYSTEM_CANCELLED = "system_cancelled"
    UPSTREAM_CANCELLED = "upstream_cancelled"
    UPSTREAM_FAILED = "upstream_failed"
    UPSTREAM_SKIPPED = "upstream_skipped"


class RunTransitionReason(StrEnum):
    """Why a run is in the state it is in."""

    CREATED = "created"
    STARTED = "started"
    ALL_TASKS_SUCCEEDED = "all_tasks_succeeded"
    TASKS_FAILED = "tasks_failed"
    PLAN_FAILED = "plan_failed"
    PLAN_TIMED_OUT = "plan_timed_out"
    USER_CANCELLED = "user_cancelled"
    SYSTEM_CANCELLED = "system_cancelled"
    TIMED_OUT = "timed_out"


class Resolution(StrEnum):
    """How an upstream ended, seen from one of its dependants."""

    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"
    CANCELLED = "CANCELLED"


class OutboxStatus(StrEnum):
    PENDING = "PENDING"
    CREATED = "CREATED"
    ACKED = "ACKED"
    FAILED = "FAILED"


class TimerState(StrEnum):
    SCHEDULED = "SCHEDULED"
    FIRED = "FIRED"
    CANCELLED = "CANCELLED"


class ChunkState(StrEnum):
    PENDING = "PENDING"
    PLANNED = "PLANNED"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class SensorStatus(StrEnum):
    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    ERROR = "ERROR"


class ScheduleStatus(StrEnum):
    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    REMOVED = "REMOVED"
