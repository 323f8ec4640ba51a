"""Assets: what is defined, checked, judged, observed and removed."""

from datetime import datetime
from enum import StrEnum
from typing import ClassVar, Literal

import msgspec

from servo.core.canonical import intern_defaults
from servo.core.events.envelope import Event, EventKind
from servo.core.wire import Id, Int64, MaybeId


class Severity(StrEnum):
    INFO = "INFO"
    WARN = "WARN"
    ERROR = "ERROR"
    CRITICAL = "CRITICAL"


class AssetDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The definition of one asset in a deployment.

    Its data is kept if it is one of the last `retention_versions` of its partition or younger than
    `retention_age_ms`; all of it, if neither is set. `partition_mappings` say how its partitions
    belong to those of an asset it is made from, by its key, where that is not the usual way.
    `check_conditions` are the automation conditions of its checks, by their names.
    """

    asset_key: MaybeId
    group: str = ""
    upstream: tuple[str, ...] = ()
    code_version: str = ""
    partitions: str = ""
    description: str = ""
    tags: dict[str, str] = {}
    owners: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    freshness_policy: str = ""
    automation_condition: str = ""
    retention_versions: Int64 | None = None
    retention_age_ms: Int64 | None = None
    partition_mappings: dict[str, str] = {}
    check_conditions: dict[str, str] = {}


class DefinitionsDeployed(Event, frozen=True, kw_only=True, tag="DefinitionsDeployed"):
    """The code location `location` now defines exactly these assets.

    In large deployments, `definitions_digest` names a stored list, which replaces `assets`.
    """

    KIND: ClassVar[EventKind] = EventKind.COMMAND

    v: Literal[1] = 1
    deployment_id: Id
    location: str = "default"
    assets: tuple[AssetDefinition, ...] = ()
    definitions_digest: str = ""

    def __post_init__(self) -> None:
        intern_defaults(self)


class CheckEvaluated(Event, frozen=True, kw_only=True, tag="CheckEvaluated"):
    """A check ran on an output."""

    v: Literal[1] = 1
    run_id: Id
    task_key: Id
    attempt_id: Id
    exec_id: Id
    asset_key: MaybeId
    check_name: Id
    passed: bool
    partition_key: Id | None = None
    severity: Severity = Severity.ERROR
    blocking: bool = False
    message: str = ""
    metadata: str = ""
    materialization_id: MaybeId = ""


class QuarantineDecided(Event, frozen=True, kw_only=True, tag="QuarantineDecided"):
    """A person looked at a quarantined output and let it through, or did not."""

    KIND: ClassVar[EventKind] = EventKind.COMMAND

    v: Literal[1] = 1
    materialization_id: MaybeId
    approved: bool
    decided_by: str = ""
    reason: str = ""


class AssetObserved(Event, frozen=True, kw_only=True, tag="AssetObserved"):
    """The data version of an asset that Servo does not materialize was observed."""

    KIND: ClassVar[EventKind] = EventKind.COMMAND

    v: Literal[1] = 1
    asset_key: MaybeId
    partition_key: Id | None = None
    data_version: str = ""
    observed_at: datetime | None = None
    metadata: str = ""


class AssetReported(Event, frozen=True, kw_only=True, tag="AssetReported"):
    """An asset was materialized elsewhere: by another system, or by code of another task."""

    KIND: ClassVar[EventKind] = EventKind.COMMAND

    v: Literal[1] = 1
    asset_key: Id
    materialization_id: Id
    partition_key: Id | None = None
    data_version: str = ""
    code_version: str = ""
    metadata: str = ""
    run_id: MaybeId = ""
    task_key: MaybeId = ""


class OutputsExpired(Event, frozen=True, kw_only=True, tag="OutputsExpired"):
    """The data of these outputs is no longer kept. It is deleted once this is durable."""

    v: Literal[1] = 1
    materialization_ids: tuple[Id, ...]


class AssetWiped(Event, frozen=True, kw_only=True, tag="AssetWiped"):
    """The history of an asset, or of some partitions, no longer counts."""

    KIND: ClassVar[EventKind] = EventKind.COMMAND

    v: Literal[1] = 1
    asset_key: MaybeId
    partition_keys: tuple[Id, ...] = ()
    requested_by: str = ""


class DynamicPartitionsChanged(Event, frozen=True, kw_only=True, tag="DynamicPartitionsChanged"):
    """Keys were added to or removed from a dynamic set of partitions."""

    KIND: ClassVar[EventKind] = EventKind.COMMAND

    v: Literal[1] = 1
    set_name: str
    added: tuple[Id, ...] = ()
    removed: tuple[Id, ...] = ()
