"""`@asset`: define an asset by the function that materializes it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, overload

from servo.core.keys import AssetKey
from servo.core.tags import check_isolation, priority_of
from servo.errors import Invalid
from servo.sdk.assets.assets_definition import AssetsDefinition, Behaviour
from servo.sdk.assets.hooks import check_hooks
from servo.sdk.assets.retention import Retention
from servo.sdk.assets.retries import RetryPolicy
from servo.sdk.assets.signature import Signature, read_signature
from servo.sdk.assets.specs import AssetDep, AssetIn, AssetSpec, prefix_parts, to_deps, to_key
from servo.sdk.checks.definition import AssetCheckSpec
from servo.sdk.checks.gating import CheckPolicy, to_policy
from servo.sdk.option_kinds import by_name, of_kind, several
from servo.sdk.partitions.mapping import BackfillPolicy

_Fn = Callable[..., Any]


@overload
def asset(fn: _Fn, /) -> AssetsDefinition: ...
@overload
def asset(**options: Any) -> Callable[[_Fn], AssetsDefinition]: ...


def asset(fn: _Fn | None = None, /, **options: Any) -> Any:
    """Define an asset by the function that materializes it.

        @asset(deps=["raw_orders"], group_name="sales", retry_policy=RetryPolicy(max_retries=3))
        def orders(context, customers): ...

    The name of the function is the name of the asset. Each parameter is an upstream asset of the
    same name, whose value is loaded, except `context`, `config`, and parameters annotated with a
    resource. The return value is stored. Return a `MaterializeResult` to record metadata, or `None`
    if the function stores its data itself.

    Options:

    - `name`, `key_prefix`, `key`: the key of the asset, if it is not the name of the function.
    - `deps`: upstream assets that the function does not load; `ins`: an `AssetIn` for each
      parameter that needs one.
    - `description` (the docstring, if left out), `metadata`, `tags`, `owners`, `kinds`,
      `group_name`, `code_version`: what is shown about the asset.
    - `partitions_def`, `backfill_policy`: how the asset is partitioned, and how many partitions one
      run materializes.
    - `automation_condition`, `freshness_policy`: when to materialize it automatically, and how old
      it may become.
    - `retry_policy`, `timeout` (seconds or a `timedelta`), `pool`, `isolation`, `op_tags`: how it
      is executed. `isolation="process"` starts a new process for each execution.
    - `io_manager_key`, `required_resource_keys`, `resource_defs`, `config_schema`: the resources
      and configuration that it uses.
    - `check_specs`, `check_policy`, `quarantine`: the checks that the function reports, and what
      happens to the output if a check fails.
    - `output_required`: set to False for a function that may return nothing.
    - `hooks`: success and failure hooks; `retention`: how many old versions to keep.
    """
    if fn is not None:
        return _define(fn)

    def define(function: _Fn) -> AssetsDefinition:
        return _define(function, **options)

    return define


def _define(  # noqa: PLR0913 - the options people know
    fn: _Fn,
    *,
    name: str | None = None,
    key: Any = None,
    key_prefix: Any = None,
    ins: Mapping[str, AssetIn] | None = None,
    deps: Iterable[Any] | None = None,
    description: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    tags: Mapping[str, str] | None = None,
    owners: Sequence[str] | None = None,
    kinds: Iterable[str] | None = None,
    group_name: str | None = None,
    partitions_def: Any = None,
    backfill_policy: BackfillPolicy | None = None,
    automation_condition: Any = None,
    freshness_policy: Any = None,
    code_version: str | None = None,
    retry_policy: RetryPolicy | None = None,
    pool: str | None = None,
    timeout: timedelta | float | None = None,
    op_tags: Mapping[str, str] | None = None,
    io_manager_key: str | None = None,
    required_resource_keys: Iterable[str] | None = None,
    resource_defs: Mapping[str, Any] | None = None,
    config_schema: Any = None,
    output_required: bool = True,
    quarantine: bool = False,
    hooks: Iterable[Any] | None = None,
    check_specs: Sequence[AssetCheckSpec] | None = None,
    check_policy: CheckPolicy | str | None = None,
    isolation: str | None = None,
    retention: Retention | None = None,
    **unknown: Any,
) -> AssetsDefinition:
    what = name or getattr(fn, "__name__", "asset")
    if unknown:
        raise Invalid(
            f"asset {what}: there is no option {', '.join(sorted(unknown))}",
            remedy="see `help(servo.asset)` for its options",
        )
    check_isolation(isolation, f"asset {what}")
    own = own_key(fn, name=name, key=key, key_prefix=key_prefix)
    ins = checked_ins(ins, what=f"asset {what}")
    op_tags = by_name(op_tags, what=f"asset {what}: op_tags")
    signature = read_signature(fn)
    spec = AssetSpec(
        key=own,
        deps=_all_deps(own, signature, ins, deps),
        description=description or docstring(fn),
        metadata=metadata or {},
        group_name=group_name,
        code_version=code_version,
        freshness_policy=freshness_policy,
        automation_condition=automation_condition,
        owners=owners or (),
        tags=tags or {},
        kinds=kinds or (),
        partitions_def=partitions_def,
        retention=retention,
    )
    behaviour = Behaviour(
        retry_policy=retry_policy,
        timeout=duration(timeout, what),
        pool=pool or "",
        io_manager_key=io_manager_key or "",
        required_resource_keys=frozenset(
            several(required_resource_keys, what=f"asset {what}: required_resource_keys")
        ),
        op_tags=op_tags,
        backfill_policy=backfill_policy,
        resource_defs=by_name(resource_defs, what=f"asset {what}: resource_defs"),
        config_schema=config_schema,
        output_required=output_required,
        quarantine=quarantine,
        hooks=check_hooks(hooks, what=f"asset {what}"),
        check_specs=several(check_specs, what=f"asset {what}: check_specs"),
        check_policy=to_policy(check_policy, f"asset {what}", quarantine=quarantine),
        priority=priority_of(op_tags, f"asset {what}"),
        isolation=isolation or "",
    )
    input_keys = {p: ins.get(p, AssetIn()).key_for(p) for p in signature.inputs}
    return AssetsDefinition(fn, (spec,), signature, input_keys=input_keys, behaviour=behaviour)


def own_key(fn: _Fn, *, name: str | None, key: Any, key_prefix: Any) -> AssetKey:
    """The key of the single asset that a function defines."""
    if key is not None:
        if name is not None or key_prefix is not None:
            raise Invalid(
                f"asset {key}: key cannot be combined with name or key_prefix",
                remedy="pass either key, or name and key_prefix",
            )
        return to_key(key)
    return AssetKey([*prefix_parts(key_prefix), name or fn.__name__])


def _all_deps(
    own: AssetKey, signature: Signature, ins: Mapping[str, AssetIn], deps: Iterable[Any] | None
) -> list[AssetDep]:
    return [*loaded_deps(f"asset {own}", signature, ins), *to_deps(deps, what=f"asset {own}")]


def checked_ins(ins: Mapping[str, AssetIn] | None, *, what: str) -> dict[str, AssetIn]:
    """Check that every input is an `AssetIn`."""
    given = by_name(ins, what=f"{what}: ins")
    for name, value in given.items():
        of_kind(value, AssetIn, what=f"{what}: ins of {name}", remedy="use AssetIn(key=...)")
    return given


def loaded_deps(what: str, signature: Signature, ins: Mapping[str, AssetIn]) -> list[AssetDep]:
    """The assets that a function loads as parameters."""
    strangers = sorted(set(ins) - set(signature.inputs))
    if strangers:
        raise Invalid(
            f"{what}: ins names {', '.join(strangers)}, but the function has no such parameter",
            remedy="name parameters of the function in ins, and other assets in deps",
        )
    return [_loaded(ins.get(name, AssetIn()), name) for name in signature.inputs]


def _loaded(given: AssetIn, name: str) -> AssetDep:
    return AssetDep(given.key_for(name), given.partition_mapping)


def duration(value: timedelta | float | None, what: str) -> timedelta | None:
    """A timeout given in seconds or as a `timedelta`."""
    if value is None or isinstance(value, timedelta):
        return value
    of_kind(value, int | float, what=f"asset {what}: timeout", remedy="use seconds or a timedelta")
    if value <= 0:
        raise Invalid(
            f"asset {what}: timeout is {value}", remedy="pass a number of seconds greater than 0"
        )
    return timedelta(seconds=value)


def docstring(fn: _Fn) -> str | None:
    """The docstring of a function."""
    text = (fn.__doc__ or "").strip()
    return text or None
