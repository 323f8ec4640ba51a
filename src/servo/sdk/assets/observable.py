"""External assets: described by a spec, and observed if there is code for it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, overload

from servo.core.keys import TaskOperation
from servo.errors import Invalid
from servo.sdk.assets.asset import docstring, duration, own_key
from servo.sdk.assets.assets_definition import AssetsDefinition, Behaviour
from servo.sdk.assets.retries import RetryPolicy
from servo.sdk.assets.signature import read_signature
from servo.sdk.assets.specs import IO_MANAGER_KEY, AssetSpec, prefix_parts, to_key
from servo.sdk.option_kinds import several

_Fn = Callable[..., Any]


@overload
def observable_source_asset(fn: _Fn, /) -> AssetsDefinition: ...
@overload
def observable_source_asset(**options: Any) -> Callable[[_Fn], AssetsDefinition]: ...


def observable_source_asset(fn: _Fn | None = None, /, **options: Any) -> Any:
    """Define an external asset by the function that observes it.

        @observable_source_asset
        def feed():
            return DataVersion(hash_of_the_file())

    The function returns a `DataVersion`, or an `ObserveResult` with metadata. A new data version
    makes downstream assets stale. It takes no upstream assets; its options are those of `@asset`
    that apply to observations.
    """
    if fn is not None:
        return _define(fn)

    def define(function: _Fn) -> AssetsDefinition:
        return _define(function, **options)

    return define


def _define(  # noqa: PLR0913 - the options people know
    fn: _Fn,
    *,
    key: Any = None,
    name: str | None = None,
    key_prefix: Any = None,
    description: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    group_name: str | None = None,
    tags: Mapping[str, str] | None = None,
    owners: Sequence[str] | None = None,
    partitions_def: Any = None,
    automation_condition: Any = None,
    freshness_policy: Any = None,
    required_resource_keys: Iterable[str] | None = None,
    resource_defs: Mapping[str, Any] | None = None,
    config_schema: Any = None,
    io_manager_key: str | None = None,
    retry_policy: RetryPolicy | None = None,
    timeout: timedelta | float | None = None,
    pool: str | None = None,
    op_tags: Mapping[str, str] | None = None,
    **rest: Any,
) -> AssetsDefinition:
    unknown = sorted(set(rest) - {"auto_observe_interval_minutes"})
    if unknown:
        raise Invalid(
            f"observable_source_asset {fn.__name__}: there is no option {', '.join(unknown)}",
            remedy="see `help(servo.observable_source_asset)`",
        )
    signature = read_signature(fn)
    if signature.inputs:
        raise Invalid(
            f"observable_source_asset {fn.__name__} has the parameters "
            f"{', '.join(signature.inputs)}",
            remedy="use only context, config and resource parameters: an observation loads "
            "no assets",
        )
    spec = AssetSpec(
        key=own_key(fn, name=name, key=key, key_prefix=key_prefix),
        description=description or docstring(fn),
        metadata=metadata or {},
        group_name=group_name,
        tags=tags or {},
        owners=owners or (),
        partitions_def=partitions_def,
        automation_condition=automation_condition,
        freshness_policy=freshness_policy,
    )
    behaviour = Behaviour(
        operation=TaskOperation.OBSERVE,
        required_resource_keys=frozenset(
            several(required_resource_keys, what=f"{fn.__name__}: required_resource_keys")
        ),
        resource_defs=resource_defs or {},
        config_schema=config_schema,
        io_manager_key=io_manager_key or "",
        retry_policy=retry_policy,
        timeout=duration(timeout, fn.__name__),
        pool=pool or "",
        op_tags=op_tags or {},
    )
    return AssetsDefinition(fn, (spec,), signature, behaviour=behaviour)


def SourceAsset(  # noqa: N802, PLR0913 - the name and the options people know
    key: Any,
    *,
    metadata: Mapping[str, Any] | None = None,
    io_manager_key: str | None = None,
    description: str | None = None,
    partitions_def: Any = None,
    group_name: str | None = None,
    tags: Mapping[str, str] | None = None,
    **rest: Any,
) -> AssetSpec:
    """An external asset; with `io_manager_key`, downstream assets can load its value."""
    if rest:
        raise Invalid(
            f"SourceAsset {key}: there is no option {', '.join(sorted(rest))}",
            remedy="pass resources and IO managers to Definitions(resources=...), and "
            "observe the asset with @observable_source_asset",
        )
    stored = {IO_MANAGER_KEY: io_manager_key} if io_manager_key else {}
    return AssetSpec(
        key=key if not isinstance(key, str) else to_key([*prefix_parts(key)]),
        metadata={**(metadata or {}), **stored},
        description=description,
        partitions_def=partitions_def,
        group_name=group_name,
        tags=tags or {},
    )


def external_assets_from_specs(specs: Iterable[AssetSpec]) -> list[AssetSpec]:
    """External assets. In `Definitions`, the specs alone mean the same."""
    return list(specs)


def external_asset_from_spec(spec: AssetSpec) -> AssetSpec:
    """An external asset. In `Definitions`, the spec alone means the same."""
    return spec
