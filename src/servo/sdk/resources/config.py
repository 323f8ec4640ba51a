"""Configuration: what a run passes to an asset, validated before the asset's code sees it.

    class OrdersConfig(Config):
        limit: int = 100
        token: str = EnvVar("SHOP_TOKEN")

An `EnvVar` stands for the value of an environment variable, a `Secret` for one that a provider
keeps. Both are resolved only where the code runs. Until then a model holds the name; afterwards the
code sees the value, but `repr`, `str`, errors and dumps still show the name. Nothing here reads the
environment of the process: the process that runs the code passes it to `resolve_env`, or once to
`set_environment`.

A model with an `EnvVar` is validated twice: the known fields when it is created, and the rest, with
the validators of those fields, when the value is resolved. Validators of the whole model run twice.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar, cast, overload

from pydantic import (
    BaseModel,
    ConfigDict,
    FieldSerializationInfo,
    GetCoreSchemaHandler,
    ModelWrapValidatorHandler,
    SerializerFunctionWrapHandler,
    ValidationError,
    ValidatorFunctionWrapHandler,
    create_model,
    field_serializer,
    model_serializer,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from servo.errors import Invalid
from servo.sdk.resources.config_errors import validated
from servo.sdk.resources.deferred_config import as_dict
from servo.sdk.resources.environment import EnvVar as EnvVar
from servo.sdk.resources.environment import environment
from servo.sdk.resources.environment import set_environment as set_environment
from servo.sdk.resources.references import (
    Reference,
    env_vars_in,
    holds_env,
    resolve_env,
    spell_env,
    unspell_env,
    veiled,
    within,
)
from servo.sdk.resources.run_config import RunConfig as RunConfig


def _fields_of(schema: Any) -> dict[str, Any]:
    """The fields in the core schema of a model, which are nested inside those of its validators."""
    return schema["fields"] if schema["type"] == "model-fields" else _fields_of(schema["schema"])


def _around(schema: Any, check: Any) -> Any:
    if schema["type"] == "default":  # outermost, so that the default is kept
        return {**schema, "schema": _around(schema["schema"], check)}
    if schema["type"] == "literal" and len(schema["expected"]) == 1:
        return schema  # Pydantic uses such a field to discriminate a union
    if schema["type"] == "tagged-union":
        schema = core_schema.no_info_before_validator_function(_one_of(schema), schema)
    return core_schema.no_info_wrap_validator_function(check, schema)


def _one_of(union: Any) -> Callable[[Any], Any]:
    """A schema that also reads `{"cat": {...}}` as `{"kind": "cat", ...}`, for unions."""
    field, tags = union["discriminator"], set(union["choices"])

    def read(value: Any) -> Any:
        if not isinstance(field, str) or not isinstance(value, Mapping):
            return value
        given = dict(cast("Mapping[str, Any]", value))
        tag = next(iter(given), "")
        if len(given) != 1 or tag not in tags or not isinstance(given[tag], Mapping):
            return given
        return {field: tag, **given[tag]}

    return read


def _by_name_too(schema: Any, resolve: Callable[[Any], Any]) -> None:
    """Accept the name of an enum member in a schema, besides its value."""
    if isinstance(schema, list | tuple):
        for item in cast("Sequence[Any]", schema):
            _by_name_too(item, resolve)
    elif isinstance(schema, dict):
        known = cast("dict[str, Any]", schema)
        meant = resolve(known) if known.get("type") == "definition-ref" else known
        if meant.get("type") == "enum":
            _name_members(meant)
            return
        for inner in known.values():
            _by_name_too(inner, resolve)


def _name_members(enum: dict[str, Any]) -> None:
    """Change the schema of an enum in place, because others refer to it."""
    inner = dict(enum)
    members, ref = inner["cls"].__members__, inner.pop("ref", None)
    values = {member.value for member in members.values() if isinstance(member.value, str)}

    def read(value: Any) -> Any:
        named = isinstance(value, str) and type(value) is str and value not in values
        return members.get(value, value) if named else value

    enum.clear()
    enum.update(core_schema.no_info_before_validator_function(read, cast("Any", inner), ref=ref))


# Under these names a model remembers, beside its fields: what it was made from, and the model with
# the names of variables that it was resolved from. Not private attributes, which would take part in
# comparisons.
_GIVEN = "servo:given"
_NAMED = "servo:named"


class ConfigModel(BaseModel):
    """Typed fields, any of which may be an `EnvVar`; unknown fields are rejected."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        populate_by_name=True,
        hide_input_in_errors=True,  # the input may be a secret, and errors are stored
    )

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[BaseModel], handler: GetCoreSchemaHandler, /
    ) -> CoreSchema:
        schema = handler(source)
        # Around all validators of a field, also those of subclasses: a value that is not known yet
        # must reach none of them, and a validator on the class would run inside theirs.
        for field in _fields_of(handler.resolve_ref_schema(schema)).values():
            _by_name_too(field["schema"], handler.resolve_ref_schema)
            field["schema"] = _around(field["schema"], cls.__servo_field__)
        return schema

    @classmethod
    def __servo_field__(cls, value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        """Validate the value of a field now, unless only the worker knows it."""
        if cls.__servo_later__(value):
            return value
        try:
            checked = handler(value)
        except ValidationError:
            if holds_env(value):
                return value
            named = unspell_env(value)
            if not holds_env(named):
                raise
            return cls.__servo_field__(named, handler)
        # A validator that converted the variables to plain strings has to run again.
        kept = len(list(env_vars_in(checked))) >= len(list(env_vars_in(value)))
        return checked if kept else value

    @classmethod
    def __servo_later__(cls, value: Any) -> bool:
        """Whether a value stands for one that is not known yet."""
        return isinstance(value, Reference)

    @model_validator(mode="wrap")
    @classmethod
    def __servo_remember__(cls, values: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        made = handler(values)
        if type(values) is dict:
            vars(made)[_GIVEN] = dict(cast("dict[str, Any]", values))
        return made

    def __servo_values__(self) -> dict[str, Any]:
        """The values of all fields, and the extra values of a permissive model."""
        fields = {name: vars(self).get(name) for name in type(self).model_fields}
        return {**fields, **(self.__pydantic_extra__ or {})}

    def __servo_resolve__(
        self, environ: Mapping[str, str], where: str, inner: Mapping[str, Any] | None = None
    ) -> Self:
        """A new model with variables resolved, and with `inner` in place of nested resources."""
        changes = dict(inner or {})
        for name, value in self.__servo_values__().items():
            if name not in changes and holds_env(value):
                changes[name] = resolve_env(value, environ, where=within(where, name))
        fresh = self.__servo_renew__(changes, where)
        if changes:
            vars(fresh)[_NAMED] = self.__servo_named__()
        return fresh

    def __servo_renew__(self, changes: Mapping[str, Any], where: str) -> Self:
        """A new model from the original input, with some values replaced."""
        given = dict(cast("dict[str, Any]", vars(self).get(_GIVEN, self.__servo_values__())))
        for name, value in changes.items():
            field = type(self).model_fields.get(name)
            alias = field.validation_alias if field else None
            given[alias if isinstance(alias, str) and alias in given else name] = value
        fresh = validated(type(self), given, where, named=self)
        if _NAMED in vars(self):
            vars(fresh)[_NAMED] = vars(self)[_NAMED]
        return fresh

    def __servo_veiled__(self) -> dict[str, Any]:
        """The values of all fields; those from the environment are hidden when shown."""
        named = self.__servo_named__().__servo_values__()
        return {name: veiled(named.get(name), v) for name, v in self.__servo_values__().items()}

    def __servo_named__(self) -> "ConfigModel":
        """The model with the names of variables in place of their values."""
        return vars(self).get(_NAMED, self)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with some fields replaced; the new values are not validated."""
        copied = super().model_copy(update=update, deep=deep)
        if update:
            vars(copied).pop(_GIVEN, None)
        if update and _NAMED in vars(copied):
            vars(copied)[_NAMED] = self.__servo_named__().model_copy(update=update)
        return copied

    def __repr_args__(self) -> Any:
        named = self.__servo_named__()
        return super().__repr_args__() if named is self else named.__repr_args__()

    @field_serializer("*", mode="wrap")
    def __servo_dump__(
        self, value: Any, handler: SerializerFunctionWrapHandler, info: FieldSerializationInfo
    ) -> Any:
        named = self.__servo_named__().__servo_values__().get(info.field_name)
        if isinstance(named, ConfigModel) or not holds_env(named):
            return handler(value)
        return _hide(named, value, as_json=info.mode_is_json())

    @model_serializer(mode="wrap")
    def __servo_dump_extra__(self, handler: SerializerFunctionWrapHandler, info: Any) -> Any:
        dumped = handler(self)
        named = self.__servo_named__().__pydantic_extra__ or {}
        for name in named.keys() & dumped.keys():
            if holds_env(named[name]):
                dumped[name] = _hide(named[name], dumped[name], as_json=info.mode_is_json())
        return dumped


def _hide(named: Any, value: Any, *, as_json: bool) -> Any:
    return spell_env(named) if as_json else veiled(named, value)


class Config(ConfigModel):
    """The configuration of an asset: annotate its parameter `config` with a subclass.

    class OrdersConfig(Config):
        limit: int = 100

    @asset
    def orders(config: OrdersConfig):
        return fetch(limit=config.limit)

    # servo materialize orders --config '{"ops": {"orders": {"config": {"limit": 5}}}}'
    """

    __servo_config__: ClassVar[bool] = True


class PermissiveConfig(Config):
    """A `Config` that accepts additional fields."""

    model_config = ConfigDict(extra="allow")


M = TypeVar("M", bound=BaseModel)


@overload
def build_config(
    model_type: type[M], values: Any, *, where: str, environ: Mapping[str, str] | None = None
) -> M: ...
@overload
def build_config(
    model_type: Any, values: Any, *, where: str, environ: Mapping[str, str] | None = None
) -> Any: ...


def build_config(
    model_type: Any, values: Any, *, where: str, environ: Mapping[str, str] | None = None
) -> Any:
    """The configuration of `where` ("asset orders") as its code expects it.

    `values` is a mapping or a model. If the type is not a model, the values are a plain dict.
    `Invalid` lists every wrong field with its value, what is expected, and the closest name.
    """
    known = environment() if environ is None else environ
    if not isinstance(model_type, type) or not issubclass(model_type, BaseModel):
        return resolve_env(as_dict(values, where), known, where=where)
    if not isinstance(values, model_type):
        values = validated(model_type, as_dict(values, where), where)
    return resolve_env(values, known, where=where)


def schema_model(schema: Any, where: str) -> type[BaseModel] | None:
    """The model of an old-style `config_schema`: a `Config` class, or Python types by name."""
    if schema is None or (isinstance(schema, type) and issubclass(schema, BaseModel)):
        return schema
    if not isinstance(schema, Mapping):
        raise _unknown_schema(schema, where)
    given = cast("Mapping[str, Any]", schema)
    fields: dict[str, Any] = {
        name: (_schema_type(kind, within(where, name)), getattr(kind, "__servo_default__", ...))
        for name, kind in given.items()
    }
    return create_model("ConfigSchema", __base__=Config, **fields)


def _schema_type(kind: Any, where: str) -> Any:
    kind = getattr(kind, "__servo_type__", kind)
    if isinstance(kind, Mapping):
        return schema_model(kind, where)
    if isinstance(kind, list):
        (item,) = cast("list[Any]", kind)
        return list[_schema_type(item, where)]
    if isinstance(kind, type) or hasattr(kind, "__origin__"):
        return kind
    raise _unknown_schema(kind, where)


def _unknown_schema(schema: Any, where: str) -> Invalid:
    return Invalid(
        f"{where}: {schema!r} is not a config schema Servo knows",
        remedy='use a Config class, or Python types by name, like {"limit": int}',
    )
