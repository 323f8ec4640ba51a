"""Every operation with its parameters and its result, for whoever offers them to others.

An operation is a public function of this package whose first parameter is `workspace: Workspace`.
Its other parameters and its result are data that JSON can carry. Two kinds of parameters are no
data, and no part of the catalog: functions, such as one that shows progress, and ports, such as an
evaluator of user code. Whoever carries an operation out passes them. An operation that gives its
result bit by bit, such as following logs, is a stream: an iterator.
"""

import collections.abc
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from inspect import Parameter, isfunction, signature
from pkgutil import walk_packages
from types import FunctionType, MappingProxyType, ModuleType
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from servo.workspace.workspace import Workspace

PACKAGE = "servo.operations"
WORKSPACE = "workspace"

STEPS = frozenset({"interface.evaluating.run_id_salt"})
"""Parts of operations that several share. They are not offered to anybody outside this process."""


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One operation; `parameters` is a struct of what it takes besides the workspace.

    The result of a stream is the type of one item.
    """

    name: str
    call: Callable[..., Any]
    parameters: type[msgspec.Struct]
    result: Any
    is_stream: bool = False

    def perform(self, workspace: Workspace, given: Mapping[str, Any], **means: Any) -> Any:
        """Carry the operation out with parameters as JSON or a URL has them.

        Text is converted to numbers, instants and so on. `means` are the parameters that are no
        data. `msgspec.ValidationError` if a parameter is missing, unknown or of another type.
        """
        found = msgspec.convert(given, self.parameters, strict=False)
        names = self.parameters.__struct_fields__
        return self.call(workspace, **{name: getattr(found, name) for name in names}, **means)


@cache
def operations() -> Mapping[str, Operation]:
    """Every operation by its name, such as `runs.get_run`."""
    found = [
        _operation(module, function)
        for module in _modules()
        for function in vars(module).values()
        if isfunction(function) and _is_operation(module, function)
    ]
    return MappingProxyType({one.name: one for one in sorted(found, key=lambda one: one.name)})


def schemas() -> dict[str, Any]:
    """The JSON Schema of every operation's parameters and result."""
    known = operations()
    types = [kind for one in known.values() for kind in (one.parameters, one.result)]
    made, components = msgspec.json.schema_components(types, ref_template="#/components/{name}")
    # Parameters belong to one operation, so they are told with it and not among the components.
    taken = [components.pop(ref["$ref"].rpartition("/")[2]) for ref in made[::2]]
    told = {
        name: {"parameters": parameters, "result": result, "stream": known[name].is_stream}
        for name, parameters, result in zip(known, taken, made[1::2], strict=True)
    }
    return {"operations": told, "components": components}


def _modules() -> Iterator[ModuleType]:
    package = import_module(PACKAGE)
    for found in walk_packages(package.__path__, f"{PACKAGE}."):
        yield import_module(found.name)


def _is_operation(module: ModuleType, function: FunctionType) -> bool:
    if function.__module__ != module.__name__ or function.__name__.startswith("_"):
        return False
    if _name(function) in STEPS:
        return False
    first = next(iter(signature(function).parameters), None)
    return first == WORKSPACE and get_type_hints(function).get(WORKSPACE) is Workspace


def _operation(module: ModuleType, function: FunctionType) -> Operation:
    hints = get_type_hints(function, include_extras=True)
    fields = [
        _field(hints[parameter.name], parameter)
        for parameter in list(signature(function).parameters.values())[1:]
        if not _is_no_data(hints[parameter.name])
    ]
    result, is_stream = hints["return"], get_origin(hints["return"]) is collections.abc.Iterator
    return Operation(
        name=_name(function),
        call=function,
        parameters=msgspec.defstruct(
            f"{function.__name__}_parameters",
            fields,
            module=module.__name__,
            kw_only=True,
            forbid_unknown_fields=True,
        ),
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


def _is_no_data(hint: Any) -> bool:
    """Whether a parameter takes, or may take, a function or what implements a port."""
    kinds = (hint, *get_args(hint)) if get_origin(hint) is not None else (hint,)
    return any(
        get_origin(kind) is collections.abc.Callable or getattr(kind, "_is_protocol", False)
        for kind in kinds
    )
