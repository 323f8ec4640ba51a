"""`@multi_asset`: one function that defines several assets.

    @multi_asset(outs={"users": AssetOut(), "orders": AssetOut()})
    def split(dump):
        return dump.users, dump.orders

All outputs of one execution become the latest at once, or none does.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import msgspec

from servo.core.keys import AssetKey
from servo.core.tags import check_isolation, priority_of
from servo.errors import Invalid
from servo.sdk.assets.asset import checked_ins, duration, loaded_deps
from servo.sdk.assets.assets_definition import AssetsDefinition, Behaviour
from servo.sdk.assets.hooks import check_hooks
from servo.sdk.assets.retries import RetryPolicy
from servo.sdk.assets.signature import Signature, read_signature
from servo.sdk.assets.specs import AssetDep, AssetIn, AssetSpec, prefix_parts, to_deps, to_key
from servo.sdk.checks.definition import AssetCheckSpec
from servo.sdk.checks.gating import CheckPolicy, to_policy
from servo.sdk.option_kinds import by_name, of_kind, several
from servo.sdk.partitions.mapping import BackfillPolicy

_Fn = Callable[..., Any]


class AssetOut(msgspec.Struct, frozen=True, kw_only=True):
    """One asset of a `@multi_asset`. Without a `key`, its name is the name of the output.

    Set `is_required=False` for an output that the function may leave out.
    """

    key_prefix: Any = None
    key: Any = None
    dagster_type: Any = None
    description: str | None = None
    is_required: bool = True
    io_manager_key: str | None = None
    metadata: Mapping[str, Any] = {}
    group_name: str | None = None
    code_version: str | None = None
    freshness_policy: Any = None
    automation_condition: Any = None
    backfill_policy: Any = None
    owners: Sequence[str] = ()
    tags: Mapping[str, str] = {}
    kinds: Iterable[str] = ()
    retention: Any = None

    @staticmethod
    def from_spec(spec: AssetSpec, **options: Any) -> "AssetOut":
        """The output for an `AssetSpec`; `options` set what a spec does not have."""
        shared = set(AssetOut.__struct_fields__) & set(AssetSpec.__struct_fields__)
        told = {name: getattr(spec, name) for name in shared}
        return AssetOut(**told, is_required=not spec.skippable, **options)

    def spec(self, name: str, **more: Any) -> AssetSpec:
        """The spec of the asset behind the output of this name."""
        if self.key is not None and self.key_prefix is not None:
            raise Invalid(
                f"AssetOut {name} has both key and key_prefix",
                remedy="pass only key, with the prefix in it",
            )
        own = to_key(self.key) if self.key is not None else None
        shared = set(AssetOut.__struct_fields__) & set(AssetSpec.__struct_fields__) - {"key"}
        told = {field: getattr(self, field) for field in shared}
        return AssetSpec(
            key=own or AssetKey([*prefix_parts(self.key_prefix), name]),
            skippable=not self.is_required,
            **told | {field: value for field, value in more.items() if not told.get(field)},
        )


def multi_asset(  # noqa: PLR0913 - the options people know
    *,
    outs: Mapping[str, AssetOut] | None = None,
    specs: Sequence[AssetSpec] | None = None,
    name: str | None = None,
    ins: Mapping[str, AssetIn] | None = None,
    deps: Iterable[Any] | None = None,
    description: str | None = None,
    internal_asset_deps: Mapping[str, set[AssetKey]] | None = None,
    can_subset: bool = False,
    group_name: str | None = None,
    partitions_def: Any = None,
    backfill_policy: BackfillPolicy | None = None,
    code_version: str | None = None,
    retry_policy: RetryPolicy | None = None,
    timeout: timedelta | float | None = None,
    pool: str | None = None,
    op_tags: Mapping[str, str] | None = None,
    required_resource_keys: Iterable[str] | None = None,
    resource_defs: Mapping[str, Any] | None = None,
    config_schema: Any = None,
    hooks: Iterable[Any] | None = None,
    isolation: str | None = None,
    quarantine: bool = False,
    check_specs: Sequence[AssetCheckSpec] | None = None,
    check_policy: CheckPolicy | str | None = None,
    **unknown: Any,
) -> Callable[[_Fn], AssetsDefinition]:
    """Define several assets by one function that materializes them together.

        @multi_asset(outs={"users": AssetOut(), "orders": AssetOut(group_name="sales")})
        def split(dump):
            return dump.users, dump.orders

        @multi_asset(specs=[AssetSpec("users"), AssetSpec("orders", deps=["users"])])
        def load():
            yield MaterializeResult(asset_key="users")
            yield MaterializeResult(asset_key="orders")

    With `outs`, the function returns the values in this order, or yields an `Output` for each. With
    `specs`, it stores the data itself and yields a `MaterializeResult` for each asset. With
    `can_subset=True` a run may select some of the assets: see `context.selected_asset_keys`.
    `internal_asset_deps` names the upstream assets of each output; without it, every output depends
    on all inputs and `deps`. The other options are those of `@asset`.
    """
    told = name or "multi_asset"
    if unknown:
        names = ", ".join(sorted(unknown))
        raise Invalid(
            f"{told}: there is no option {names}",
            remedy="see `help(servo.multi_asset)` for the options",
        )
    if bool(outs) == bool(specs):
        raise Invalid(f"{told} needs either outs or specs", remedy="pass outs={...} or specs=[...]")
    filled, tags = checked_ins(ins, what=told), by_name(op_tags, what=f"{told}: op_tags")
    for out in by_name(outs, what=f"{told}: outs").values():
        of_kind(out, AssetOut, what=f"{told}: one of outs", remedy="use AssetOut()")
    for spec in several(specs, what=f"{told}: specs"):
        of_kind(spec, AssetSpec, what=f"{told}: one of specs", remedy='use AssetSpec("name")')
    shared = {"group_name": group_name, "code_version": code_version, "description": description}

    def define(fn: _Fn) -> AssetsDefinition:
        check_isolation(isolation, fn.__name__)
        signature = read_signature(fn)
        ours = _named(outs, specs, {k: v for k, v in shared.items() if v is not None})
        above = [
            *loaded_deps(f"{told} {fn.__name__}", signature, filled),
            *to_deps(deps, what=fn.__name__),
        ]
        made = _with_deps(ours, above, internal_asset_deps, by_spec=specs is not None)
        if partitions_def is not None:
            made = {
                n: msgspec.structs.replace(s, partitions_def=partitions_def)
                for n, s in made.items()
            }
        behaviour = Behaviour(
            retry_policy=retry_policy,
            timeout=duration(timeout, fn.__name__),
            pool=pool or "",
            required_resource_keys=frozenset(
                several(required_resource_keys, what=f"{fn.__name__}: required_resource_keys")
            ),
            op_tags=tags,
            backfill_policy=_only_policy(fn, backfill_policy, outs or {}),
            resource_defs=by_name(resource_defs, what=f"{told}: resource_defs"),
            config_schema=config_schema,
            hooks=check_hooks(hooks, what=fn.__name__),
            quarantine=quarantine,
            priority=priority_of(tags, fn.__name__),
            isolation=isolation or "",
            check_specs=several(check_specs, what=f"{told}: check_specs"),
            check_policy=to_policy(check_policy, fn.__name__, quarantine=quarantine),
            can_subset=can_subset,
            returns_values=specs is None,
            output_names=tuple(made),
            io_manager_keys=tuple(out.io_manager_key or "" for out in (outs or {}).values()),
        )
        return AssetsDefinition(
            _renamed(fn, name),
            _each_once(fn, made),
            signature,
            input_keys=_input_keys(signature, filled),
            behaviour=behaviour,
        )

    return define


def _only_policy(
    fn: _Fn, given: BackfillPolicy | None, outs: Mapping[str, AssetOut]
) -> BackfillPolicy | None:
    """The backfill policy of the function: assets materialized together share one."""
    told = [given, *(out.backfill_policy for out in outs.values())]
    found = list(dict.fromkeys(policy for policy in told if policy is not None))
    if len(found) > 1:
        raise Invalid(
            f"{fn.__name__} has several backfill policies",
            remedy="pass one backfill_policy to the decorator",
        )
    return found[0] if found else None


def _named(
    outs: Mapping[str, AssetOut] | None,
    specs: Sequence[AssetSpec] | None,
    shared: Mapping[str, Any],
) -> dict[str, AssetSpec]:
    """The specs by output name."""
    if outs:
        return {name: out.spec(name, **shared) for name, out in outs.items()}
    made = [_filled(spec, shared) for spec in specs or ()]
    return {spec.key.to_python_identifier(): spec for spec in made}


def _filled(spec: AssetSpec, shared: Mapping[str, Any]) -> AssetSpec:
    missing = {name: value for name, value in shared.items() if getattr(spec, name) is None}
    return msgspec.structs.replace(spec, **missing)


def _with_deps(
    made: Mapping[str, AssetSpec],
    above: Sequence[AssetDep],
    internal: Mapping[str, set[AssetKey]] | None,
    *,
    by_spec: bool,
) -> dict[str, AssetSpec]:
    """The specs, each with its dependencies."""
    strangers = sorted(set(internal or {}) - set(made))
    if strangers:
        raise Invalid(
            f"internal_asset_deps names {', '.join(strangers)}, but there is no such output",
            remedy=f"use one of {', '.join(made)}",
        )
    found: dict[str, AssetSpec] = {}
    for name, spec in made.items():
        if internal is not None and name in internal:
            deps = to_deps(internal[name], what=name)
        else:
            deps = to_deps(
                [*spec.deps, *above] if not by_spec or not spec.deps else spec.deps, what=name
            )
        found[name] = msgspec.structs.replace(spec, deps=deps)
    return found


def _each_once(fn: _Fn, made: Mapping[str, AssetSpec]) -> tuple[AssetSpec, ...]:
    keys = [spec.key for spec in made.values()]
    twice = sorted({str(key) for key in keys if keys.count(key) > 1})
    if twice:
        raise Invalid(
            f"{fn.__name__} defines {', '.join(twice)} twice", remedy="remove one of them"
        )
    return tuple(made.values())


def _input_keys(signature: Signature, ins: Mapping[str, AssetIn]) -> dict[str, AssetKey]:
    return {name: ins.get(name, AssetIn()).key_for(name) for name in signature.inputs}


def _renamed(fn: _Fn, name: str | None) -> _Fn:
    if name is not None:
        fn.__name__ = name
    return fn
