"""Checks of the inputs and outputs of assets, run before an output becomes visible.

    @asset_check(asset=orders, blocking=True)
    def has_rows(orders):
        return AssetCheckResult(passed=len(orders) > 0)

A check that fails with severity `ERROR` marks the output. If it is `blocking`, the output does not
become the latest: the task fails, or, with `quarantine=True` on the asset, the output is held back
until someone decides, and downstream assets use the last good one. `servo.sdk.checks.gating` lists
the effect of each severity. `servo.checks` has ready-made checks.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from enum import Enum
from importlib import import_module
from typing import Any

import msgspec

from servo.core.keys import AssetKey
from servo.errors import Invalid
from servo.sdk.assets.signature import Signature, read_signature
from servo.sdk.assets.specs import AssetDep, AssetIn, checked_condition, to_deps, to_key
from servo.sdk.metadata.plain_data import unboxed
from servo.sdk.option_kinds import by_name, of_kind, several

_Fn = Callable[..., Any]

DEFAULT_TIMEOUT = timedelta(minutes=5)

_NAME = re.compile(r"[A-Za-z0-9_]+")


class AssetCheckSeverity(Enum):
    """How bad a failed check is: `CRITICAL` blocks even if the check is not `blocking`."""

    INFO = "INFO"
    WARN = "WARN"
    ERROR = "ERROR"
    CRITICAL = "CRITICAL"


class AssetCheckKey(msgspec.Struct, frozen=True):
    """The key of a check: its asset and its name."""

    asset_key: AssetKey
    name: str

    def __post_init__(self) -> None:
        key = to_key(self.asset_key, what=f"check {self.name}")
        msgspec.structs.force_setattr(self, "asset_key", key)


class AssetCheckSpec(msgspec.Struct, frozen=True):
    """A check, without the function that evaluates it.

        @asset(check_specs=[AssetCheckSpec("has_rows", asset="orders")])
        def orders():
            return MaterializeResult(check_results=[AssetCheckResult(passed=True)])

    Args:
        name: letters, digits and underscores.
        asset: the asset that is checked.
        description: shown with the results.
        additional_deps: other assets that the check reads.
        blocking: whether a failure with severity ERROR blocks the output.
        metadata: metadata of the check.
        automation_condition: when to run the check automatically.
    """

    name: str
    asset: Any
    description: str | None = None
    additional_deps: Iterable[Any] = ()
    blocking: bool = False
    metadata: Mapping[str, Any] = {}
    automation_condition: Any = None

    def __post_init__(self) -> None:
        set_field = msgspec.structs.force_setattr
        of_kind(self.name, str, what="the name of a check", remedy="use a string")
        if not _NAME.fullmatch(self.name):
            raise Invalid(
                f"invalid check name {self.name!r}", remedy="use letters, digits and underscores"
            )
        what = f"check {self.name}"
        set_field(self, "asset", to_key(self.asset, what=what))
        deps = [dep.asset_key for dep in to_deps(self.additional_deps, what=what)]
        if self.asset in deps:
            raise Invalid(
                f"{what}: additional_deps contains {self.asset}, the asset that it checks",
                remedy="leave it out: a check always depends on its asset",
            )
        set_field(self, "additional_deps", tuple(AssetDep(key) for key in deps))
        set_field(self, "metadata", dict(self.metadata or {}))
        condition = checked_condition(self.automation_condition, what=what)
        set_field(self, "automation_condition", condition)

    @property
    def asset_key(self) -> AssetKey:
        """The asset that is checked."""
        return self.asset

    @property
    def key(self) -> AssetCheckKey:
        """The key of the check."""
        return AssetCheckKey(self.asset, self.name)


class AssetCheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a check.

        AssetCheckResult(passed=False, severity=AssetCheckSeverity.WARN, metadata={"nulls": 3})

    In a `@multi_asset_check`, or in the function of an asset, name the check with `check_name` and,
    if there are several assets, `asset_key`.
    """

    passed: bool
    severity: AssetCheckSeverity = AssetCheckSeverity.ERROR
    description: str | None = None
    metadata: Mapping[str, Any] = {}
    check_name: str | None = None
    asset_key: Any = None

    def __post_init__(self) -> None:
        set_field, what = msgspec.structs.force_setattr, "AssetCheckResult"
        passed: object = unboxed(self.passed)
        if not isinstance(passed, bool):
            raise Invalid(f"{what}: passed is {passed!r}", remedy="use True or False, or bool(...)")
        set_field(self, "passed", passed)
        set_field(self, "severity", to_severity(self.severity, what))
        of_kind(self.metadata, Mapping, what=f"{what}: metadata", remedy='use {"name": value}')
        if self.asset_key is not None:
            set_field(self, "asset_key", to_key(self.asset_key, what=what))


class CheckOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a check is run.

    `severity` is used for a failure whose result names none. `before` is whether the check runs
    before the asset's function, on its inputs. A `rule` takes one argument that is more than a
    value, and `input` names the parameter of the asset's function that it checks. `sees_previous`
    is whether it needs the previous output too, and `query` the SQL of a check, which may name
    other assets.
    """

    before: bool = False
    timeout: timedelta = DEFAULT_TIMEOUT
    severity: AssetCheckSeverity = AssetCheckSeverity.ERROR
    ins: Mapping[str, AssetIn] = {}
    required_resource_keys: frozenset[str] = frozenset()
    resource_defs: Mapping[str, Any] = {}
    config_schema: Any = None
    rule: bool = False
    input: str | None = None
    sees_previous: bool = False
    query: str = ""


class AssetChecksDefinition:
    """One function and the checks that it evaluates. `@asset_check` returns one."""

    def __init__(
        self,
        fn: _Fn,
        specs: Sequence[AssetCheckSpec],
        signature: Signature,
        options: CheckOptions | None = None,
    ) -> None:
        self.fn = fn
        self.specs = tuple(specs)
        self.signature = signature
        self.options = options or CheckOptions()

    @property
    def spec(self) -> AssetCheckSpec:
        """The first check, which in most cases is the only one."""
        return self.specs[0]

    @property
    def check_specs(self) -> tuple[AssetCheckSpec, ...]:
        """The specs of all checks."""
        return self.specs

    @property
    def check_keys(self) -> set[AssetCheckKey]:
        """The keys of all checks."""
        return {spec.key for spec in self.specs}

    @property
    def name(self) -> str:
        """The name of the function, or of the only check."""
        return self.spec.name if len(self.specs) == 1 else getattr(self.fn, "__name__", "checks")

    @property
    def where(self) -> str:
        """The file and line of the function."""
        code = getattr(self.fn, "__code__", None)
        return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else "unknown"

    def __call__(self, *args: Any, **inputs: Any) -> Any:
        """Call the function directly, as a test does: see `servo.sdk.assets.invocation`."""
        # Imported late: it depends on contexts and resources, which depend on checks.
        return import_module("servo.sdk.assets.invocation").call_check(self, args, inputs)

    def __repr__(self) -> str:
        return f"<checks {', '.join(f'{spec.asset}:{spec.name}' for spec in self.specs)}>"


def asset_check(  # noqa: PLR0913 - the options people know
    *,
    asset: Any,
    name: str | None = None,
    description: str | None = None,
    blocking: bool = False,
    additional_ins: Mapping[str, Any] | None = None,
    additional_deps: Iterable[Any] | None = None,
    required_resource_keys: Iterable[str] | None = None,
    resource_defs: Mapping[str, Any] | None = None,
    config_schema: Any = None,
    compute_kind: str | None = None,
    op_tags: Mapping[str, Any] | None = None,
    retry_policy: Any = None,
    metadata: Mapping[str, Any] | None = None,
    automation_condition: Any = None,
    pool: str | None = None,
    when: str = "after",
    timeout: timedelta | float | None = None,
    severity: AssetCheckSeverity | str = AssetCheckSeverity.ERROR,
) -> Callable[[_Fn], AssetChecksDefinition]:
    """Define a check of an asset by a function that takes the value of the asset.

        @asset_check(asset="orders", blocking=True)
        def has_rows(orders):
            return AssetCheckResult(passed=len(orders) > 0)

    The function returns an `AssetCheckResult` or a bool. With `blocking=True`, a failure keeps the
    output from becoming the latest. With `when="before"`, the check runs before the function of the
    asset, and its parameters are inputs of that function. `additional_ins` loads other assets as
    parameters, and `additional_deps` declares assets that the check reads itself. `severity` is
    that of a failure whose result names none, and `timeout` is in seconds or a `timedelta`.
    """
    # A check runs in the task of its asset, so options of tasks are accepted but not used.
    del compute_kind, op_tags, retry_policy, pool

    def define(fn: _Fn) -> AssetChecksDefinition:
        spec = AssetCheckSpec(
            name=name or fn.__name__,
            asset=asset,
            description=description or (fn.__doc__ or "").strip() or None,
            blocking=blocking,
            metadata=metadata or {},
            additional_deps=additional_deps or (),
            automation_condition=automation_condition,
        )
        what = f"check {spec.name}"
        options = CheckOptions(
            before=is_before(when, what),
            timeout=to_timeout(timeout, what),
            severity=to_severity(severity, what),
            ins=to_ins(additional_ins),
            required_resource_keys=frozenset(
                several(required_resource_keys, what=f"{what}: required_resource_keys")
            ),
            resource_defs=resource_defs or {},
            config_schema=config_schema,
        )
        signature = read_signature(fn)
        _refuse_strangers(what, options.ins, signature)
        values = [name for name in signature.inputs if name not in options.ins]
        if len(values) > 1 and not options.before:
            raise Invalid(
                f"{what} has the parameters {', '.join(values)}",
                remedy=f"take one parameter for the value of {spec.asset}, and list the others "
                "in additional_ins",
            )
        return AssetChecksDefinition(fn, (spec,), signature, options)

    return define


def multi_asset_check(  # noqa: PLR0913 - the options people know
    *,
    specs: Sequence[AssetCheckSpec],
    name: str | None = None,
    description: str | None = None,
    can_subset: bool = False,
    compute_kind: str | None = None,
    op_tags: Mapping[str, Any] | None = None,
    resource_defs: Mapping[str, Any] | None = None,
    required_resource_keys: Iterable[str] | None = None,
    retry_policy: Any = None,
    config_schema: Any = None,
    ins: Mapping[str, Any] | None = None,
    pool: str | None = None,
    timeout: timedelta | float | None = None,
    severity: AssetCheckSeverity | str = AssetCheckSeverity.ERROR,
) -> Callable[[_Fn], AssetChecksDefinition]:
    """Define several checks, of one or more assets, by one function.

        @multi_asset_check(specs=[AssetCheckSpec("rows", asset=key) for key in ("a", "b")])
        def rows(a, b):
            yield AssetCheckResult(asset_key="a", passed=len(a) > 0)
            yield AssetCheckResult(asset_key="b", passed=len(b) > 0)

    The function returns or yields an `AssetCheckResult` for each check. Its parameters are assets,
    by name or as `ins` says. It runs in the task of the last of its assets.
    """
    del name, description, can_subset, compute_kind, op_tags, retry_policy, pool
    if not specs:
        raise Invalid("multi_asset_check needs specs", remedy="pass at least one AssetCheckSpec")

    def define(fn: _Fn) -> AssetChecksDefinition:
        what = f"multi_asset_check {fn.__name__}"
        options = CheckOptions(
            timeout=to_timeout(timeout, what),
            severity=to_severity(severity, what),
            ins=to_ins(ins),
            required_resource_keys=frozenset(
                several(required_resource_keys, what=f"{what}: required_resource_keys")
            ),
            resource_defs=resource_defs or {},
            config_schema=config_schema,
        )
        signature = read_signature(fn)
        _refuse_strangers(what, options.ins, signature)
        return AssetChecksDefinition(fn, specs, signature, options)

    return define


def _refuse_strangers(what: str, ins: Mapping[str, AssetIn], signature: Signature) -> None:
    strangers = sorted(set(ins) - set(signature.inputs))
    if strangers:
        raise Invalid(
            f"{what}: ins names {', '.join(strangers)}, but the function has no such parameter",
            remedy="name parameters of the function in ins, and other assets in additional_deps",
        )


def to_ins(given: Mapping[str, Any] | None) -> dict[str, AssetIn]:
    """The inputs of a check, each given as an `AssetIn` or as anything that names an asset."""
    return {
        name: value if isinstance(value, AssetIn) else AssetIn(key=to_key(value))
        for name, value in by_name(given, what="ins").items()
    }


def is_before(when: str, what: str) -> bool:
    """Whether a check runs before the function of its asset."""
    if when not in ("before", "after"):
        raise Invalid(f"{what}: when is {when!r}", remedy='use "before" or "after"')
    return when == "before"


def to_timeout(given: timedelta | float | None, what: str) -> timedelta:
    """The timeout of a check."""
    if given is None:
        return DEFAULT_TIMEOUT
    timeout = given if isinstance(given, timedelta) else timedelta(seconds=given)
    if timeout <= timedelta():
        raise Invalid(
            f"{what}: timeout is {given}", remedy="pass a number of seconds greater than 0"
        )
    return timeout


def to_severity(given: AssetCheckSeverity | str, what: str) -> AssetCheckSeverity:
    """The severity of this name."""
    if isinstance(given, AssetCheckSeverity):
        return given
    try:
        return AssetCheckSeverity(given)
    except ValueError:
        names = ", ".join(severity.value for severity in AssetCheckSeverity)
        raise Invalid(
            f"{what}: there is no severity {given!r}", remedy=f"use one of {names}"
        ) from None
