"""Hooks: functions that run after an asset succeeded, or after it failed for good.

    @failure_hook(required_resource_keys={"slack"})
    def tell_the_team(context):
        context.resources.slack.post(f"{context.op.name} failed: {context.op_exception}")

    @asset(hooks={tell_the_team})
    def orders(): ...

A hook runs after the outcome is decided and cannot change it: an exception in a hook is logged.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, overload

import msgspec

from servo.core.keys import AssetKey
from servo.errors import Invalid
from servo.sdk.assets.context import Logger
from servo.sdk.option_kinds import several
from servo.sdk.resources.resources import HoldsResources, Resources, Silence, build_resources

_Fn = Callable[["HookContext"], Any]


class When(StrEnum):
    """When a hook runs."""

    SUCCESS = "success"
    FAILURE = "failure"


class HookedOp(msgspec.Struct, frozen=True):
    """The function that ran, by its name."""

    name: str


class Happened(msgspec.Struct, frozen=True, kw_only=True):
    """The execution that a hook is called for."""

    op: str = ""
    asset_key: AssetKey | None = None
    run_id: str = ""
    step_key: str = ""
    job_name: str | None = None
    exception: BaseException | None = None
    op_config: Any = None
    output_values: Callable[[], Mapping[str, Any]] = dict
    instance: Any = None


class HookContext(HoldsResources):
    """The context of a hook. For tests, build one with `build_hook_context`."""

    def __init__(
        self,
        happened: Happened,
        *,
        resources: Resources | None = None,
        log: Logger | None = None,
        hook_def: "HookDefinition | None" = None,
    ) -> None:
        self._happened = happened
        self.resources = resources or Resources()
        self.log: Logger = log or Silence()
        self.hook_def = hook_def

    @property
    def op(self) -> HookedOp:
        """The function that ran."""
        return HookedOp(self._happened.op)

    @property
    def asset_key(self) -> AssetKey:
        """The asset that succeeded or failed."""
        if self._happened.asset_key is None:
            raise Invalid(
                "this hook context has no asset", remedy="pass asset_key=… to build_hook_context"
            )
        return self._happened.asset_key

    @property
    def op_exception(self) -> BaseException | None:
        """The exception that the function raised, if it raised one."""
        return self._happened.exception

    @property
    def op_config(self) -> Any:
        """The configuration of the function, as given in the run config; None if there is none."""
        return self._happened.op_config

    @property
    def op_output_values(self) -> Mapping[str, Any]:
        """The values that the function returned, by output; loaded on first use."""
        return self._happened.output_values()

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._happened.run_id

    @property
    def step_key(self) -> str:
        """The key of the task."""
        return self._happened.step_key

    @property
    def job_name(self) -> str | None:
        """The job of the run, if it has one."""
        return self._happened.job_name

    @property
    def instance(self) -> Any:
        """The `ServoInstance` of the run."""
        if self._happened.instance is None:
            raise Invalid(
                "this hook context has no instance", remedy="pass instance=… to build_hook_context"
            )
        return self._happened.instance

    @property
    def required_resource_keys(self) -> frozenset[str]:
        """The resources that the hook requires."""
        return self.hook_def.required_resource_keys if self.hook_def else frozenset()


class HookDefinition:
    """A hook: a function that is called after an asset succeeded, or after it failed for good."""

    def __init__(
        self, fn: _Fn, *, when: When, name: str = "", required_resource_keys: Iterable[str] = ()
    ) -> None:
        self.fn = fn
        self.when = when
        self.name = name or getattr(fn, "__name__", "hook")
        self.required_resource_keys = frozenset(required_resource_keys)

    def __call__(self, context: HookContext) -> Any:
        """Call the function directly, as a test does."""
        if not isinstance(context, HookContext):  # pyright: ignore[reportUnnecessaryIsInstance] - people pass other contexts
            raise Invalid(
                f"the hook {self.name} was called with {context!r}",
                remedy="call it with build_hook_context(...)",
            )
        context.hook_def = context.hook_def or self
        missing = sorted(key for key in self.required_resource_keys if key not in context.resources)
        if missing:
            raise Invalid(
                f"the hook {self.name} needs the resource {missing[0]!r}",
                remedy=f'use build_hook_context(resources={{"{missing[0]}": ...}})',
            )
        return self.fn(context)

    def __repr__(self) -> str:
        return f"<hook {self.name}>"


@overload
def success_hook(hook_fn: _Fn, /) -> HookDefinition: ...
@overload
def success_hook(
    *, name: str | None = None, required_resource_keys: Iterable[str] | None = None
) -> Callable[[_Fn], HookDefinition]: ...


def success_hook(
    hook_fn: _Fn | None = None,
    *,
    name: str | None = None,
    required_resource_keys: Iterable[str] | None = None,
) -> Any:
    """Define a hook that is called with a `HookContext` after an asset succeeded.

    @success_hook
    def announce(context):
        context.log.info(f"{context.asset_key} is up to date")

    @asset(hooks={announce})
    def orders(): ...
    """
    return _hook(When.SUCCESS, hook_fn, name, required_resource_keys)


@overload
def failure_hook(hook_fn: _Fn, /) -> HookDefinition: ...
@overload
def failure_hook(
    *, name: str | None = None, required_resource_keys: Iterable[str] | None = None
) -> Callable[[_Fn], HookDefinition]: ...


def failure_hook(
    hook_fn: _Fn | None = None,
    *,
    name: str | None = None,
    required_resource_keys: Iterable[str] | None = None,
) -> Any:
    """Define a hook that is called with a `HookContext` after an asset failed for good.

    @failure_hook(required_resource_keys={"slack"})
    def alert(context):
        context.resources.slack.post(f"{context.asset_key}: {context.op_exception}")
    """
    return _hook(When.FAILURE, hook_fn, name, required_resource_keys)


def _hook(when: When, fn: _Fn | None, name: str | None, keys: Iterable[str] | None) -> Any:
    def define(function: _Fn) -> HookDefinition:
        return HookDefinition(
            function, when=when, name=name or "", required_resource_keys=keys or ()
        )

    return define if fn is None else define(fn)


def check_hooks(hooks: Any, *, what: str) -> tuple[HookDefinition, ...]:
    """Check that all values are hooks, and return them in a fixed order."""
    if isinstance(hooks, HookDefinition):
        raise Invalid(
            f"{what}: hooks is a single hook, not a set", remedy=f"write hooks={{{hooks.name}}}"
        )
    found = several(hooks, what=f"{what}: hooks")
    for hook in found:
        if not isinstance(hook, HookDefinition):
            raise Invalid(
                f"{what}: {hook!r} is not a hook",
                remedy="decorate a function with @success_hook or @failure_hook",
            )
    return tuple(sorted(found, key=lambda hook: hook.name))


def build_hook_context(  # noqa: PLR0913 - the options people know
    resources: Mapping[str, Any] | None = None,
    op: Any = None,
    run_id: str | None = None,
    job_name: str | None = None,
    op_exception: BaseException | None = None,
    *,
    op_output_values: Mapping[str, Any] | None = None,
    asset_key: Any = None,
    op_config: Any = None,
    instance: Any = None,
    log: Logger | None = None,
) -> HookContext:
    """Build a context to call a hook in a test; use it with `with` to close its resources."""
    values = dict(op_output_values or {})
    key = asset_key if asset_key is None or isinstance(asset_key, AssetKey) else AssetKey(asset_key)
    happened = Happened(
        op=op if isinstance(op, str) else getattr(op, "name", ""),
        asset_key=key,
        run_id=run_id or "",
        job_name=job_name,
        exception=op_exception,
        op_config=op_config,
        output_values=lambda: values,
        instance=instance,
    )
    context = HookContext(happened, log=log)
    return context.holding(build_resources(resources, log=log)) if resources else context
