"""Everything that user code hands back, redacted on its way out of the process that ran it.

Every text that a person wrote or that an error said is redacted. What identifies something is kept:
ids and addresses that Servo made, and the names in the user's definitions, such as asset keys and
partition keys. A secret in a new name, or in a value that user code gets back, is refused before it
comes this far (see `servo.sdk.resources.redaction.refuse_secrets`). The data that an asset's
function returns is not looked at.
"""

from typing import Any, TypeVar

import msgspec

from servo.core.automation.trees import Tree
from servo.core.declared import AUTOMATION_LABEL, EVALUATED_LABEL, KIND_LABEL, LOCATION_LABEL
from servo.core.events.assets import (
    AssetDefinition,
    AssetObserved,
    AssetReported,
    AssetWiped,
    DynamicPartitionsChanged,
)
from servo.core.events.automation import AutomationEvaluated, AutomationTicked
from servo.core.events.runs import (
    AutomationSource,
    BackfillSource,
    ManualSource,
    PlanCreated,
    PlanSegment,
    RerunSource,
    RunRequested,
    ScheduleSource,
    SensorSource,
)
from servo.core.events.schedules import ScheduleUpserted
from servo.core.events.sensors import SensorMessageReceived, SensorUpserted
from servo.core.events.tasks import CommittedOutput, StoredLog, TaskError
from servo.core.lanes import LANE_TAG
from servo.core.plan import CHECKS_TAG, INPUT_PARTITIONS_TAG, INPUTS_TAG, TaskSpec
from servo.core.retry import RetryRules
from servo.core.tags import (
    BACKFILL_LABEL,
    CHOSEN_LABEL,
    CODE_LABEL,
    CONFIG_LABEL,
    ISOLATION,
    JOB_LABEL,
    PARTITION_LABEL,
    PRIORITIES,
    SCHEDULE_LABEL,
    SENSOR_LABEL,
)
from servo.leader.assignments import CheckOutcome, ReportedAsset, TaskResult
from servo.sdk.definitions.executors import ExecutorDefinition
from servo.sdk.resources.redaction import Redaction, hidden
from servo.sdk.resources.struct_redaction import (
    Rules,
    kept,
    redact,
    redact_metadata,
    redact_tags,
    redact_values,
)

T = TypeVar("T")

redact_tags_of_runs = redact_tags(
    {
        AUTOMATION_LABEL,
        BACKFILL_LABEL,
        CHECKS_TAG,
        CHOSEN_LABEL,
        CODE_LABEL,
        CONFIG_LABEL,
        EVALUATED_LABEL,
        INPUTS_TAG,
        INPUT_PARTITIONS_TAG,
        ISOLATION,
        JOB_LABEL,
        KIND_LABEL,
        LANE_TAG,
        LOCATION_LABEL,
        PARTITION_LABEL,
        SCHEDULE_LABEL,
        SENSOR_LABEL,
        *PRIORITIES,
    }
)


def _tree(stored: str, known: Redaction) -> str:
    """A stored tree, which stays a tree."""
    if not stored:
        return stored
    tree = msgspec.json.decode(stored, type=Tree)
    return msgspec.json.encode(redact(tree, known, RULES)).decode()


RULES: Rules = {
    # Runs and their plans. User code chooses run keys, which are refused if they hold a secret.
    RunRequested: kept(
        "run_id",
        "run_key",
        "request_fingerprint",
        "asset_selection",
        "partition_selection",
        "lane",
        "parent_run_id",
        "location",
    )
    | {"labels": redact_tags_of_runs},
    ManualSource: kept("user_id", "request_id"),
    ScheduleSource: kept("schedule_id", "tick_id"),
    SensorSource: kept("sensor_id", "eval_id"),
    BackfillSource: kept("backfill_id"),
    AutomationSource: kept("evaluation_id", "upstream_materialization_id", "sensor_id"),
    RerunSource: kept("run_id", "user_id"),
    PlanCreated: kept("run_id", "fingerprint"),
    PlanSegment: kept("digest"),
    TaskSpec: kept(
        "task_key",
        "asset_key",
        "also_makes",
        "partition",
        "also_partitions",
        "upstream",
        "pool",
        "queue",
        "code_version",
        "config_digest",
    )
    | {"tags": redact_tags_of_runs},
    RetryRules: kept("retry_on", "no_retry_on"),
    ExecutorDefinition: kept("name"),
    # Assets. New partition keys are refused if they hold a secret.
    AssetDefinition: kept(
        "asset_key",
        "group",
        "upstream",
        "code_version",
        "partitions",
        "freshness_policy",
        "partition_mappings",
    )
    | {"tags": redact_tags_of_runs, "check_conditions": redact_values},
    AssetReported: kept(
        "asset_key", "materialization_id", "partition_key", "code_version", "run_id", "task_key"
    )
    | {"metadata": redact_metadata},
    AssetObserved: kept("asset_key", "partition_key") | {"metadata": redact_metadata},
    AssetWiped: kept("asset_key", "partition_keys", "requested_by"),
    DynamicPartitionsChanged: kept("set_name", "added", "removed"),
    # Schedules, sensors and conditions.
    ScheduleUpserted: kept(
        "schedule_id", "cron_expressions", "timezone", "asset_selection", "partition_selection"
    )
    | {"labels": redact_tags_of_runs},
    SensorUpserted: kept("sensor_id", "asset_selection") | {"labels": redact_tags_of_runs},
    SensorMessageReceived: kept("sensor_id", "message_id", "payload", "payload_digest"),
    AutomationTicked: kept("sensor_id", "eval_id", "run_keys"),
    AutomationEvaluated: kept("sensor_id", "asset_key", "cursor", "requested") | {"tree": _tree},
    Tree: kept("kind", "asset", "check", "partitions", "keys"),
    # Executions.
    TaskResult: kept("exec_id", "code_version"),
    CommittedOutput: kept(
        "materialization_id",
        "asset_key",
        "partition_key",
        "uri",
        "format",
        "schema_hash",
        "content_hash",
    )
    | {"metadata": redact_metadata},
    StoredLog: kept("key", "sha256"),
    TaskError: kept("code", "types"),
    CheckOutcome: kept("name", "asset_key", "materialization_id") | {"metadata": redact_metadata},
    ReportedAsset: kept("asset_key") | {"metadata": redact_metadata},
}
"""The fields of events, plans and results that are not simply redacted."""


def without_secrets(value: T, known: Redaction | None = None) -> T:
    """A value that leaves this process, without the secrets that the process has read."""
    return redact(value, hidden() if known is None else known, RULES)


def tags_without_secrets(given: Any) -> dict[str, str]:
    """The tags of a request of user code, whatever their names."""
    return redact(dict(given), hidden(), {})
