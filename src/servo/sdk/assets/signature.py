"""What the parameters of a function stand for.

    def orders(context, raw_orders, warehouse: Warehouse, config: OrdersConfig): ...

`context` is the context of the execution, `raw_orders` an upstream asset, `warehouse` a resource
because of its annotation, and `config` the configuration from the run config.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

import msgspec

from servo.errors import Invalid

CONTEXT_NAMES = ("context", "_context", "_", "__")


class Signature(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a function by what fills them."""

    context: str = ""
    config: str = ""
    config_type: Any = None
    inputs: tuple[str, ...] = ()
    resources: Mapping[str, Any] = {}
    returns: Any = None
    types: Mapping[str, Any] = {}


def read_signature(fn: Callable[..., Any]) -> Signature:
    """The signature of `fn`; `Invalid` if it has a parameter that nothing can fill."""
    if inspect.isclass(fn):
        raise Invalid(f"{fn.__name__} is a class, not a function", remedy="decorate a function")
    try:
        parameters = inspect.signature(fn).parameters
    except (TypeError, ValueError) as error:
        raise Invalid(f"{fn!r} is not a function: {error}", remedy="decorate a function") from None
    hints = _hints(fn)
    context = config = ""
    inputs: list[str] = []
    resources: dict[str, Any] = {}
    for position, (name, parameter) in enumerate(parameters.items()):
        hint = hints.get(name)
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            _refuse_variadic(fn, name, parameter)
        elif _is_context(name, hint, position):
            context = name
        elif getattr(hint, "__servo_config__", False) or name == "config":
            config = name
        elif _is_resource(hint):
            resources[name] = hint
        else:
            inputs.append(name)
    return Signature(
        context=context,
        config=config,
        config_type=hints.get(config) if config else None,
        inputs=tuple(inputs),
        resources=resources,
        returns=hints.get("return"),
        types={name: hints[name] for name in inputs if name in hints},
    )


def _is_context(name: str, hint: Any, position: int) -> bool:
    return getattr(hint, "__servo_context__", False) or (position == 0 and name in CONTEXT_NAMES)


def _is_resource(hint: Any) -> bool:
    marks = getattr(hint, "__metadata__", ())
    return getattr(hint, "__servo_resource__", False) or "servo.resource" in marks


def _hints(fn: Callable[..., Any]) -> dict[str, Any]:
    # An annotation that cannot be resolved is ignored, not an error.
    try:
        return get_type_hints(fn, include_extras=True)
    except Exception:  # noqa: BLE001 - annotations are arbitrary code
        return dict(getattr(fn, "__annotations__", {}))


def _refuse_variadic(fn: Callable[..., Any], name: str, parameter: inspect.Parameter) -> None:
    star = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
    raise Invalid(
        f"{getattr(fn, '__name__', fn)} takes {star}{name}, which does not name an asset",
        remedy="name every upstream asset as a parameter, or pass deps=[...] to the decorator",
    )
