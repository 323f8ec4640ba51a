"""Every operation with its parameters and its result, for the interfaces that expose them.

An operation is a function of this package that is declared with `@operation`. It takes the
workspace first. Its other parameters and its result are data that JSON can carry. Two kinds of
parameters are not data, and not part of the catalog: functions, such as one that shows progress,
and ports, such as an evaluator of user code. The process that calls the operation supplies them
(see `binding`). An operation that returns its result piece by piece, such as following logs, is a
stream: an iterator.
"""

import collections.abc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from inspect import Parameter, isfunction, signature
from pkgutil import walk_packages
from types import FunctionType, MappingProxyType, ModuleType
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from servo.operations.interface.roles import Role, role_of
from servo.workspace.workspace import Workspace

PACKAGE = "servo.operations"
WORKSPACE = "workspace"


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One operation; `parameters` is a struct of the data that it takes besides the workspace.

    `dependencies` are its parameters that are not data, by name, and whether it needs them. The
    result of a stream is the type of one item.
    """

    name: str
    call: Callable[..., Any]
    parameters: type[msgspec.Struct]
    dependencies: Mapping[str, bool]
    result: Any
    is_stream: bool = False


@cache
def operations() -> Mapping[str, Operation]:
    """Every operation by its name, such as `runs.get_run`."""
    found = [
        _operation(function)
        for function in _functions(_modules())
        if role_of(function) is Role.OPERATION
    ]
    return MappingProxyType({one.name: one for one in sorted(found, key=lambda one: one.name)})


def misdeclared(modules: Iterable[ModuleType] | None = None) -> list[str]:
    """What is wrong with the declarations of public functions that take a workspace, one a line.

    Each is an operation or a step, and takes the workspace first, by that name.
    """
    found: list[str] = []
    for function in _functions(_modules() if modules is None else modules):
        role, places = role_of(function), _workspaces(function)
        if role is None and places:
            found.append(f"{_name(function)} takes a workspace: declare it @operation or @step")
        elif role is not None and places != [(0, WORKSPACE)]:
            found.append(f"{_name(function)} is a {role}: make `{WORKSPACE}` its first parameter")
    return found


def schemas(commands: Mapping[str, Sequence[Any]] | None = None) -> dict[str, Any]:
    """The JSON Schema of every operation's parameters and result.

    `commands` are the types that commands print, by their names. They share the components of the
    operations.
    """
    known, printed = operations(), commands or {}
    types = [kind for one in known.values() for kind in (one.parameters, one.result)]
    added = [kind for kinds in printed.values() for kind in kinds]
    schema, components = msgspec.json.schema_components(
        [*types, *added], ref_template="#/components/{name}"
    )
    made, rest = schema[: len(types)], iter(schema[len(types) :])
    # Parameters belong to one operation, so they are told with it and not among the components.
    taken = [components.pop(ref["$ref"].rpartition("/")[2]) for ref in made[::2]]
    told = {
        name: {"parameters": parameters, "result": result, "stream": known[name].is_stream}
        for name, parameters, result in zip(known, taken, made[1::2], strict=True)
    }
    told_commands = {name: [next(rest) for _ in kinds] for name, kinds in printed.items()}
    return {"operations": told, "commands": told_commands, "components": components}


def _modules() -> Iterator[ModuleType]:
    package = import_module(PACKAGE)
    for found in walk_packages(package.__path__, f"{PACKAGE}."):
        yield import_module(found.name)


def _functions(modules: Iterable[ModuleType]) -> Iterator[FunctionType]:
    """The public functions that these modules define."""
    for module in modules:
        for function in vars(module).values():
            own = isfunction(function) and function.__module__ == module.__name__
            if own and not function.__name__.startswith("_"):
                yield function


def _workspaces(function: FunctionType) -> list[tuple[int, str]]:
    """The places and names of the parameters that take a workspace."""
    hints = get_type_hints(function)
    return [
        (place, name)
        for place, name in enumerate(signature(function).parameters)
        if Workspace in (hints.get(name), *get_args(hints.get(name)))
    ]


def _operation(function: FunctionType) -> Operation:
    hints = get_type_hints(function, include_extras=True)
    taken = list(signature(function).parameters.values())[1:]
    data = [one for one in taken if not _is_dependency(hints[one.name])]
    others = [one for one in taken if _is_dependency(hints[one.name])]
    result, is_stream = hints["return"], get_origin(hints["return"]) is collections.abc.Iterator
    return Operation(
        name=_name(function),
        call=function,
        parameters=msgspec.defstruct(
            f"{function.__name__}_parameters",
            [_field(hints[one.name], one) for one in data],
            module=function.__module__,
            kw_only=True,
            forbid_unknown_fields=True,
        ),
        dependencies={one.name: one.default is Parameter.empty for one in others},
        result=get_args(result)[0] if is_stream else result,
        is_stream=is_stream,
    )


def _name(function: FunctionType) -> str:
    noun = function.__module__.rpartition(".")[2]
    return f"{noun}.{function.__name__}"


def _field(hint: Any, parameter: Parameter) -> tuple[str, Any] | tuple[str, Any, Any]:
    if parameter.default is Parameter.empty:
        return (parameter.name, hint)
    return (parameter.name, hint, parameter.default)


def _is_dependency(hint: Any) -> bool:
    """Whether a parameter takes, or may take, a function or what implements a port."""
    kinds = (hint, *get_args(hint)) if get_origin(hint) is not None else (hint,)
    return any(
        get_origin(kind) is collections.abc.Callable or getattr(kind, "_is_protocol", False)
        for kind in kinds
    )
