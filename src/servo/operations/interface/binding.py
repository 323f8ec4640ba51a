"""Requests bound to operations: texts and JSON in, typed arguments; a result, JSON bytes out.

    binder = Binder(workspace, provided)
    binder.respond(operations()["runs.list_runs"], OperationRequest(query=[("limit", "5")]))

A parameter can be in the path, in the query or in the JSON object of the body, but only in one of
them. The fields of a parameter that is a struct are parameters too: `limit`, not `page.limit`. In
the path and the query everything is text, and a list is a parameter that is repeated.

An operation that needs user code takes a `location` besides, which says whose evaluator answers.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, cast, get_args, get_origin

import msgspec
from msgspec.structs import FieldInfo, fields

from servo.errors import Invalid
from servo.operations.interface.catalog import Operation
from servo.operations.interface.encoding import encode_result
from servo.operations.interface.evaluating import Evaluates
from servo.workspace.workspace import Workspace

EVALUATOR = "evaluates"
WAIT = "wait"
PROVIDED = frozenset({EVALUATOR, WAIT})
"""The parameters of operations that are not data and that a server can supply."""

LOCATION = "location"
MOST_SHOWN = 80

_WORDS: Mapping[Any, str] = {
    int: "an integer",
    float: "a number",
    str: "text",
    bool: "true or false",
    datetime: "an instant such as 2026-01-31T12:00:00Z",
    NoneType: "null",
}


class InvalidParameter(Invalid):
    """A parameter of a request is missing, unknown or of another type."""

    def __init__(self, parameter: str, message: str, *, remedy: str) -> None:
        super().__init__(message, remedy=remedy)
        self.parameter = parameter


class OperationRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a request, where HTTP carries them."""

    path: Mapping[str, str] = {}
    query: Sequence[tuple[str, str]] = ()
    body: bytes = b""


class Dependencies(NamedTuple):
    """What operations need that no request carries.

    `evaluator` returns the evaluator of a code location; the location is empty if the request named
    none. `wait` is called between two looks of a stream.
    """

    evaluator: Callable[[str], Evaluates]
    wait: Callable[[], object]


class _Given(NamedTuple):
    """The value of a parameter; texts of a URL stand for numbers, instants and so on."""

    value: Any
    is_text: bool


class Binder:
    """Calls operations of one workspace with the parameters of requests."""

    def __init__(self, workspace: Workspace, provided: Dependencies) -> None:
        self._workspace = workspace
        self._provided = provided

    def respond(self, operation: Operation, request: OperationRequest) -> bytes | Iterator[bytes]:
        """Call an operation; its result as JSON, item by item if the operation is a stream."""
        known = _parameters(operation)
        given = _given(request, known)
        location = _location(operation, known, given)
        arguments = _arguments(operation, known, given)
        if EVALUATOR in operation.dependencies:
            arguments[EVALUATOR] = self._provided.evaluator(location)
        if WAIT in operation.dependencies:
            arguments[WAIT] = self._provided.wait
        result = operation.call(self._workspace, **arguments)
        return map(encode_result, result) if operation.is_stream else encode_result(result)


# --- the parameters of an operation ---------------------------------------------------------------


def parameter_names(operation: Operation) -> list[str]:
    """The names that a request can give, fields of structs among them."""
    return [one.name for field in fields(operation.parameters) for one in _flat(field)]


def _parameters(operation: Operation) -> dict[str, FieldInfo]:
    return {one.name: one for field in fields(operation.parameters) for one in _flat(field)}


def _flat(field: FieldInfo) -> Sequence[FieldInfo]:
    return fields(field.type) if _is_struct(field.type) else (field,)


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _arguments(
    operation: Operation, known: Mapping[str, FieldInfo], given: Mapping[str, _Given]
) -> dict[str, Any]:
    for name in given:
        if name not in known:
            raise _unknown(name, operation, known)
    found = {name: _converted(known[name], one) for name, one in given.items()}
    for name, field in known.items():
        if field.required and name not in found:
            raise InvalidParameter(name, f"the parameter {name} is missing", remedy=f"pass {name}")
    arguments: dict[str, Any] = {}
    for field in fields(operation.parameters):
        if _is_struct(field.type):
            names = [one.name for one in _flat(field)]
            arguments[field.name] = field.type(**{n: found[n] for n in names if n in found})
        elif field.name in found:
            arguments[field.name] = found[field.name]
    return arguments


def _unknown(name: str, operation: Operation, known: Collection[str]) -> InvalidParameter:
    remedy = f"use some of: {', '.join(known)}" if known else "pass none"
    return InvalidParameter(
        name, f"{operation.name} has no parameter {name}", remedy=f"remove it, or {remedy}"
    )


def _location(
    operation: Operation, known: Mapping[str, FieldInfo], given: dict[str, _Given]
) -> str:
    """The code location that is meant, which is no parameter of most operations."""
    if EVALUATOR not in operation.dependencies or LOCATION not in given:
        return ""
    one = given[LOCATION] if LOCATION in known else given.pop(LOCATION)
    if not isinstance(one.value, str):
        raise _invalid(LOCATION, str, one.value)
    return one.value


# --- what a request gives -------------------------------------------------------------------------


def _given(request: OperationRequest, known: Mapping[str, FieldInfo]) -> dict[str, _Given]:
    given = {name: _Given(text, is_text=True) for name, text in request.path.items()}
    for others in (_in_query(request.query, known), _in_body(request.body)):
        if twice := sorted(given.keys() & others):
            raise InvalidParameter(
                twice[0],
                f"the parameter {twice[0]} is given in two places",
                remedy="give it once: in the path, in the query or in the body",
            )
        given |= others
    return given


def _in_query(
    query: Sequence[tuple[str, str]], known: Mapping[str, FieldInfo]
) -> dict[str, _Given]:
    found: dict[str, list[str]] = {}
    for name, text in query:
        found.setdefault(name, []).append(text)
    given: dict[str, _Given] = {}
    for name, texts in found.items():
        if name in known and _is_list(known[name].type):
            given[name] = _Given(texts, is_text=True)
        elif len(texts) == 1:
            given[name] = _Given(texts[0], is_text=True)
        else:
            raise InvalidParameter(
                name, f"the parameter {name} is given {len(texts)} times", remedy="give it once"
            )
    return given


def _in_body(body: bytes) -> dict[str, _Given]:
    if not body:
        return {}
    try:
        found = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise Invalid(f"invalid JSON in the body: {error}", remedy="send a JSON object") from None
    if not isinstance(found, dict):
        raise Invalid("the body is not a JSON object", remedy='send one like {"name": "value"}')
    values = cast("dict[str, Any]", found)
    return {name: _Given(value, is_text=False) for name, value in values.items()}


def _is_list(kind: Any) -> bool:
    origin = get_origin(kind) or kind
    return isinstance(origin, type) and issubclass(origin, Sequence) and origin is not str


# --- values ---------------------------------------------------------------------------------------


def _converted(field: FieldInfo, given: _Given) -> Any:
    try:
        return msgspec.convert(given.value, field.type, strict=not given.is_text)
    except msgspec.ValidationError as error:
        raise _invalid(field.name, field.type, given.value, str(error)) from None


def _invalid(name: str, kind: Any, value: Any, problem: str = "") -> InvalidParameter:
    inner = re.search(r" - at `\$(.+)`$", problem)
    if inner is not None:  # somewhere within the value, as the problem says
        place, what = f"{name}{inner[1]}", problem[: inner.start()].replace("`", "")
        what = what[:1].lower() + what[1:]
        return InvalidParameter(
            place, f"invalid value for {place}: {what}", remedy=f"see the schema of {name}"
        )
    shown = repr(value)
    shown = shown if len(shown) <= MOST_SHOWN else f"{shown[:MOST_SHOWN]}…"
    return InvalidParameter(
        name, f"invalid value for {name}: {shown}", remedy=f"pass {_expected(kind)}"
    )


def _expected(kind: Any) -> str:
    """What values of a type look like, in words."""
    if get_origin(kind) is Annotated:
        return _expected(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(_expected(one) for one in get_args(kind))
    if get_origin(kind) is Literal:
        return f"one of: {', '.join(map(repr, get_args(kind)))}"
    if isinstance(kind, type) and issubclass(kind, Enum):
        return f"one of: {', '.join(str(one.value) for one in kind)}"
    if _is_list(kind):
        return "a list"
    return _WORDS.get(kind, "an object")
