"""The context of an asset's function: facts about its execution, and how to report back."""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, Protocol, Self

import msgspec

from servo.core.keys import AssetKey
from servo.errors import Invalid
from servo.sdk.assets.assets_definition import ONLY_OUTPUT, AssetsDefinition
from servo.sdk.assets.results import AssetMaterialization, DataVersion
from servo.sdk.assets.specs import to_key
from servo.sdk.option_kinds import of_kind
from servo.sdk.partitions.context import OfPartitions


class Logger(Protocol):
    """The methods of `context.log`."""

    def debug(self, msg: object, *args: object) -> None:
        """Log at level DEBUG."""
        ...

    def info(self, msg: object, *args: object) -> None:
        """Log at level INFO."""
        ...

    def warning(self, msg: object, *args: object) -> None:
        """Log at level WARNING."""
        ...

    def error(self, msg: object, *args: object) -> None:
        """Log at level ERROR."""
        ...


class Execution(msgspec.Struct, frozen=True, kw_only=True):
    """Which execution this is."""

    run_id: str = ""
    task_key: str = ""
    attempt: int = 1
    exec_id: str = ""
    fencing_token: int = 0
    run_tags: Mapping[str, str] = {}
    run_config: str = ""
    instance: Any = None
    load: Callable[[AssetKey, Any, str | None], Any] | None = None


class ExecutedRun(msgspec.Struct, frozen=True, kw_only=True):
    """The run that an execution belongs to."""

    run_id: str
    tags: Mapping[str, str] = {}
    run_config: Mapping[str, Any] = {}


CURRENT: ContextVar["AssetExecutionContext | None"] = ContextVar("CURRENT", default=None)
"""The context of the current execution, if there is one."""


class AssetExecutionContext(OfPartitions):
    """The context of one execution: pass it to the function as its parameter `context`.

        @asset
        def orders(context: AssetExecutionContext):
            context.log.info(f"attempt {context.retry_number} of run {context.run_id}")
            context.add_output_metadata({"rows": 12})

    To call the function in a test, use `build_asset_context`.
    """

    __servo_context__ = True

    def __init__(
        self,
        asset_key: AssetKey,
        log: Logger,
        *,
        execution: Execution | None = None,
        resources: Any = None,
        op_config: Any = None,
        assets_def: AssetsDefinition | None = None,
    ) -> None:
        self._asset_key = asset_key
        self.log = log
        self.execution = execution or Execution()
        self.resources = resources
        self.op_config = op_config
        self.selected_asset_keys: set[AssetKey] = {asset_key}
        self.logged_events: list[AssetMaterialization] = []
        self._assets_def = assets_def
        self._metadata: dict[AssetKey, dict[str, Any]] = {}
        self._versions: dict[AssetKey, DataVersion] = {}

    @staticmethod
    def get() -> "AssetExecutionContext":
        """The context of the current execution, for code that does not get it as a parameter."""
        found = CURRENT.get()
        if found is None:
            raise Invalid(
                "no asset is being materialized on this thread",
                remedy="call AssetExecutionContext.get() from the function of an asset, on its "
                "own thread",
            )
        return found

    # --- which assets -------------------------------------------------------------------------

    @property
    def asset_key(self) -> AssetKey:
        """The asset being materialized; `Invalid` if the function defines several."""
        if self._assets_def is not None and len(self._assets_def.specs) > 1:
            raise Invalid(
                f"{self._assets_def.name} defines several assets",
                remedy="use context.selected_asset_keys or context.asset_key_for_output(name)",
            )
        return self._asset_key

    @property
    def has_assets_def(self) -> bool:
        """Whether `assets_def` is known."""
        return self._assets_def is not None

    @property
    def assets_def(self) -> AssetsDefinition:
        """The definition being executed."""
        if self._assets_def is None:
            raise Invalid(
                "this context has no asset",
                remedy="call the asset with the context, or materialize it",
            )
        return self._assets_def

    @property
    def is_subset(self) -> bool:
        """Whether only some of the function's assets are selected."""
        return len(self.selected_asset_keys) < len(self.assets_def.specs)

    @property
    def selected_output_names(self) -> set[str]:
        """The names of the selected outputs."""
        return {
            name
            for name, key in self.assets_def.keys_by_output_name.items()
            if key in self.selected_asset_keys
        }

    def asset_key_for_output(self, output_name: str = ONLY_OUTPUT) -> AssetKey:
        """The asset of an output."""
        names = self.assets_def.keys_by_output_name
        if output_name not in names:
            raise Invalid(
                f"there is no output {output_name!r}", remedy=f"available: {', '.join(names)}"
            )
        return names[output_name]

    def asset_key_for_input(self, input_name: str) -> AssetKey:
        """The asset that a parameter loads."""
        inputs = self.assets_def.input_keys
        if input_name not in inputs:
            known = ", ".join(inputs) or "none"
            raise Invalid(f"there is no input {input_name!r}", remedy=f"available: {known}")
        return inputs[input_name]

    def output_for_asset_key(self, asset_key: AssetKey) -> str:
        """The name of the output of an asset."""
        names = {key: name for name, key in self.assets_def.keys_by_output_name.items()}
        if asset_key not in names:
            made = ", ".join(str(key) for key in names)
            raise Invalid(
                f"{asset_key} is not materialized by this function", remedy=f"available: {made}"
            )
        return names[asset_key]

    # --- which execution ----------------------------------------------------------------------

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self.execution.run_id

    @property
    def retry_number(self) -> int:
        """The number of attempts before this one: 0 for the first."""
        return self.execution.attempt - 1

    @property
    def run(self) -> "ExecutedRun":
        """The run."""
        execution = self.execution
        return ExecutedRun(
            run_id=execution.run_id, tags=execution.run_tags, run_config=self.run_config
        )

    @property
    def run_config(self) -> Mapping[str, Any]:
        """The run config; empty if the run has none."""
        text = self.execution.run_config
        return msgspec.json.decode(text) if text else {}

    @property
    def job_name(self) -> str | None:
        """The job of the run, if it has one."""
        return self.execution.run_tags.get("servo/job")

    @property
    def op_execution_context(self) -> Self:
        """This context: assets in Servo are not built on ops."""
        return self

    @property
    def idempotency_key(self) -> str:
        """A string that is the same for every attempt at this task in this run."""
        return f"{self.execution.run_id}:{self.execution.task_key}"

    @property
    def fencing_token(self) -> int:
        """A number that is greater than that of every earlier execution of this task."""
        return self.execution.fencing_token

    @property
    def instance(self) -> Any:
        """The `ServoInstance`, to query materializations and runs."""
        held = self.execution.instance
        return held() if callable(held) else held

    @property
    def has_tag(self) -> Any:
        """Whether the run has this tag."""
        return self.execution.run_tags.__contains__

    def get_tag(self, key: str) -> str | None:
        """The value of a tag of the run."""
        return self.execution.run_tags.get(key)

    @property
    def run_tags(self) -> Mapping[str, str]:
        """The tags of the run."""
        return self.execution.run_tags

    # --- what it says -------------------------------------------------------------------------

    def add_output_metadata(
        self, metadata: Mapping[str, Any], output_name: str | None = None, **_: Any
    ) -> None:
        """Add metadata to the output, or to the output of this name."""
        key = self._asset_key if output_name is None else self.asset_key_for_output(output_name)
        self._metadata.setdefault(key, {}).update(metadata)

    def add_asset_metadata(self, metadata: Mapping[str, Any], asset_key: Any = None) -> None:
        """Add metadata to an asset that this execution materializes."""
        key = self.asset_key if asset_key is None else to_key(asset_key)
        if key not in self.selected_asset_keys:
            raise Invalid(
                f"{key} is not materialized by this execution",
                remedy="pass one of context.selected_asset_keys",
            )
        self._metadata.setdefault(key, {}).update(metadata)

    def set_data_version(self, asset_key: Any, data_version: DataVersion) -> None:
        """Set the data version of an asset that this execution materializes."""
        of_kind(data_version, DataVersion, what="a data version", remedy='use DataVersion("...")')
        key = to_key(asset_key)
        if key not in self.selected_asset_keys:
            raise Invalid(
                f"{key} is not materialized by this execution",
                remedy="pass one of context.selected_asset_keys",
            )
        self._versions[key] = data_version

    def version_of(self, key: AssetKey) -> DataVersion | None:
        """The data version set for an asset so far."""
        return self._versions.get(key)

    def load_asset_value(
        self, asset_key: Any, *, python_type: Any = None, partition_key: str | None = None
    ) -> Any:
        """Load the value of another asset: as a parameter would get it, or the latest.

        List the asset in `deps`, so that it is materialized first.
        """
        if self.execution.load is None:
            raise Invalid(
                "this context cannot load assets",
                remedy="use servo.materialize instead of calling the asset as a function",
            )
        return self.execution.load(to_key(asset_key), python_type, partition_key)

    def metadata_of(self, key: AssetKey) -> Mapping[str, Any]:
        """The metadata added to an asset so far."""
        return self._metadata.get(key, {})

    @property
    def output_metadata(self) -> Mapping[str, Any]:
        """The metadata added to the asset so far."""
        return self.metadata_of(self._asset_key)

    def log_event(self, event: Any) -> None:
        """Record a materialization or an observation of an external asset."""
        if not isinstance(event, AssetMaterialization):
            raise Invalid(
                f"log_event got a {type(event).__name__}",
                remedy="pass an AssetMaterialization or an AssetObservation",
            )
        self.logged_events.append(event)
