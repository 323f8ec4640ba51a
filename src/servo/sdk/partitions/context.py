"""The part of a context that is about the partitions being materialized, stored or loaded."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from servo.errors import Invalid
from servo.sdk.assets.assets_definition import ONLY_OUTPUT
from servo.sdk.partitions.definition import (
    MultiPartitionsDefinition,
    PartitionKeyRange,
    PartitionsDefinition,
)
from servo.sdk.partitions.time_partitions import TimeWindow, TimeWindowPartitionsDefinition


class Partitions(msgspec.Struct, frozen=True, kw_only=True):
    """Partitions of one asset, by key and in order."""

    definition: PartitionsDefinition | None = None
    keys: tuple[str, ...] = ()

    def only(self, what: str) -> str:
        """The only partition; `Invalid` if there are several or none."""
        if len(self.keys) != 1:
            raise Invalid(f"{what} has {len(self.keys)} partitions", remedy="use partition_keys")
        return self.keys[0]

    def span(self, what: str) -> PartitionKeyRange:
        """The first and the last partition."""
        if not self.keys:
            raise Invalid(f"{what} has no partition", remedy="check has_partition_key first")
        return PartitionKeyRange(self.keys[0], self.keys[-1])

    def window(self, what: str) -> TimeWindow:
        """The time window that the partitions span."""
        _ = self.span(what)
        # With several dimensions, the order of keys is not the order in time.
        windows = [
            window
            for key in self._ends()
            if (window := window_of(self.definition, key)) is not None
        ]
        if not windows:
            raise Invalid(
                f"{what} has partitions that are not time windows: {self.definition}",
                remedy="use partition_key, or partition the asset by time",
            )
        return TimeWindow(min(one.start for one in windows), max(one.end for one in windows))

    def _ends(self) -> Sequence[str]:
        several = isinstance(self.definition, MultiPartitionsDefinition)
        return self.keys if several else (self.keys[0], self.keys[-1])


def window_of(definition: PartitionsDefinition | None, key: str) -> TimeWindow | None:
    """The time window of a key, or of the time-based dimension of a key."""
    if isinstance(definition, TimeWindowPartitionsDefinition):
        return definition.time_window_for_partition_key(key)
    if not isinstance(definition, MultiPartitionsDefinition):
        return None
    timed = [
        (name, one)
        for name, one in definition.partitions_defs.items()
        if isinstance(one, TimeWindowPartitionsDefinition)
    ]
    if len(timed) != 1:
        return None
    name, windows = timed[0]
    return windows.time_window_for_partition_key(definition.split(key).keys_by_dimension[name])


NONE = Partitions()


class OfPartitions:
    """The part of an execution's context that is about partitions."""

    _partitions: Partitions = NONE
    _input_partitions: Callable[[str], Partitions] | None = None

    def __servo_partitions__(
        self, own: Partitions, inputs: Callable[[str], Partitions] | None = None
    ) -> None:
        """Set the partitions; `inputs` returns those that a parameter is loaded from."""
        self._partitions = own
        self._input_partitions = inputs

    @property
    def has_partition_key(self) -> bool:
        """Whether exactly one partition is materialized."""
        return len(self._partitions.keys) == 1

    @property
    def has_partition_key_range(self) -> bool:
        """Whether several partitions are materialized at once."""
        return len(self._partitions.keys) > 1

    @property
    def partition_keys(self) -> Sequence[str]:
        """The partitions being materialized, in order."""
        _ = self._partitions.span(_WHAT)
        return list(self._partitions.keys)

    @property
    def partition_key(self) -> str:
        """The partition being materialized; `Invalid` if there are several or none."""
        _ = self._partitions.span(_WHAT)
        return self._partitions.only(_WHAT)

    @property
    def partition_key_range(self) -> Any:
        """The first and the last partition being materialized."""
        return self._partitions.span(_WHAT)

    @property
    def partition_time_window(self) -> Any:
        """The time window that the partitions being materialized span."""
        return self._partitions.window(_WHAT)

    # --- by output ------------------------------------------------------------------------------
    # All assets of one function have the same partitions.

    def asset_partition_key_for_output(self, output_name: str = ONLY_OUTPUT) -> str:
        """The partition being materialized; `Invalid` if there are several or none."""
        del output_name
        return self.partition_key

    def asset_partition_keys_for_output(self, output_name: str = ONLY_OUTPUT) -> Sequence[str]:
        """The partitions being materialized."""
        del output_name
        return self.partition_keys

    def asset_partition_key_range_for_output(self, output_name: str = ONLY_OUTPUT) -> Any:
        """The first and the last partition being materialized."""
        del output_name
        return self.partition_key_range

    def asset_partitions_time_window_for_output(self, output_name: str = ONLY_OUTPUT) -> Any:
        """The time window that the partitions being materialized span."""
        del output_name
        return self.partition_time_window

    def asset_partitions_def_for_output(self, output_name: str = ONLY_OUTPUT) -> Any:
        """The partitions definition of the asset."""
        del output_name
        return _definition(self._partitions, _WHAT)

    # --- by input -------------------------------------------------------------------------------

    def _of_input(self, name: str) -> Partitions:
        if self._input_partitions is None:
            raise Invalid(
                f"this context does not load the input {name!r}", remedy="materialize the asset"
            )
        return self._input_partitions(name)

    def asset_partition_key_for_input(self, input_name: str) -> str:
        """The only partition that a parameter is loaded from."""
        return self._of_input(input_name).only(input_name)

    def asset_partition_keys_for_input(self, input_name: str) -> Sequence[str]:
        """The partitions that a parameter is loaded from."""
        return list(self._of_input(input_name).keys)

    def asset_partition_key_range_for_input(self, input_name: str) -> Any:
        """The first and the last partition that a parameter is loaded from."""
        return self._of_input(input_name).span(input_name)

    def asset_partitions_time_window_for_input(self, input_name: str) -> Any:
        """The time window that the partitions of a parameter span."""
        return self._of_input(input_name).window(input_name)

    def asset_partitions_def_for_input(self, input_name: str) -> Any:
        """The partitions definition of the asset that a parameter is loaded from."""
        return _definition(self._of_input(input_name), input_name)


_WHAT = "this execution"


def _definition(partitions: Partitions, what: str) -> PartitionsDefinition:
    if partitions.definition is None:
        raise Invalid(f"{what} has no partitions", remedy="give the asset a partitions_def")
    return partitions.definition
