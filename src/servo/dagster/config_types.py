"""Types for `config_schema`, as Dagster spells them.

Most are the Python types that they stand for. `Field` adds a default; `DagsterType` is accepted
where a type is and not enforced: the check of a value is an `@asset_check`.
"""

import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, cast

import msgspec
from pydantic import PlainValidator, TypeAdapter, create_model

from servo.errors import Invalid
from servo.sdk.resources.config import PermissiveConfig, schema_model

String = StringSource = str
Int = IntSource = int
Float = float
Bool = BoolSource = bool
Nothing = type(None)
List, Dict, Set, Tuple, Optional = list, dict, set, tuple, typing.Optional

_MISSING: Any = object()


class Field:
    """A field of a schema, with an optional default."""

    def __init__(
        self,
        config: Any,
        default_value: Any = _MISSING,
        is_required: bool | None = None,
        description: str | None = None,
    ) -> None:
        has_default = default_value is not _MISSING
        if has_default and is_required:
            raise Invalid(
                "a Field has both is_required=True and a default", remedy="leave out one of them"
            )
        self.description = description
        optional = is_required is False and not has_default
        self.__servo_type__ = Noneable(config) if optional else to_type(config)
        if has_default or optional:
            self.__servo_default__ = default_value if has_default else None


class EnumValue(msgspec.Struct, frozen=True):
    """One value of an `Enum`, as it is written in a configuration."""

    config_value: str
    python_value: Any = None
    description: str | None = None


def Enum(name: str, enum_values: Sequence[EnumValue]) -> Any:
    """One of some strings."""
    if not enum_values:
        raise Invalid(f"the enum {name} has no values", remedy="list at least one EnumValue")
    return Literal[tuple(value.config_value for value in enum_values)]


def Noneable(inner_type: Any) -> Any:
    """A value or None."""
    return typing.Optional[to_type(inner_type)]  # noqa: UP045 - `|` refuses what is not a class


def Array(inner_type: Any) -> Any:
    """A list of values."""
    return list[to_type(inner_type)]


def Map(key_type: Any, inner_type: Any, key_label_name: str | None = None) -> Any:
    """Values by key."""
    del key_label_name
    return dict[to_type(key_type), to_type(inner_type)]


def Shape(fields: Mapping[str, Any], **names: Any) -> Any:
    """An object with these fields and no others."""
    del names
    return schema_model(fields, "Shape")


def Permissive(fields: Mapping[str, Any] | None = None, description: str | None = None) -> Any:
    """An object with these fields and any others."""
    del description
    known: Any = schema_model(fields or {}, "Permissive")
    typed: dict[str, Any] = {
        name: (field.annotation, field) for name, field in known.model_fields.items()
    }
    return create_model("Permissive", __base__=PermissiveConfig, **typed)


def Selector(fields: Mapping[str, Any], description: str | None = None) -> Any:
    """An object with exactly one of these fields."""
    del description
    readers = {name: TypeAdapter[Any](to_type(kind)) for name, kind in fields.items()}

    def chosen(value: Any) -> dict[str, Any]:
        given = dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else {}
        if len(given) != 1 or not set(given) <= set(readers):
            raise ValueError(f"give exactly one of {', '.join(readers)}")
        return {name: readers[name].validate_python(inner) for name, inner in given.items()}

    return Annotated[Any, PlainValidator(chosen)]


def ScalarUnion(scalar_type: Any, non_scalar_schema: Any, **names: Any) -> Any:
    """A scalar, or a value of another schema."""
    del names
    return typing.Union[to_type(scalar_type), to_type(non_scalar_schema)]  # noqa: UP007 - as above


class TypeCheck(msgspec.Struct, frozen=True):
    """The result of a type check."""

    success: bool
    description: str | None = None
    metadata: Mapping[str, Any] | None = None


class DagsterType:
    """A type with a check of its own; accepted as a type, but not enforced."""

    def __init__(
        self,
        type_check_fn: Callable[..., Any],
        name: str | None = None,
        description: str | None = None,
        typing_type: Any = Any,
        **options: Any,
    ) -> None:
        del options
        self.type_check_fn = type_check_fn
        self.unique_name = name
        self.description = description
        self.typing_type = typing_type

    def __repr__(self) -> str:
        return f"DagsterType({self.unique_name!r})"


class PythonObjectDagsterType(DagsterType):
    """The type of the instances of a class."""

    def __init__(self, python_type: Any, name: str | None = None, **options: Any) -> None:
        named = name or getattr(python_type, "__name__", "object")

        def is_one(_: Any, value: Any) -> bool:
            return isinstance(value, python_type)

        super().__init__(is_one, named, typing_type=python_type, **options)


def to_type(given: Any) -> Any:
    """The Python type for a part of a schema."""
    if isinstance(given, Field):
        return given.__servo_type__
    if isinstance(given, Mapping):
        return schema_model(given, "config_schema")
    if isinstance(given, list):
        return Array(*cast("list[Any]", given))
    return given
