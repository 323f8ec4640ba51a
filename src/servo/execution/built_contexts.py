"""Contexts for tests: `build_asset_context` and similar functions.

They are the context of an asset's function, with values from the test in place of those of a run.
Resources are opened when the context is built and closed when it is left with `with`.
"""

import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from servo.core.keys import AssetKey
from servo.errors import Invalid
from servo.sdk.assets.assets_definition import AssetsDefinition
from servo.sdk.assets.context import AssetExecutionContext, Execution, Logger
from servo.sdk.assets.specs import to_key
from servo.sdk.partitions.context import Partitions
from servo.sdk.partitions.definition import PartitionKeyRange, PartitionsDefinition
from servo.sdk.resources.environment import environment, set_environment
from servo.sdk.resources.resources import HoldsResources, Resources, build_resources

RUN_ID = "EPHEMERAL"
_NOBODY = AssetKey("unbound")


class Unbound(Invalid, AttributeError):
    """The context does not belong to an asset yet."""


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """The values that a test gives for an execution."""

    partition_keys: tuple[str, ...] = ()
    partition_key_range: Any = None
    partition_time_window: Any = None
    instance: Any = None


class BuiltAssetContext(HoldsResources, AssetExecutionContext):
    """A context built for a test; calling an asset with it binds it to that asset."""

    def __init__(
        self,
        given: Given,
        log: Logger,
        *,
        execution: Execution,
        op_config: Any = None,
    ) -> None:
        super().__init__(
            _NOBODY, log, execution=execution, resources=Resources(), op_config=op_config
        )
        self._given = given

    @property
    def asset_key(self) -> AssetKey:
        """The asset that this context was built for, or that was called with it last."""
        return self._given_as("asset_key", None if self._asset_key is _NOBODY else self._asset_key)

    @asset_key.setter
    def asset_key(self, key: AssetKey) -> None:
        self._asset_key = key

    def __servo_bind__(self, key: AssetKey, definition: AssetsDefinition | None = None) -> None:
        """Bind this context to an asset."""
        self._asset_key = key
        self._assets_def = definition
        self.selected_asset_keys = {key} if definition is None else definition.keys

    def __getattr__(self, name: str) -> Any:
        # Also asked when a property raises `AttributeError`, which `hasattr` then understands.
        if name not in _NOT_GIVEN:
            raise AttributeError(f"a context has no attribute {name!r}")
        message, remedy = _NOT_GIVEN[name]
        raise Unbound(message, remedy=remedy)

    @property
    def instance(self) -> Any:
        """The instance that the test gave."""
        return self._given_as("instance", self._given.instance)

    def get_output_metadata(self, output_name: str = "result", **_: Any) -> Mapping[str, Any]:
        """The output metadata that was added through this context."""
        if len(self.selected_asset_keys) == 1:
            return dict(self.output_metadata)
        return dict(self.metadata_of(self.asset_key_for_output(output_name)))

    # --- partitions ---------------------------------------------------------------------------

    @property
    def has_partition_key(self) -> bool:
        """Whether one partition is materialized."""
        return len(self._given.partition_keys) == 1

    @property
    def has_partition_key_range(self) -> bool:
        """Whether a range of partitions is materialized."""
        return self._given.partition_key_range is not None

    @property
    def partition_keys(self) -> Sequence[str]:
        """The partitions to materialize."""
        keys = self._given.partition_keys
        between, definition = self._given.partition_key_range, self._definition()
        if not keys and between is not None and definition is not None:
            store = self._given.instance
            keys = definition.get_partition_keys_in_range(between, dynamic_partitions_store=store)
        return self._given_as("partition_keys", keys or None)

    @property
    def partition_key(self) -> str:
        """The partition to materialize."""
        one = self._given.partition_keys[0] if self.has_partition_key else None
        return self._given_as("partition_key", one)

    @property
    def partition_key_range(self) -> Any:
        """The range of partitions to materialize."""
        between, keys = self._given.partition_key_range, self._given.partition_keys
        one = PartitionKeyRange(keys[0], keys[-1]) if between is None and keys else between
        return self._given_as("partition_key_range", one)

    @property
    def partition_time_window(self) -> Any:
        """The time window of the partition."""
        given = self._given.partition_time_window
        if given is None and (self._given.partition_keys or self.has_partition_key_range):
            found = Partitions(definition=self._definition(), keys=tuple(self.partition_key_range))
            given = found.window("this context") if found.definition is not None else None
        return self._given_as("partition_time_window", given)

    def _definition(self) -> PartitionsDefinition | None:
        """The partitions_def of the asset."""
        return None if self._assets_def is None else self._assets_def.partitions_def

    def asset_partitions_def_for_output(self, output_name: str = "result") -> Any:
        """The partitions_def of the asset."""
        del output_name
        return self._given_as("partitions_def", self._definition())

    def _given_as(self, name: str, value: Any) -> Any:
        if value is None:
            raise AttributeError(name)
        return value


_NOT_GIVEN = {
    "asset_key": (
        "this context does not belong to an asset yet",
        "pass it to an asset, or build it with asset_key=...",
    ),
    "instance": (
        "this context was built without an instance",
        "use build_asset_context(instance=servo.ServoInstance.ephemeral())",
    ),
    "partition_keys": (
        "this context was built without partition_key",
        "build it with partition_key=...",
    ),
    "partitions_def": (
        "this context does not belong to a partitioned asset",
        "pass it to an asset that has a partitions_def",
    ),
    **{
        name: (f"this context was built without {name}", f"build it with {name}=...")
        for name in ("partition_key", "partition_key_range", "partition_time_window")
    },
}


def build_asset_context(  # noqa: PLR0913 - the options people know
    resources: Mapping[str, Any] | None = None,
    resources_config: Mapping[str, Any] | None = None,
    asset_config: Any = None,
    instance: Any = None,
    partition_key: str | None = None,
    *,
    partition_key_range: Any = None,
    partition_time_window: Any = None,
    run_tags: Mapping[str, str] | None = None,
    run_id: str = RUN_ID,
    retry_number: int = 0,
    asset_key: Any = None,
    log: Logger | None = None,
) -> BuiltAssetContext:
    """A context for calling an asset in a test; use `with` if it opens resources."""
    if not environment():
        set_environment(os.environ)
    given = Given(
        partition_keys=() if partition_key is None else (partition_key,),
        partition_key_range=partition_key_range,
        partition_time_window=partition_time_window,
        instance=instance,
    )
    execution = Execution(run_id=run_id, attempt=retry_number + 1, run_tags=dict(run_tags or {}))
    logger = log or logging.getLogger("servo.asset")
    context = BuiltAssetContext(given, logger, execution=execution, op_config=asset_config)
    if asset_key is not None:
        context.__servo_bind__(to_key(asset_key))
    if not resources:
        return context
    return context.holding(build_resources(resources, resource_config=resources_config, log=logger))


def build_op_context(
    resources: Mapping[str, Any] | None = None,
    op_config: Any = None,
    resources_config: Mapping[str, Any] | None = None,
    instance: Any = None,
    config: Any = None,
    **options: Any,
) -> BuiltAssetContext:
    """Like `build_asset_context`, for code that uses `op_config`."""
    if op_config is not None and config is not None:
        raise Invalid("both op_config and config were given", remedy="use one of the two")
    return build_asset_context(
        resources,
        resources_config,
        op_config if op_config is not None else config,
        instance,
        **options,
    )


def build_asset_check_context(
    resources: Mapping[str, Any] | None = None,
    resources_config: Mapping[str, Any] | None = None,
    asset_config: Any = None,
    instance: Any = None,
) -> BuiltAssetContext:
    """A context for calling a check in a test."""
    return build_asset_context(resources, resources_config, asset_config, instance)
