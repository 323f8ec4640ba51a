"""The contexts of IO managers: which value is stored or loaded."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from servo.core.keys import AssetKey
from servo.errors import Invalid
from servo.sdk.assets.context import Logger
from servo.sdk.assets.specs import to_key
from servo.sdk.partitions.context import Partitions
from servo.sdk.partitions.definition import PartitionKeyRange
from servo.sdk.partitions.time_partitions import TimeWindow
from servo.sdk.resources.resources import HoldsResources, Resources, Silence, build_resources


class TypeHint(msgspec.Struct, frozen=True):
    """The annotation of a parameter or a return value; `Any` if there is none."""

    typing_type: Any = Any

    @property
    def display_name(self) -> str:
        """The annotation as it is written."""
        return getattr(self.typing_type, "__name__", str(self.typing_type))


class StoredValue(msgspec.Struct, frozen=True, kw_only=True):
    """The value that is stored or loaded, and what is known about it."""

    name: str = "result"
    asset_key: AssetKey | None = None
    partition_keys: tuple[str, ...] | None = None
    partitions_def: Any = None
    made_keys: tuple[str, ...] = ()
    definition_metadata: Mapping[str, Any] = {}
    type_hint: Any = Any
    run_id: str = ""
    step_key: str = ""
    config: Any = None
    resource_config: Any = None


class _Context(HoldsResources):
    """What the two contexts have in common.

    A context built for a test is also a context manager that closes its resources.
    """

    def __init__(
        self, stored: StoredValue, *, resources: Resources | None = None, log: Logger | None = None
    ) -> None:
        self._stored = stored
        self.resources = resources or Resources()
        self.log: Logger = log or Silence()

    @property
    def name(self) -> str:
        """The name of the output, or of the parameter that is loaded."""
        return self._stored.name

    @property
    def run_id(self) -> str:
        """The run that stores the value."""
        return self._stored.run_id

    @property
    def step_key(self) -> str:
        """The task that stores the value."""
        return self._stored.step_key

    @property
    def definition_metadata(self) -> Mapping[str, Any]:
        """The metadata in the definition of the asset or the input."""
        return self._stored.definition_metadata

    metadata = definition_metadata

    @property
    def config(self) -> Any:
        """The configuration of this output or input in the run config."""
        return self._stored.config

    @property
    def resource_config(self) -> Any:
        """The config of the IO manager itself."""
        return self._stored.resource_config

    @property
    def type_hint(self) -> Any:
        """The annotation of the value in the code; `Any` if there is none."""
        return self._stored.type_hint

    @property
    def dagster_type(self) -> TypeHint:
        """An object that has the annotation as `typing_type`."""
        return TypeHint(self._stored.type_hint)

    @property
    def has_asset_key(self) -> bool:
        """Whether the value belongs to an asset."""
        return self._stored.asset_key is not None

    @property
    def asset_key(self) -> AssetKey:
        """The asset that the value belongs to."""
        if self._stored.asset_key is None:
            raise Invalid(
                f"{self.name} has no asset", remedy="pass asset_key=… when you build the context"
            )
        return self._stored.asset_key

    @property
    def has_asset_partitions(self) -> bool:
        """Whether the asset is partitioned."""
        return self._stored.partition_keys is not None

    @property
    def has_partition_key(self) -> bool:
        """Whether the asset is partitioned."""
        return self.has_asset_partitions

    @property
    def asset_partition_keys(self) -> Sequence[str]:
        """The partitions that are stored or loaded."""
        if self._stored.partition_keys is None:
            raise Invalid(
                f"{self._what()} has no partitions", remedy="check has_asset_partitions first"
            )
        return self._stored.partition_keys

    @property
    def asset_partition_key(self) -> str:
        """The partition that is stored or loaded; `Invalid` if there are several."""
        keys = self.asset_partition_keys
        if len(keys) != 1:
            raise Invalid(
                f"{self._what()} has {len(keys)} partitions here",
                remedy="use asset_partition_keys for all of them",
            )
        return keys[0]

    @property
    def partition_key(self) -> str:
        """The partition that is stored or loaded; `Invalid` if there are several."""
        return self.asset_partition_key

    @property
    def asset_partition_key_range(self) -> PartitionKeyRange:
        """The first and the last partition that are stored or loaded."""
        return self._partitions().span(self._what())

    @property
    def asset_partitions_time_window(self) -> TimeWindow:
        """The time window that the stored or loaded partitions span."""
        return self._partitions().window(self._what())

    @property
    def asset_partitions_def(self) -> Any:
        """The partitions definition of the asset."""
        _ = self.asset_partition_keys
        return self._stored.partitions_def

    def _partitions(self) -> Partitions:
        definition = self._stored.partitions_def
        return Partitions(definition=definition, keys=tuple(self.asset_partition_keys))

    def get_asset_identifier(self) -> Sequence[str]:
        """The parts of the asset key, and the partition if there is one."""
        partition = [self.asset_partition_key] if self.has_asset_partitions else []
        return [*self.asset_key.parts, *partition]

    def get_identifier(self) -> Sequence[str]:
        """The identifier of the stored value: the same when storing and when loading.

        For an asset it is the asset identifier, whatever run stored it; otherwise run, task and
        name.
        """
        return self.get_asset_identifier() if self.has_asset_key else self._run_scoped()

    def _run_scoped(self) -> list[str]:
        return [self.run_id, self.step_key, self.name]

    def _what(self) -> str:
        return f"asset {self.asset_key}" if self.has_asset_key else self.name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._what()}>"


class OutputContext(_Context):
    """The context of `IOManager.handle_output`: the value to store."""

    def __init__(
        self, stored: StoredValue, *, resources: Resources | None = None, log: Logger | None = None
    ) -> None:
        super().__init__(stored, resources=resources, log=log)
        self._added: dict[str, Any] = {}

    @property
    def output_metadata(self) -> Mapping[str, Any]:
        """The metadata added to the output so far."""
        return dict(self._added)

    def add_output_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Add metadata to the output; each key once."""
        twice = sorted(self._added.keys() & metadata.keys())
        if twice:
            raise Invalid(
                f"{self._what()}: the metadata {', '.join(twice)} was already added",
                remedy="add each key once for an output",
            )
        self._added.update(metadata)

    def get_logged_metadata(self) -> Mapping[str, Any]:
        """The same as `output_metadata`."""
        return self.output_metadata

    def get_run_scoped_output_identifier(self) -> Sequence[str]:
        """The identifier of this output of this run: run, task and name."""
        return self._run_scoped()


class InputContext(_Context):
    """The context of `IOManager.load_input`: the value to load."""

    def __init__(
        self,
        stored: StoredValue,
        *,
        upstream_output: OutputContext | None = None,
        resources: Resources | None = None,
        log: Logger | None = None,
    ) -> None:
        super().__init__(stored, resources=resources, log=log)
        self.upstream_output = upstream_output

    @property
    def has_input_name(self) -> bool:
        """Whether the value fills a parameter with a name."""
        return bool(self._stored.name)

    def add_input_metadata(
        self, metadata: Mapping[str, Any], description: str | None = None
    ) -> None:
        """Add metadata about the loaded value: it is written to the log."""
        told = ", ".join(f"{name}: {value}" for name, value in metadata.items())
        self.log.info("%s %s: %s", description or "loaded", self.name, told)

    @property
    def has_partition_key(self) -> bool:
        """Whether the loading asset materializes a partition."""
        return bool(self._stored.made_keys) or self.has_asset_partitions

    @property
    def partition_key(self) -> str:
        """The partition that the loading asset materializes."""
        made = self._stored.made_keys
        return made[0] if len(made) == 1 else self.asset_partition_key

    def get_identifier(self) -> Sequence[str]:
        """The identifier of the stored value: the same as when it was stored."""
        if self.has_asset_key or self.upstream_output is None:
            return super().get_identifier()
        return self.upstream_output.get_identifier()


def build_output_context(  # noqa: PLR0913 - the options people know
    step_key: str = "",
    name: str = "result",
    definition_metadata: Mapping[str, Any] | None = None,
    run_id: str = "",
    *,
    config: Any = None,
    dagster_type: Any = Any,
    resource_config: Any = None,
    resources: Mapping[str, Any] | None = None,
    asset_key: Any = None,
    partition_key: str | None = None,
    partition_keys: Sequence[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    output_metadata: Mapping[str, Any] | None = None,
    log: Logger | None = None,
) -> OutputContext:
    """Build a context to call `handle_output` in a test; use `with` to close its resources.

    `metadata` is the older name of `definition_metadata`.
    """
    if metadata is not None and definition_metadata is not None:
        raise Invalid(
            "both metadata and definition_metadata were given", remedy="pass only one of them"
        )
    stored = StoredValue(
        name=name,
        asset_key=None if asset_key is None else to_key(asset_key),
        partition_keys=_keys(partition_key, partition_keys),
        definition_metadata=definition_metadata or metadata or {},
        type_hint=dagster_type,
        run_id=run_id,
        step_key=step_key,
        config=config,
        resource_config=resource_config,
    )
    context = OutputContext(stored, log=log)
    context.add_output_metadata(output_metadata or {})
    return context.holding(build_resources(resources, log=log)) if resources else context


def build_input_context(  # noqa: PLR0913 - the options people know
    name: str = "input",
    config: Any = None,
    definition_metadata: Mapping[str, Any] | None = None,
    upstream_output: OutputContext | None = None,
    *,
    dagster_type: Any = Any,
    resource_config: Any = None,
    resources: Mapping[str, Any] | None = None,
    asset_key: Any = None,
    partition_key: str | None = None,
    partition_keys: Sequence[str] | None = None,
    asset_partition_key_range: PartitionKeyRange | None = None,
    asset_partitions_def: Any = None,
    log: Logger | None = None,
) -> InputContext:
    """Build a context to call `load_input` in a test; use `with` to close its resources."""
    if asset_key is None and upstream_output is not None and upstream_output.has_asset_key:
        asset_key = upstream_output.asset_key
    if asset_partition_key_range is not None:
        if asset_partitions_def is None:
            raise Invalid(
                "build_input_context got asset_partition_key_range without asset_partitions_def",
                remedy="pass asset_partitions_def too, or partition_keys=[...] instead",
            )
        partition_keys = asset_partitions_def.get_partition_keys_in_range(asset_partition_key_range)
    stored = StoredValue(
        name=name,
        asset_key=None if asset_key is None else to_key(asset_key),
        partition_keys=_keys(partition_key, partition_keys),
        partitions_def=asset_partitions_def,
        definition_metadata=definition_metadata or {},
        type_hint=dagster_type,
        config=config,
        resource_config=resource_config,
    )
    context = InputContext(stored, upstream_output=upstream_output, log=log)
    return context.holding(build_resources(resources, log=log)) if resources else context


def _keys(one: str | None, several: Sequence[str] | None) -> tuple[str, ...] | None:
    if several is not None:
        return tuple(several)
    return None if one is None else (one,)
