"""Asset specs: the key, dependencies and attributes of an asset."""

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

import msgspec

from servo.core.keys import AssetKey
from servo.errors import Invalid
from servo.sdk.assets.freshness import checked_policy
from servo.sdk.assets.retention import check_retention
from servo.sdk.automation.condition import AutomationCondition
from servo.sdk.option_kinds import of_kind, several
from servo.sdk.partitions.definition import PartitionsDefinition
from servo.sdk.partitions.mapping import checked_mapping

IO_MANAGER_KEY = "dagster/io_manager_key"
"""The metadata key that names the IO manager of an external asset."""


def to_key(value: Any, *, what: str = "asset key") -> AssetKey:
    """The asset key for a string, a list of parts, or an object that has a key."""
    if isinstance(value, AssetKey):
        return value
    if isinstance(value, str):
        return AssetKey.parse(value)
    if isinstance(value, Sequence):
        return AssetKey([str(part) for part in cast("Sequence[object]", value)])
    found = getattr(value, "key", None)
    if isinstance(found, AssetKey):
        return found
    raise Invalid(
        f"{what}: {value!r} does not name an asset",
        remedy='use an asset, AssetKey(["schema", "table"]), or a string like "schema/table"',
    )


class AssetDep(msgspec.Struct, frozen=True):
    """An upstream asset that is not loaded, with an optional `partition_mapping`.

    @asset(deps=[AssetDep("events", partition_mapping=LastPartitionMapping())])
    def report(): ...
    """

    asset: Any
    partition_mapping: Any = None

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "asset", to_key(self.asset, what="AssetDep"))
        _ = checked_mapping(self.partition_mapping, what=f"AssetDep {self.asset}")

    @property
    def asset_key(self) -> AssetKey:
        """The key of the upstream asset."""
        return self.asset


def to_deps(values: Iterable[Any] | None, *, what: str) -> tuple[AssetDep, ...]:
    """The dependencies, without duplicates."""
    given = several(values, what=f"{what}: deps")
    deps = [v if isinstance(v, AssetDep) else AssetDep(v) for v in given]
    return tuple({dep.asset_key: dep for dep in deps}.values())


_NOTHING: Mapping[str, Any] = MappingProxyType({})


class AssetSpec(msgspec.Struct, frozen=True, dict=True):
    """The key, dependencies and attributes of an asset, without the function that materializes it.

        AssetSpec("orders", deps=["raw_orders"], group_name="sales", owners=["team:sales"])

    In `Definitions(assets=[...])` it is an external asset; in `@multi_asset(specs=[...])`, an asset
    that the function materializes. With `skippable=True` the function may leave it out.
    """

    key: Any
    deps: Any = ()
    description: str | None = None
    metadata: Mapping[str, Any] = {}
    skippable: bool = False
    group_name: str | None = None
    code_version: str | None = None
    freshness_policy: Any = None
    automation_condition: Any = None
    owners: Sequence[str] = ()
    tags: Mapping[str, str] = {}
    kinds: Iterable[str] = ()
    partitions_def: Any = None
    retention: Any = None

    def __post_init__(self) -> None:
        set_field = msgspec.structs.force_setattr
        key = to_key(self.key, what="AssetSpec")
        set_field(self, "key", key)
        set_field(self, "deps", to_deps(self.deps, what=f"AssetSpec {key}"))
        set_field(self, "kinds", tuple(sorted(several(self.kinds, what=f"asset {key}: kinds"))))
        set_field(self, "owners", _checked_owners(self.owners, what=f"asset {key}"))
        of_kind(self.metadata, Mapping, what=f"asset {key}: metadata", remedy='use {"name": value}')
        tags = check_tags(self.tags, what=f"asset {key}") if self.tags else _NOTHING
        set_field(self, "tags", tags)
        set_field(self, "metadata", dict(self.metadata) if self.metadata else _NOTHING)
        set_field(self, "retention", check_retention(self.retention, what=f"asset {key}"))
        _check_values(self)

    def replace_attributes(self, **changes: Any) -> "AssetSpec":
        """A copy of the spec with other values for these attributes."""
        return msgspec.structs.replace(self, **changes)

    def with_io_manager_key(self, io_manager_key: str) -> "AssetSpec":
        """A copy of the spec whose value is loaded by this IO manager."""
        metadata = {**self.metadata, IO_MANAGER_KEY: io_manager_key}
        return msgspec.structs.replace(self, metadata=metadata)

    def merge_attributes(
        self,
        *,
        deps: Iterable[Any] = (),
        metadata: Mapping[str, Any] | None = None,
        owners: Sequence[str] = (),
        tags: Mapping[str, str] | None = None,
        kinds: Iterable[str] = (),
    ) -> "AssetSpec":
        """A copy of the spec with these dependencies, metadata, owners, tags and kinds added."""
        return msgspec.structs.replace(
            self,
            deps=[*self.deps, *deps],
            metadata={**self.metadata, **(metadata or {})},
            owners=[*self.owners, *owners],
            tags={**self.tags, **(tags or {})},
            kinds={*self.kinds, *kinds},
        )


def checked_condition(condition: Any, *, what: str) -> AutomationCondition | None:
    """Check that a value is an automation condition or None."""
    if hasattr(condition, "to_automation_condition"):  # an AutoMaterializePolicy
        condition = condition.to_automation_condition()
    if condition is not None and not isinstance(condition, AutomationCondition):
        raise Invalid(
            f"{what}: automation_condition is {condition!r}",
            remedy="use an AutomationCondition, such as AutomationCondition.eager()",
        )
    return condition


_OWNER = re.compile(r"team:\S(.*\S)?|[^\s@]+@[^\s@]+")


def _checked_owners(owners: Iterable[str], *, what: str) -> tuple[str, ...]:
    """The owners of an asset: people by e-mail address, teams as `team:name`."""
    given = several(owners, what=f"{what}: owners")
    for owner in cast("tuple[object, ...]", given):
        if not isinstance(owner, str) or not _OWNER.fullmatch(owner):
            raise Invalid(
                f"{what}: invalid owner {owner!r}",
                remedy='use "team:name" for a team, or the e-mail address of a person',
            )
    return given


def _check_values(spec: AssetSpec) -> None:
    what = f"asset {spec.key}"
    for name in ("description", "group_name", "code_version"):
        of_kind(getattr(spec, name), str, what=f"{what}: {name}", remedy="use a string")
    if spec.partitions_def is not None and not isinstance(
        spec.partitions_def, PartitionsDefinition
    ):
        raise Invalid(
            f"{what}: partitions_def is {spec.partitions_def!r}",
            remedy="use a definition such as DailyPartitionsDefinition(start_date=…)",
        )
    condition = checked_condition(spec.automation_condition, what=what)
    msgspec.structs.force_setattr(spec, "automation_condition", condition)
    _ = checked_policy(spec.freshness_policy, what=what)


class AssetIn(msgspec.Struct, frozen=True):
    """How a parameter of an asset's function is loaded.

        @asset(ins={"raw": AssetIn(key=["shop", "raw_orders"])})
        def orders(raw): ...

    `key` or `key_prefix` names the upstream asset if it is not called like the parameter.
    `partition_mapping` selects its partitions, and `input_manager_key` another IO manager to load
    it with.
    """

    key: Any = None
    metadata: Mapping[str, Any] = {}
    key_prefix: Any = None
    input_manager_key: str | None = None
    partition_mapping: Any = None
    dagster_type: Any = None

    def __post_init__(self) -> None:
        _ = checked_mapping(self.partition_mapping, what="AssetIn")

    def key_for(self, name: str) -> AssetKey:
        """The asset that the parameter `name` loads."""
        if self.key is not None:
            return to_key(self.key, what=f"AssetIn of {name}")
        return AssetKey([*prefix_parts(self.key_prefix), name])


def prefix_parts(prefix: Any) -> tuple[str, ...]:
    """The parts of a key prefix given as a string or a list."""
    if prefix is None:
        return ()
    if isinstance(prefix, str):
        return tuple(prefix.split("/"))
    of_kind(prefix, Iterable, what="a key_prefix", remedy='use a string, or ["raw", "shop"]')
    return tuple(prefix)


def check_tags(tags: Mapping[Any, Any] | Iterable[Any], *, what: str) -> dict[str, str]:
    """Check that tags are strings; a list of tags becomes keys with empty values."""
    of_kind(tags, Iterable, what=f"{what}: tags", remedy='use {"name": "value"}')
    pairs = (
        cast("Mapping[Any, Any]", tags) if isinstance(tags, Mapping) else dict.fromkeys(tags, "")
    )
    given = dict(pairs)
    for name, value in given.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise Invalid(
                f"{what}: the tag {name!r} is {value!r}",
                remedy="use strings for the keys and values of tags",
            )
    return given
