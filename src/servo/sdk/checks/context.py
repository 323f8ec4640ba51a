"""The context of a check."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from servo.sdk.assets.context import AssetExecutionContext
from servo.sdk.checks.definition import AssetCheckKey, AssetCheckSpec


class AssetCheckExecutionContext(AssetExecutionContext):
    """The context of a check function: pass it to the function as its parameter `context`."""

    check_specs: Sequence[AssetCheckSpec] = ()

    @classmethod
    def within(
        cls, context: AssetExecutionContext, specs: Sequence[AssetCheckSpec], op_config: Any
    ) -> Self:
        """The context of checks that run within the execution of an asset."""
        made = cls.__new__(cls)
        vars(made).update(vars(context))
        made.check_specs = tuple(specs)
        made.op_config = op_config
        return made

    @property
    def check_specs_by_asset_check_key(self) -> Mapping[AssetCheckKey, AssetCheckSpec]:
        """The checks to run, by key."""
        return {spec.key: spec for spec in self.check_specs}

    @property
    def selected_asset_check_keys(self) -> set[AssetCheckKey]:
        """The checks to run."""
        return {spec.key for spec in self.check_specs}
