"""Checks of what an asset's function made, run before anybody else sees it.

    @asset_check(asset=orders, blocking=True)
    def has_rows(orders):
        return AssetCheckResult(passed=len(orders) > 0)

A check that fails with severity `ERROR` marks the output; if it is `blocking`, the output does not
become the latest: the task fails, or with `quarantine=True` on the asset the output is held back
until somebody decides, and what depends on it is made from the last good one.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from importlib import import_module
from typing import Any

import msgspec

from servo.core.keys import AssetKey
from servo.errors import Invalid
from servo.sdk.signature import Signature, read_signature
from servo.sdk.specs import to_key

Fn = Callable[..., Any]


class AssetCheckSeverity(Enum):
    """How bad it is when a check fails."""

    WARN = "WARN"
    ERROR = "ERROR"


class AssetCheckKey(msgspec.Struct, frozen=True):
    """A check, by its asset and its name."""

    asset_key: AssetKey
    name: str


class AssetCheckSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A check, without the code that makes it."""

    name: str
    asset: Any
    description: str | None = None
    blocking: bool = False
    metadata: Mapping[str, Any] = {}

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "asset", to_key(self.asset, what=f"check {self.name}"))

    @property
    def key(self) -> AssetCheckKey:
        """The asset and the name."""
        return AssetCheckKey(self.asset, self.name)


class AssetCheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a check found."""

    passed: bool
    severity: AssetCheckSeverity = AssetCheckSeverity.ERROR
    description: str | None = None
    metadata: Mapping[str, Any] = {}
    check_name: str | None = None
    asset_key: Any = None


class AssetChecksDefinition:
    """A function that checks an asset."""

    def __init__(self, fn: Fn, spec: AssetCheckSpec, signature: Signature) -> None:
        self.fn = fn
        self.spec = spec
        self.signature = signature

    @property
    def where(self) -> str:
        """The file and line of the code."""
        code = getattr(self.fn, "__code__", None)
        return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else "unknown"

    def __call__(self, *args: Any, **inputs: Any) -> Any:
        """Call the function itself, as a test does: see `servo.sdk.invocation`."""
        # Loaded late: it knows of contexts and resources, which know of checks.
        return import_module("servo.sdk.invocation").call_check(self, args, inputs)


def asset_check(
    *,
    asset: Any,
    name: str | None = None,
    description: str | None = None,
    blocking: bool = False,
    metadata: Mapping[str, Any] | None = None,
) -> Callable[[Fn], AssetChecksDefinition]:
    """Make the decorated function a check of an asset, whose value it takes as its parameter."""

    def define(fn: Fn) -> AssetChecksDefinition:
        spec = AssetCheckSpec(
            name=name or fn.__name__,
            asset=asset,
            description=description or (fn.__doc__ or "").strip() or None,
            blocking=blocking,
            metadata=metadata or {},
        )
        signature = read_signature(fn)
        if len(signature.inputs) > 1:
            raise Invalid(
                f"check {spec.name} takes {', '.join(signature.inputs)}",
                remedy=f"take one parameter: the value of {spec.asset}",
            )
        return AssetChecksDefinition(fn, spec, signature)

    return define
