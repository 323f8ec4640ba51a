"""Where the values of assets are: with their IO manager, or in the store by the commit protocol."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from servo.core.events.tasks import CommittedOutput
from servo.core.keys import AssetKey
from servo.execution.inputs.partitions import PartitionInputs
from servo.execution.outputs.store import OutputStore
from servo.execution.outputs.tables import as_asked
from servo.execution.returned import MadeAsset
from servo.leader.assignments import Assignment, PinnedInput
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
        return self._value(pinned, hint)

    def fetch(
        self, work: Assignment, upstream: AssetKey, stored: StoredValue, resources: Resources
    ) -> Any:
        """An asset as its IO manager has it."""
        manager = self.io_key(upstream)
        loader = check_io_manager(getattr(resources, manager), manager)
        making = self._making(work)
        return loader.load_input(self._input_context(upstream, stored, making, resources))

    def _value(self, pinned: PinnedInput, hint: Any) -> Any:
        return as_asked(self._outputs.load(pinned.uri) if pinned.uri else None, hint)

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
            return self._value(pins[found.keys[0]], hint) if pins else None
        values = {key: self._value(pinned, None) for key, pinned in pins.items()}
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
    ) -> tuple[CommittedOutput, ...]:
        """Store an output; its materialization has this id.

        One output for all partitions, or one for each partition if each has its own value.
        """
        metadata = {**context.metadata_of(made.key), **made.metadata}
        value, manager = made.value, self.io_key(made.key)
        if value is msgspec.UNSET or (value is None and not manager):
            outputs = (CommittedOutput(materialization_id=name),)
        elif manager:
            outputs = (self._hand_over(work, made, name, resources, metadata),)
        elif len(work.partitions) > 1:
            outputs = self._save_each(work, made, name)
        else:
            output = self._outputs.save(made.key.canonical(), work.exec_id, value)
            outputs = (msgspec.structs.replace(output, materialization_id=name),)
        version = made.version or context.version_of(made.key)
        if not metadata and version is None:
            return outputs
        told = encode_metadata(metadata)
        given = "" if version is None else version.value
        return tuple(
            msgspec.structs.replace(one, metadata=told, data_version=given) for one in outputs
        )

    def _save_each(
        self, work: Assignment, made: MadeAsset, name: str
    ) -> tuple[CommittedOutput, ...]:
        """Store the value of every partition of one execution."""
        keys = self._making(work).keys
        values = _values_of(made, keys)
        outputs: list[CommittedOutput] = []
        for part, (key, typed) in enumerate(zip(keys, work.partitions, strict=True)):
            output = self._outputs.save(made.key.canonical(), work.exec_id, values[key], part=part)
            named = f"{name}.{part}" if part else name
            outputs.append(
                msgspec.structs.replace(output, materialization_id=named, partition_key=typed)
            )
        return tuple(outputs)

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
