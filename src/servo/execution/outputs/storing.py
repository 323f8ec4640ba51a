"""Where the values of assets are: with their IO manager, or in the store by the commit protocol."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from servo.core.events.tasks import CommittedOutput
from servo.core.keys import AssetKey
from servo.execution.inputs.partitions import PartitionInputs
from servo.execution.outputs.store import OutputStore, StagedOutput
from servo.execution.outputs.tables import as_asked
from servo.execution.returned import MadeAsset
from servo.leader.assignments import Assignment, PinnedInput, TaskResult
from servo.sdk.assets.context import AssetExecutionContext, Logger
from servo.sdk.assets.results import Failure
from servo.sdk.definitions.project import Project
from servo.sdk.metadata.entries import encode_metadata
from servo.sdk.partitions.context import Partitions
from servo.sdk.resources.io_context import InputContext, OutputContext, StoredValue
from servo.sdk.resources.io_manager import check_io_manager
from servo.sdk.resources.resources import Resources

ALLOW_MISSING = "allow_missing_partitions"
"""Metadata of an asset: loading it leaves out partitions that were never materialized."""


class StoredAsset(msgspec.Struct, frozen=True, kw_only=True):
    """The outputs of one asset, and those of them that count once they are committed."""

    outputs: tuple[CommittedOutput, ...]
    staged: tuple[StagedOutput, ...] = ()


class Storing:
    """Stores and loads the values of one project."""

    def __init__(
        self, project: Project, outputs: OutputStore, log: Logger, partitions: PartitionInputs
    ) -> None:
        self._project = project
        self._partitions = partitions
        self._outputs = outputs
        self._log = log
        self.io_key = project.io_manager_of

    # --- loading ------------------------------------------------------------------------------

    def load(
        self, work: Assignment, upstream: AssetKey, name: str, resources: Resources, hint: Any
    ) -> Any:
        """An asset as it was at the grant, or as its IO manager has it."""
        manager = self.io_key(upstream)
        own = AssetKey.parse(work.asset_key)
        found = self._partitions.of_input(work, own, upstream)
        if manager:
            return self.fetch(work, upstream, _to_load(name, hint, found), resources)
        if found is not None:
            return self._partitions_of(work, upstream, found, hint)
        pinned = work.inputs.get(upstream.canonical())
        if pinned is None:
            raise Failure(
                f"{upstream} was never materialized, and {work.asset_key} needs it; "
                f"materialize {upstream} first, or select +{work.asset_key}",
                allow_retries=False,
            )
        return self.value(pinned, hint)

    def fetch(
        self, work: Assignment, upstream: AssetKey, stored: StoredValue, resources: Resources
    ) -> Any:
        """An asset as its IO manager has it."""
        manager = self.io_key(upstream)
        loader = check_io_manager(getattr(resources, manager), manager)
        making = self._making(work)
        return loader.load_input(self._input_context(upstream, stored, making, resources))

    def value(self, stored: PinnedInput, hint: Any) -> Any:
        """A value that Servo has stored itself; None if it stored none."""
        found = self._outputs.load(stored.uri, stored.content_hash) if stored.uri else None
        return as_asked(found, hint)

    def _partitions_of(
        self, work: Assignment, upstream: AssetKey, found: Partitions, hint: Any
    ) -> Any:
        """The value of one partition, or those of several by their keys; None if there are none."""
        pins = self._partitions.pins(work, upstream, found)
        missing = [key for key in found.keys if key not in pins]
        if missing and not self._project.specs[upstream].metadata.get(ALLOW_MISSING):
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise Failure(
                f"the partition {missing[0]!r}{more} of {upstream} was never materialized, and "
                f"{work.asset_key} needs it",
                allow_retries=False,
            )
        if len(found.keys) == 1:
            return self.value(pins[found.keys[0]], hint) if pins else None
        values = {key: self.value(pinned, None) for key, pinned in pins.items()}
        return values or None

    def _making(self, work: Assignment) -> Partitions:
        """The partitions that an execution materializes."""
        return self._partitions.own(work, AssetKey.parse(work.asset_key))

    def _input_context(
        self, upstream: AssetKey, stored: StoredValue, making: Partitions, resources: Resources
    ) -> InputContext:
        above = OutputContext(
            StoredValue(
                asset_key=upstream, definition_metadata=self._project.specs[upstream].metadata
            )
        )
        stored = msgspec.structs.replace(stored, asset_key=upstream, made_keys=making.keys)
        return InputContext(stored, upstream_output=above, resources=resources, log=self._log)

    # --- storing ------------------------------------------------------------------------------

    def store(
        self,
        work: Assignment,
        name: str,
        made: MadeAsset,
        context: AssetExecutionContext,
        resources: Resources,
    ) -> StoredAsset:
        """Store an output; its materialization has this id.

        One output for all partitions, or one for each partition if each has its own value.
        """
        metadata = {**context.metadata_of(made.key), **made.metadata}
        value, manager = made.value, self.io_key(made.key)
        if value is msgspec.UNSET or (value is None and not manager):
            stored = StoredAsset(outputs=(CommittedOutput(materialization_id=name),))
        elif manager:
            stored = StoredAsset(outputs=(self._hand_over(work, made, name, resources, metadata),))
        elif len(work.partitions) > 1:
            stored = self._stage_each(work, made, name)
        else:
            staged = self._outputs.stage(made.key.canonical(), work.exec_id, value)
            output = msgspec.structs.replace(staged.output, materialization_id=name)
            stored = StoredAsset(outputs=(output,), staged=(staged,))
        version = made.version or context.version_of(made.key)
        if not metadata and version is None:
            return stored
        told = encode_metadata(metadata)
        given = "" if version is None else version.value
        described = (
            msgspec.structs.replace(one, metadata=told, data_version=given)
            for one in stored.outputs
        )
        return msgspec.structs.replace(stored, outputs=tuple(described))

    def commit(self, staged: Sequence[StagedOutput], result: TaskResult) -> None:
        """Make everything that an execution stored count, with its result."""
        self._outputs.commit(staged, result)

    def _stage_each(self, work: Assignment, made: MadeAsset, name: str) -> StoredAsset:
        """Store the value of every partition of one execution."""
        keys = self._making(work).keys
        values = _values_of(made, keys)
        asset = made.key.canonical()
        staged: list[StagedOutput] = []
        outputs: list[CommittedOutput] = []
        for part, (key, typed) in enumerate(zip(keys, work.partitions, strict=True)):
            one = self._outputs.stage(asset, work.exec_id, values[key], part=part)
            named = f"{name}.{part}" if part else name
            staged.append(one)
            outputs.append(
                msgspec.structs.replace(one.output, materialization_id=named, partition_key=typed)
            )
        return StoredAsset(outputs=tuple(outputs), staged=tuple(staged))

    def _hand_over(
        self,
        work: Assignment,
        made: MadeAsset,
        materialization: str,
        resources: Resources,
        metadata: dict[str, Any],
    ) -> CommittedOutput:
        """Let the asset's IO manager store a value."""
        key = made.key
        name = self.io_key(key)
        maker = self._project.makers[key]
        returns = maker.signature.returns if len(maker.specs) == 1 else None
        names = {found: output for output, found in maker.keys_by_output_name.items()}
        making = self._making(work)
        stored = StoredValue(
            name=names[key],
            asset_key=key,
            partition_keys=making.keys or None,
            partitions_def=making.definition,
            run_id=work.run_id,
            step_key=work.task_key,
            definition_metadata=self._project.specs[key].metadata,
            type_hint=Any if returns is None else returns,
        )
        out = OutputContext(stored, resources=resources, log=self._log)
        check_io_manager(getattr(resources, name), name).handle_output(out, made.value)
        metadata.update(out.output_metadata)
        return CommittedOutput(materialization_id=materialization, format=name)


def _to_load(name: str, hint: Any, found: Partitions | None) -> StoredValue:
    return StoredValue(
        name=name,
        partition_keys=None if found is None else found.keys,
        partitions_def=None if found is None else found.definition,
        type_hint=Any if hint is None else hint,
    )


MOST_VALUES = 500
"""The most outputs that one report can hold."""


def _values_of(made: MadeAsset, keys: Sequence[str]) -> Mapping[str, Any]:
    """The value of each partition, by its key."""
    if len(keys) > MOST_VALUES:
        raise Failure(
            f"{made.key} has values for {len(keys)} partitions; at most {MOST_VALUES} can be "
            f"stored together: use BackfillPolicy.multi_run({MOST_VALUES}), or an IO manager",
            allow_retries=False,
        )
    value: Any = made.value
    kind = type(value).__name__
    if isinstance(value, Mapping):
        values = cast("Mapping[str, Any]", value)
        if set(values) == set(keys):
            return values
        kind = f"{kind} of {', '.join(map(repr, list(values)[:3]))}"
    raise Failure(
        f"{made.key} returned a {kind} for {len(keys)} partitions ({keys[0]!r} to {keys[-1]!r}): "
        "return a dict with one value for each partition key, return nothing, "
        "or use an IO manager",
        allow_retries=False,
    )
