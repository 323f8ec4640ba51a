"""Assets together with the function that materializes or observes them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from importlib import import_module
from types import MappingProxyType
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from servo.core.keys import AssetKey, TaskOperation
from servo.errors import Invalid
from servo.sdk.assets.retries import RetryPolicy
from servo.sdk.assets.signature import Signature
from servo.sdk.assets.specs import AssetSpec
from servo.sdk.checks.definition import AssetCheckSpec
from servo.sdk.checks.gating import CheckPolicy
from servo.sdk.option_kinds import of_kind, several
from servo.sdk.partitions.mapping import BackfillPolicy

ONLY_OUTPUT = "result"
"""The name of the output of a function that defines one asset."""


class Behaviour(msgspec.Struct, frozen=True, kw_only=True):
    """How the function of assets is executed.

    `output_names` and `io_manager_keys` are in the order of the specs. If they are empty, the only
    output is called `result`, and `io_manager_key` applies to all assets.
    """

    retry_policy: RetryPolicy | None = None
    timeout: timedelta | None = None
    pool: str = ""
    priority: int = 0
    io_manager_key: str = ""
    required_resource_keys: frozenset[str] = frozenset()
    op_tags: Mapping[str, str] = {}
    hooks: tuple[Any, ...] = ()
    output_required: bool = True
    quarantine: bool = False
    operation: TaskOperation = TaskOperation.MATERIALIZE
    can_subset: bool = False
    returns_values: bool = True
    output_names: tuple[str, ...] = ()
    io_manager_keys: tuple[str, ...] = ()
    isolation: str = ""
    backfill_policy: BackfillPolicy | None = None
    resource_defs: Mapping[str, Any] = {}
    config_schema: Any = None
    check_specs: tuple[AssetCheckSpec, ...] = ()
    check_policy: CheckPolicy = CheckPolicy.AS_DECLARED

    def __post_init__(self) -> None:
        # Checked here, because a wrong type would otherwise only fail when a run is planned.
        for option, kind, example in (
            ("retry_policy", RetryPolicy, "RetryPolicy(max_retries=3)"),
            ("backfill_policy", BackfillPolicy, "BackfillPolicy.multi_run(10)"),
        ):
            given: object = getattr(self, option)
            if given is not None and not isinstance(given, kind):
                raise Invalid(f"{option} is {given!r}", remedy=f"use {example}, or leave it out")


def _check(behaviour: Behaviour, what: str) -> None:
    for name, kind, remedy in (
        ("retry_policy", RetryPolicy, "use RetryPolicy(max_retries=3)"),
        ("backfill_policy", BackfillPolicy, "use BackfillPolicy.single_run() or multi_run(…)"),
        ("pool", str, "use the name of a pool"),
        ("io_manager_key", str, "use the name of a resource"),
    ):
        of_kind(getattr(behaviour, name), kind, what=f"{what}: {name}", remedy=remedy)
    for spec in behaviour.check_specs:
        of_kind(spec, AssetCheckSpec, what=f"{what}: a check", remedy="use AssetCheckSpec(…)")


# Thousands of assets may use the defaults only: they share one object.
_USUAL = Behaviour()
_PLAIN = Signature()
_NO_INPUTS: Mapping[str, AssetKey] = MappingProxyType({})


class AssetsDefinition:
    """One function and the assets that it defines, in the order of definition.

    `@asset`, `@multi_asset` and `@observable_source_asset` return one. Call it like the function to
    test it without a workspace.
    """

    __slots__ = ("__weakref__", "behaviour", "fn", "input_keys", "signature", "specs")

    def __init__(
        self,
        fn: Callable[..., Any],
        specs: tuple[AssetSpec, ...],
        signature: Signature,
        *,
        input_keys: Mapping[str, AssetKey] | None = None,
        behaviour: Behaviour | None = None,
    ) -> None:
        self.fn = fn
        self.signature = _PLAIN if signature == _PLAIN else signature
        self.input_keys = input_keys or _NO_INPUTS
        self.behaviour = _USUAL if behaviour is None or behaviour == _USUAL else behaviour
        self.specs = specs
        if self.behaviour is not _USUAL:
            _check(self.behaviour, f"asset {self.name}")

    @property
    def key(self) -> AssetKey:
        """The key of the asset; `Invalid` if there are several."""
        if len(self.specs) != 1:
            raise Invalid(
                f"{self.name} defines {len(self.specs)} assets, not one", remedy="use `keys`"
            )
        return self.specs[0].key

    @property
    def keys(self) -> set[AssetKey]:
        """The keys of all assets."""
        return {spec.key for spec in self.specs}

    @property
    def specs_by_key(self) -> Mapping[AssetKey, AssetSpec]:
        """The spec of each asset."""
        return {spec.key: spec for spec in self.specs}

    def get_asset_spec(self, key: AssetKey | None = None) -> AssetSpec:
        """The spec of an asset; without a key, of the only one."""
        wanted = self.key if key is None else key
        if wanted not in self.keys:
            raise Invalid(
                f"{self.name} does not define {wanted}",
                remedy=f"use one of {', '.join(str(spec.key) for spec in self.specs)}",
            )
        return self.specs_by_key[wanted]

    @property
    def asset_deps(self) -> Mapping[AssetKey, set[AssetKey]]:
        """The upstream assets of each asset."""
        return {spec.key: {dep.asset_key for dep in spec.deps} for spec in self.specs}

    @property
    def dependency_keys(self) -> set[AssetKey]:
        """The upstream assets, without those that this function defines itself."""
        return {key for deps in self.asset_deps.values() for key in deps} - self.keys

    @property
    def keys_by_input_name(self) -> Mapping[str, AssetKey]:
        """The upstream assets by the parameters that load them."""
        return dict(self.input_keys)

    @property
    def group_names_by_key(self) -> Mapping[AssetKey, str]:
        """The groups of the assets that name one."""
        return {spec.key: spec.group_name for spec in self.specs if spec.group_name is not None}

    @property
    def descriptions_by_key(self) -> Mapping[AssetKey, str]:
        """The descriptions of the assets that have one."""
        return {spec.key: spec.description for spec in self.specs if spec.description is not None}

    @property
    def metadata_by_key(self) -> Mapping[AssetKey, Mapping[str, Any]]:
        """The metadata of each asset."""
        return {spec.key: spec.metadata for spec in self.specs}

    @property
    def tags_by_key(self) -> Mapping[AssetKey, Mapping[str, str]]:
        """The tags of each asset."""
        return {spec.key: spec.tags for spec in self.specs}

    @property
    def owners_by_key(self) -> Mapping[AssetKey, tuple[str, ...]]:
        """The owners of each asset."""
        return {spec.key: tuple(spec.owners) for spec in self.specs}

    @property
    def code_versions_by_key(self) -> Mapping[AssetKey, str | None]:
        """The code version of each asset, if it has one."""
        return {spec.key: spec.code_version for spec in self.specs}

    @property
    def check_specs(self) -> tuple[AssetCheckSpec, ...]:
        """The checks whose results the function itself reports."""
        return self.behaviour.check_specs

    @property
    def required_resource_keys(self) -> set[str]:
        """The resources that the function uses, by parameter or by name."""
        return {*self.signature.resources, *self.behaviour.required_resource_keys}

    @property
    def backfill_policy(self) -> BackfillPolicy | None:
        """How many partitions one run materializes, if it is set."""
        return self.behaviour.backfill_policy

    @property
    def is_executable(self) -> bool:
        """Whether the assets have code: always True."""
        return True

    @property
    def is_materializable(self) -> bool:
        """Whether the function materializes its assets rather than only observing them."""
        return not self.observes

    @property
    def keys_by_output_name(self) -> Mapping[str, AssetKey]:
        """The assets by the names of their outputs."""
        keys: list[AssetKey] = [spec.key for spec in self.specs]
        several = len(keys) > 1
        usual = [key.to_python_identifier() if several else ONLY_OUTPUT for key in keys]
        return dict(zip(self.behaviour.output_names or usual, keys, strict=True))

    @property
    def partitions_def(self) -> Any:
        """How the assets are partitioned, if they are."""
        return self.specs[0].partitions_def

    @property
    def observes(self) -> bool:
        """Whether the function observes an external asset."""
        return self.behaviour.operation is TaskOperation.OBSERVE

    @property
    def can_subset(self) -> bool:
        """Whether the function can materialize some of its assets without the others."""
        return self.behaviour.can_subset

    def io_manager_key(self, key: AssetKey) -> str:
        """The IO manager of an asset; empty if it names none."""
        each = self.behaviour.io_manager_keys
        own = next(
            (each[n] for n, spec in enumerate(self.specs[: len(each)]) if spec.key == key), ""
        )
        return own or self.behaviour.io_manager_key

    def with_specs(
        self, specs: tuple[AssetSpec, ...], *, input_keys: Mapping[str, AssetKey] | None = None
    ) -> "AssetsDefinition":
        """The same function with other specs, in the same order."""
        inputs = self.input_keys if input_keys is None else input_keys
        behaviour = self.behaviour
        if behaviour.check_specs:
            renamed = {old.key: new.key for old, new in zip(self.specs, specs, strict=True)}
            moved = [
                replace(one, asset=renamed.get(one.asset, one.asset))
                for one in behaviour.check_specs
            ]
            behaviour = replace(behaviour, check_specs=tuple(moved))
        return AssetsDefinition(
            self.fn, specs, self.signature, input_keys=inputs, behaviour=behaviour
        )

    def map_asset_specs(self, fn: Callable[[AssetSpec], AssetSpec]) -> "AssetsDefinition":
        """The same function with `fn` applied to each spec."""
        return self.with_specs(tuple(fn(spec) for spec in self.specs))

    @property
    def name(self) -> str:
        """The name of the function."""
        return getattr(self.fn, "__name__", "asset")

    @property
    def where(self) -> str:
        """The file and line of the function."""
        code = getattr(self.fn, "__code__", None)
        return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else "unknown"

    def __call__(self, *args: Any, **inputs: Any) -> Any:
        """Call the function directly, as a test does: see `servo.sdk.assets.invocation`."""
        # Imported late: it depends on contexts and resources, which depend on assets.
        return import_module("servo.sdk.assets.invocation").call_asset(self, args, inputs)

    def __repr__(self) -> str:
        return f"<assets {', '.join(str(spec.key) for spec in self.specs)}>"


def assets_in(assets: Iterable[Any]) -> Iterator[AssetsDefinition | AssetSpec]:
    """All assets of a nested list; `Invalid` for anything else."""
    one = isinstance(assets, AssetsDefinition | AssetSpec)
    for item in [assets] if one else several(assets, what="the list of assets"):
        if isinstance(item, AssetsDefinition | AssetSpec):
            yield item
        elif isinstance(item, Sequence) and not isinstance(item, str):
            yield from assets_in(cast("Sequence[Any]", item))
        else:
            raise Invalid(
                f"{item!r} is not an asset",
                remedy="decorate a function with @asset, or use AssetSpec",
            )
