"""The assignment that a leader sends to a worker, and the result that comes back.

The leader makes an `Assignment` when it grants an attempt. It passes unchanged to the pool, through
the pipe to a worker process and to the code that calls user code. A `TaskResult` comes back the
same way.
"""

import msgspec

from servo.core.events.assets import Severity
from servo.core.events.tasks import CommittedOutput, StoredLog, TaskCost, TaskError, TaskOutcome
from servo.core.keys import TaskOperation
from servo.core.lanes import OTHER_WEIGHT
from servo.core.tags import CONFIG_LABEL


class PinnedInput(msgspec.Struct, frozen=True, array_like=True):
    """An output that was the latest when the execution was granted.

    `content_hash` is that of its data, as the ledger has it; empty if it has none.
    """

    materialization_id: str
    uri: str
    content_hash: str = ""


class Assignment(msgspec.Struct, frozen=True, kw_only=True, tag="assignment"):
    """A granted attempt on its way to the worker that was named in the grant.

    `partitions` are those to materialize, as they are stored; `input_partitions` those to load of
    each asset, None where the worker is to find out. `inputs` are the latest outputs of what the
    asset depends on, as they were at the grant: by asset, or by `place_of` for partitions.
    `checks` are those to run, None for all. `run_tags` are the run's. `failures` are the
    attempts before this one that user code has ended. With `isolated` it runs in a separate
    process. Waiting executions share the workers by `lane`, and each lane has a `weight`.
    """

    worker_id: str = ""
    exec_id: str
    run_id: str
    task_key: str
    attempt: int
    attempt_id: str
    fencing_token: int
    failures: int = 0
    asset_key: str = ""
    also_makes: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    input_partitions: dict[str, tuple[str, ...] | None] = {}
    inputs: dict[str, PinnedInput] = {}
    run_tags: dict[str, str] = {}
    operation: TaskOperation = TaskOperation.MATERIALIZE
    checks: tuple[str, ...] | None = None
    isolated: bool = False
    lane: str = ""
    weight: int = OTHER_WEIGHT

    @property
    def run_config(self) -> str:
        """The configuration of the run, as JSON; empty if it has none."""
        return self.run_tags.get(CONFIG_LABEL, "")

    @property
    def only_partition(self) -> str | None:
        """The partition, if there is exactly one."""
        return self.partitions[0] if len(self.partitions) == 1 else None


class CheckOutcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a check."""

    name: str
    passed: bool
    blocking: bool = False
    severity: Severity = Severity.ERROR
    message: str = ""
    metadata: str = ""
    asset_key: str = ""
    materialization_id: str = ""


class ReportedAsset(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A report by user code on an asset it does not define: materialized, or only observed."""

    asset_key: str
    seen: bool = False
    partition: str | None = None
    data_version: str = ""
    metadata: str = ""


class TaskResult(msgspec.Struct, frozen=True, kw_only=True, tag="done", omit_defaults=True):
    """How an execution ended."""

    exec_id: str
    outcome: TaskOutcome
    output: CommittedOutput | None = None
    outputs: tuple[CommittedOutput, ...] = ()
    error: TaskError | None = None
    cost: TaskCost | None = None
    retry_after_ms: int | None = None
    code_version: str = ""
    log: StoredLog | None = None
    checks: tuple[CheckOutcome, ...] = ()
    reported: tuple[ReportedAsset, ...] = ()
