"""Calling an asset or a check like a function, as a test does.

    orders(build_asset_context(resources={"warehouse": fake}), raw_orders=[1, 2])
    orders(context, [1, 2], warehouse=fake, config=OrdersConfig(limit=10))

Arguments fill parameters as in any call. What the caller leaves out comes from the context:
resources by name, and the configuration. Nothing is loaded or stored. Resources that are passed as
definitions are opened for the call; resources of the context stay open.
"""

import inspect
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import ExitStack
from difflib import get_close_matches
from typing import Any, cast

import msgspec

from servo.core.keys import AssetKey
from servo.errors import Invalid
from servo.sdk.assets.assets_definition import AssetsDefinition
from servo.sdk.assets.context import AssetExecutionContext
from servo.sdk.assets.signature import Signature
from servo.sdk.checks.definition import AssetChecksDefinition
from servo.sdk.resources.deferred_config import build_config, is_pydantic
from servo.sdk.resources.environment import environment
from servo.sdk.resources.resources import Resources, Silence, is_definition, open_resources


class Callee(msgspec.Struct, frozen=True, kw_only=True):
    """A function, and what is known about it."""

    fn: Callable[..., Any]
    signature: Signature
    what: str
    key: AssetKey
    definition: AssetsDefinition | None = None
    required_resource_keys: frozenset[str] = frozenset()


def call_asset(called: AssetsDefinition, args: Sequence[Any], given: Mapping[str, Any]) -> Any:
    """Call the function of an asset and return its result."""
    callee = Callee(
        fn=called.fn,
        signature=called.signature,
        what=f"asset {called.name}",
        key=called.specs[0].key,
        definition=called,
        required_resource_keys=called.behaviour.required_resource_keys,
    )
    return invoke(callee, args, given)


def call_check(called: AssetChecksDefinition, args: Sequence[Any], given: Mapping[str, Any]) -> Any:
    """Call the function of a check and return its result."""
    callee = Callee(
        fn=called.fn,
        signature=called.signature,
        what=f"check {called.spec.name}",
        key=called.spec.asset,
    )
    return invoke(callee, args, given)


def invoke(callee: Callee, args: Sequence[Any], given: Mapping[str, Any]) -> Any:
    """Call a function and return its result; `Invalid` if an argument is missing."""
    context, rest, named = _take_context(callee, args, given)
    arguments = _placed(callee, rest, named)
    with ExitStack() as stack:
        _bind(context, callee)
        arguments |= _resources(callee, arguments, context, stack)
        arguments |= _config(callee, arguments, context)
        _refuse_missing(callee, arguments)
        if callee.signature.context:
            arguments[callee.signature.context] = context
        value = callee.fn(**arguments)
        return _kept(value, stack)


# --- the context ----------------------------------------------------------------------------------


def _take_context(
    callee: Callee, args: Sequence[Any], given: Mapping[str, Any]
) -> tuple[AssetExecutionContext | None, Sequence[Any], dict[str, Any]]:
    """The context, whether passed by position or by name, and the other arguments."""
    name, rest = callee.signature.context, dict(given)
    if name and name in rest:
        return _checked_context(callee, rest.pop(name)), args, rest
    if args and _is_context(args[0]):
        return args[0], args[1:], rest
    if not name:
        return None, args, rest
    if args and args[0] is None:
        return AssetExecutionContext(callee.key, Silence()), args[1:], rest
    raise Invalid(
        f"{callee.what} needs a context, but none was given",
        remedy=f"call it as {callee.fn.__name__}(servo.build_asset_context(), ...)",
    )


def _is_context(value: Any) -> bool:
    return bool(getattr(value, "__servo_context__", False))


def _checked_context(callee: Callee, value: Any) -> AssetExecutionContext:
    if value is None:
        return AssetExecutionContext(callee.key, Silence())
    if not _is_context(value):
        raise Invalid(
            f"{callee.what}: the context is {value!r}", remedy="pass servo.build_asset_context()"
        )
    return value


def _bind(context: AssetExecutionContext | None, callee: Callee) -> None:
    """Bind a context that was built for a test to this asset; other contexts stay as they are."""
    bind = getattr(context, "__servo_bind__", None)
    if bind is not None:
        bind(callee.key, callee.definition)


# --- values ---------------------------------------------------------------------------------------


def _placed(callee: Callee, args: Sequence[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments by parameter name."""
    known = [n for n in _parameters(callee) if n != callee.signature.context]
    for name in given:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            there = f"it takes {', '.join(known)}" if known else "it takes no values"
            raise Invalid(
                f"{callee.what} has no parameter {name!r}",
                remedy=f"did you mean {close[0]!r}?" if close else there,
            )
    arguments = dict(given)
    left = iter([name for name in known if name not in given])
    for value in args:
        name = next((name for name in left if _fits(callee.signature, name, value)), None)
        if name is None:
            raise Invalid(
                f"{callee.what} got an unexpected argument of type {_kind(value)}",
                remedy=f"pass {', '.join(known)}" if known else "pass no values",
            )
        arguments[name] = value
    return arguments


def _fits(signature: Signature, name: str, value: Any) -> bool:
    """Whether a positional argument can be meant for a parameter; an input accepts any value.

    So config and resource parameters may come between inputs and be left to the context.
    """
    if name == signature.config:
        return is_pydantic(value) and not getattr(value, "__servo_resource__", False)
    if name in signature.resources:
        hint = signature.resources[name]
        return getattr(value, "__servo_resource__", False) or (
            isinstance(hint, type) and isinstance(value, hint)
        )
    return True


def _parameters(callee: Callee) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(callee.fn).parameters


def _refuse_missing(callee: Callee, arguments: Mapping[str, Any]) -> None:
    parameters = _parameters(callee)
    empty = inspect.Parameter.empty
    missing = [
        name
        for name in callee.signature.inputs
        if name not in arguments and parameters[name].default is empty
    ]
    if missing:
        raise Invalid(
            f"{callee.what} needs a value for {', '.join(missing)}",
            remedy=f"pass it: {callee.fn.__name__}({missing[0]}=...)",
        )


def _kind(value: object) -> str:
    return type(value).__qualname__


# --- resources and configuration ------------------------------------------------------------------


def _resources(
    callee: Callee,
    arguments: Mapping[str, Any],
    context: AssetExecutionContext | None,
    stack: ExitStack,
) -> dict[str, Any]:
    """The resources for parameters: from the context, or opened for this call."""
    held: Any = getattr(context, "resources", None)
    there = held if isinstance(held, Resources) else Resources()
    found: dict[str, Any] = {}
    for name in callee.signature.resources:
        if name in arguments and name in there:
            raise Invalid(
                f"{callee.what} got the resource {name!r} twice: as an argument and from "
                "the context",
                remedy="pass it only once",
            )
        if name not in arguments and name not in there:
            raise _no_resource(callee, name)
        found[name] = arguments[name] if name in arguments else getattr(there, name)
    for name in sorted(callee.required_resource_keys):
        if name not in there:
            raise _no_resource(callee, name)
    closed: dict[str, Any] = {
        name: found[name] for name in found if name in arguments and _is_definition(found[name])
    }
    if not closed:
        return found
    opened = stack.enter_context(open_resources(closed, closed, environment()))
    return found | {name: getattr(opened, name) for name in closed}


def _is_definition(value: Any) -> bool:
    return is_definition(value)


def _no_resource(callee: Callee, name: str) -> Invalid:
    own = name in callee.signature.resources
    passing = f"pass {name}=..., or " if own else ""
    return Invalid(
        f"{callee.what} needs the resource {name!r}",
        remedy=f'{passing}build the context with resources={{"{name}": ...}}',
    )


def _config(
    callee: Callee, arguments: Mapping[str, Any], context: AssetExecutionContext | None
) -> dict[str, Any]:
    name = callee.signature.config
    if not name:
        return {}
    held = None if context is None else context.op_config
    if name in arguments and held is not None:
        raise Invalid(
            f"{callee.what} got its config twice: as an argument and from the context",
            remedy="pass it only once",
        )
    given = arguments.get(name, held)
    if given is None and _parameters(callee)[name].default is not inspect.Parameter.empty:
        return {}
    return {name: build_config(callee.signature.config_type, given, where=callee.what)}


# --- what goes on after the call ------------------------------------------------------------------


def _kept(value: Any, stack: ExitStack) -> Any:
    """The result of the function; a generator keeps the resources open until it ends."""
    if inspect.isgenerator(value):
        return _going_on(cast("Generator[Any, Any, Any]", value), stack.pop_all())
    if inspect.iscoroutine(value):
        return _awaited(cast("Coroutine[Any, Any, Any]", value), stack.pop_all())
    if inspect.isasyncgen(value):
        return _going_on_awaited(cast("AsyncGenerator[Any, Any]", value), stack.pop_all())
    return value


def _going_on(value: Generator[Any, Any, Any], stack: ExitStack) -> Generator[Any, Any, Any]:
    with stack:
        return (yield from value)


async def _awaited(value: Coroutine[Any, Any, Any], stack: ExitStack) -> Any:
    with stack:
        return await value


async def _going_on_awaited(value: AsyncGenerator[Any, Any], stack: ExitStack) -> Any:
    with stack:
        async for item in value:
            yield item
