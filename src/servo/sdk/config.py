"""Configuration: what a run tells an asset, checked before the asset's code sees it.

    class OrdersConfig(Config):
        limit: int = 100
        token: str = EnvVar("SHOP_TOKEN")

An `EnvVar` stands for the value of an environment variable and is replaced by it only where the
code runs. Until then a model holds the name; afterwards the code sees the value, but `repr`, `str`,
errors and dumps go on showing the name. Nothing here reads the environment of the process: who runs
the code passes it in, to `resolve_env` or, for everybody, to `set_environment`.

A model with an `EnvVar` in it is checked twice: what is known when it is written, and the rest,
with the validators of those fields, when the value is. Validators of the whole model run twice.
"""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, ClassVar, Self, TypeVar, cast, get_args, overload

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
from pydantic_core import CoreSchema, ErrorDetails, PydanticSerializationError, core_schema

from servo.errors import Invalid

_COLLECTIONS = (list, tuple, set, frozenset)
_SHOWN_CHARACTERS = 80

# --- the environment ------------------------------------------------------------------------------

_provided: list[Mapping[str, str]] = []


def set_environment(environ: Mapping[str, str]) -> None:
    """Say what environment variables there are; once for the process, before users' code runs."""
    _provided[:] = [environ]


def environment() -> Mapping[str, str]:
    """The environment that was set, or an empty one."""
    return _provided[0] if _provided else {}


class EnvVar(str):
    """The value of an environment variable, read where it is used.

    Can be given to any field of a `Config` or a resource. `EnvVar.int("PORT")` is a number.
    """

    __slots__ = ()

    @property
    def env_var_name(self) -> str:
        """The name of the variable."""
        return str.__str__(self)

    def get_value(self, default: str | None = None) -> str | None:
        """The value there is now, or `default`."""
        return environment().get(self.env_var_name, default)

    def __repr__(self) -> str:
        return f"EnvVar({self.env_var_name!r})"

    __str__ = __repr__

    @classmethod
    def int(cls, name: str) -> "IntEnvVar":
        """The value of an environment variable as a whole number."""
        return IntEnvVar(name)


class IntEnvVar(int):
    """A whole number from an environment variable; make one with `EnvVar.int`."""

    env_var_name: str

    def __new__(cls, name: str) -> Self:
        """The number that the variable `name` holds."""
        made = super().__new__(cls)
        made.env_var_name = name
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (self.env_var_name,)

    def get_value(self, default: int | None = None) -> int | None:
        """The value there is now, or `default`."""
        found = environment().get(self.env_var_name)
        return default if found is None else _whole(found, self, self.env_var_name)

    def __repr__(self) -> str:
        return f"EnvVar.int({self.env_var_name!r})"

    __str__ = __repr__


def resolve_env(value: Any, environ: Mapping[str, str], *, where: str = "a value") -> Any:
    """`value` with every `EnvVar` in it replaced; `Invalid` names those that are not set."""
    if isinstance(value, EnvVar | IntEnvVar):
        return _read(value, environ, where)
    if not _holds_env(value):
        return value
    if isinstance(value, ConfigModel):
        return value.__servo_resolve__(environ, where)
    if isinstance(value, dict):
        pairs = cast("dict[Any, Any]", value).items()
        return {k: resolve_env(v, environ, where=_within(where, k)) for k, v in pairs}
    kind = cast("type[list[Any]]", type(value))
    return kind([resolve_env(v, environ, where=_within(where, i)) for i, v in enumerate(value)])


def env_vars_in(value: Any) -> Iterator[EnvVar | IntEnvVar]:
    """Every `EnvVar` that `value` refers to, for a worker that hides or asks for their values."""
    if isinstance(value, EnvVar | IntEnvVar):
        yield value
    elif isinstance(value, ConfigModel):
        for item in value.__servo_values__().values():
            yield from env_vars_in(item)
    elif type(value) is dict:
        for item in cast("dict[Any, Any]", value).values():
            yield from env_vars_in(item)
    elif type(value) in _COLLECTIONS:
        for item in value:
            yield from env_vars_in(item)


def _holds_env(value: Any) -> bool:
    return next(env_vars_in(value), None) is not None


def _read(variable: EnvVar | IntEnvVar, environ: Mapping[str, str], where: str) -> str | int:
    name = variable.env_var_name
    found = environ.get(name)
    if found is None:
        raise Invalid(
            f"{where} is {variable!r}, and the environment variable {name} is not set",
            remedy=f"set {name} where the code runs",
        )
    return _whole(found, variable, where) if isinstance(variable, IntEnvVar) else found


def _whole(text: str, variable: IntEnvVar, where: str) -> int:
    # The text is not shown: it may be a secret that was put under the wrong name.
    if text.strip().lstrip("+-").isdecimal():
        return int(text)
    raise Invalid(
        f"{where} is {variable!r}, and {variable.env_var_name} is set to no whole number",
        remedy=f"set {variable.env_var_name} to digits",
    )


def _within(where: str, name: object) -> str:
    return f"{where}.{name}" if ": " in where else f"{where}: {name}"


def _spell_env(value: Any) -> Any:
    """`EnvVar`s as JSON holds them: {"env": "NAME"}."""
    if isinstance(value, EnvVar | IntEnvVar):
        return {"env": value.env_var_name}
    if type(value) is dict:
        return {k: _spell_env(v) for k, v in cast("dict[Any, Any]", value).items()}
    return [_spell_env(v) for v in value] if type(value) in _COLLECTIONS else value


def _unspell_env(value: Any) -> Any:
    if type(value) is dict:
        pairs = cast("dict[Any, Any]", value)
        if list(pairs) == ["env"] and isinstance(pairs["env"], str):
            return EnvVar(pairs["env"])
        return {k: _unspell_env(v) for k, v in pairs.items()}
    return [_unspell_env(v) for v in value] if type(value) in _COLLECTIONS else value


class _VeiledText(str):
    """A text from the environment that is itself wherever it is used, but not where it is shown."""

    __slots__ = ("_veil",)

    def __new__(cls, value: str, veil: str) -> Self:
        made = super().__new__(cls, value)
        made._veil = veil
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (str(self), self._veil)

    def __repr__(self) -> str:
        return self._veil


class _VeiledInt(int):
    """A number from the environment; see `_VeiledText`."""

    _veil: str

    def __new__(cls, value: int, veil: str) -> Self:
        made = super().__new__(cls, value)
        made._veil = veil
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (int(self), self._veil)

    def __repr__(self) -> str:
        return self._veil


def _veil(shown: Any, value: Any) -> Any:
    """`value`, of which the parts that `shown` takes from the environment do not show."""
    kind = cast("type[Any]", type(value))
    if isinstance(shown, EnvVar | IntEnvVar):
        veiled: Any = {str: _VeiledText, int: _VeiledInt}.get(kind)
        return veiled(value, repr(shown)) if veiled else value
    if type(shown) is not kind or kind not in (dict, list, tuple) or len(shown) != len(value):
        return value
    if isinstance(shown, dict):
        before = cast("dict[Any, Any]", shown)
        return {k: _veil(before.get(k), v) for k, v in value.items()}
    items: list[Any] = [_veil(s, v) for s, v in zip(shown, value, strict=True)]
    return items if kind is list else tuple(items)


# --- models ---------------------------------------------------------------------------------------


def _fields_of(schema: Any) -> dict[str, Any]:
    """The fields in the schema of a model, which stand below those of the model's validators."""
    return schema["fields"] if schema["type"] == "model-fields" else _fields_of(schema["schema"])


def _around(schema: Any, check: Any) -> Any:
    if schema["type"] == "default":  # outermost, or there would be no default
        return {**schema, "schema": _around(schema["schema"], check)}
    return core_schema.no_info_wrap_validator_function(check, schema)


# Under these names a model remembers, beside its fields: what it was made from, and the model with
# the names of variables that it was resolved from. Not private attributes, which would take part in
# comparisons.
_GIVEN = "servo:given"
_NAMED = "servo:named"


class ConfigModel(BaseModel):
    """Fields with types, any of which may be an `EnvVar`; unknown fields are refused."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        populate_by_name=True,
        hide_input_in_errors=True,  # what was given may be a secret, and errors are stored
    )

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[BaseModel], handler: GetCoreSchemaHandler, /
    ) -> CoreSchema:
        schema = handler(source)
        # Around all validators of a field, also those of subclasses: a value that is not known yet
        # must reach none of them, and a validator on the class would run inside theirs.
        for field in _fields_of(handler.resolve_ref_schema(schema)).values():
            field["schema"] = _around(field["schema"], cls.__servo_field__)
        return schema

    @classmethod
    def __servo_field__(cls, value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        """Check the value of a field now, unless it is one that only the worker knows."""
        if cls.__servo_later__(value):
            return value
        try:
            checked = handler(value)
        except ValidationError:
            if _holds_env(value):
                return value
            named = _unspell_env(value)
            if not _holds_env(named):
                raise
            return cls.__servo_field__(named, handler)
        # A check that made plain texts of the variables' names has to be repeated.
        kept = len(list(env_vars_in(checked))) >= len(list(env_vars_in(value)))
        return checked if kept else value

    @classmethod
    def __servo_later__(cls, value: Any) -> bool:
        """Whether a value stands for one that is not known yet."""
        return isinstance(value, EnvVar | IntEnvVar)

    @model_validator(mode="wrap")
    @classmethod
    def __servo_remember__(cls, values: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        made = handler(values)
        if type(values) is dict:
            vars(made)[_GIVEN] = dict(cast("dict[str, Any]", values))
        return made

    def __servo_values__(self) -> dict[str, Any]:
        """The values of all fields, and of those that a permissive model was given besides."""
        fields = {name: vars(self).get(name) for name in type(self).model_fields}
        return {**fields, **(self.__pydantic_extra__ or {})}

    def __servo_resolve__(
        self, environ: Mapping[str, str], where: str, inner: Mapping[str, Any] | None = None
    ) -> Self:
        """A new model with values in place of variables, and `inner` in place of what it names."""
        changes = dict(inner or {})
        for name, value in self.__servo_values__().items():
            if name not in changes and _holds_env(value):
                changes[name] = resolve_env(value, environ, where=_within(where, name))
        fresh = self.__servo_renew__(changes, where)
        if changes:
            vars(fresh)[_NAMED] = self.__servo_named__()
        return fresh

    def __servo_renew__(self, changes: Mapping[str, Any], where: str) -> Self:
        """A new model from what this one was made from, with some values in place of others."""
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
        """The values of all fields, of which those from the environment do not show."""
        named = self.__servo_named__().__servo_values__()
        return {name: _veil(named.get(name), v) for name, v in self.__servo_values__().items()}

    def __servo_named__(self) -> "ConfigModel":
        """The model with the names of variables in place of their values."""
        return vars(self).get(_NAMED, self)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with some fields set anew; what is new is not checked."""
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
        if isinstance(named, ConfigModel) or not _holds_env(named):
            return handler(value)
        return _hide(named, value, as_json=info.mode_is_json())

    @model_serializer(mode="wrap")
    def __servo_dump_extra__(self, handler: SerializerFunctionWrapHandler, info: Any) -> Any:
        dumped = handler(self)
        named = self.__servo_named__().__pydantic_extra__ or {}
        for name in named.keys() & dumped.keys():
            if _holds_env(named[name]):
                dumped[name] = _hide(named[name], dumped[name], as_json=info.mode_is_json())
        return dumped


def _hide(named: Any, value: Any, *, as_json: bool) -> Any:
    return _spell_env(named) if as_json else _veil(named, value)


class Config(ConfigModel):
    """What an asset can be told by a run: annotate the parameter `config` with a subclass."""

    __servo_config__: ClassVar[bool] = True


class PermissiveConfig(Config):
    """A `Config` that takes any other fields too."""

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
    """The configuration of `where` ("asset orders") as its code wants it.

    `values` is a mapping or a model. With a type that is no model the values are a plain dict.
    `Invalid` names every wrong field, what was given, what is expected, and what was meant.
    """
    known = environment() if environ is None else environ
    if not isinstance(model_type, type) or not issubclass(model_type, BaseModel):
        return resolve_env(_as_dict(values, where), known, where=where)
    if not isinstance(values, model_type):
        values = validated(model_type, _as_dict(values, where), where)
    return resolve_env(values, known, where=where)


def schema_model(schema: Any, where: str) -> type[BaseModel] | None:
    """The model of an old-style `config_schema`: a `Config` class, or Python types by name."""
    if schema is None or (isinstance(schema, type) and issubclass(schema, BaseModel)):
        return schema
    if not isinstance(schema, Mapping):
        raise _unknown_schema(schema, where)
    given = cast("Mapping[str, Any]", schema)
    fields: dict[str, Any] = {
        name: (_schema_type(kind, _within(where, name)), getattr(kind, "__servo_default__", ...))
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
        f"{where}: {schema!r} is no config schema Servo knows",
        remedy='use a Config class, or Python types by name, like {"limit": int}',
    )


def _as_dict(values: Any, where: str) -> dict[str, Any]:
    if values is None:
        return {}
    if isinstance(values, BaseModel):
        return dict(values)
    if isinstance(values, Mapping):
        return dict(cast("Mapping[str, Any]", values))
    raise Invalid(
        f"{where}: the config is {_short(values)}", remedy='give fields by name, like {"limit": 5}'
    )


# --- mistakes -------------------------------------------------------------------------------------


def validated(model_type: type[M], values: dict[str, Any], where: str, *, named: Any = None) -> M:
    """The model of these values; `Invalid` tells all that is wrong with them.

    What `named` takes from the environment is told by the name of its variable.
    """
    try:
        return model_type(**values)
    except ValidationError as error:
        details = error.errors(include_url=False)
    # Raised here and not above: the first error knows the values, and would be its context.
    known = named.__servo_values__() if isinstance(named, ConfigModel) else {}
    problems = "; ".join(_problem(model_type, detail, known) for detail in details)
    raise Invalid(f"{where}: {problems}", remedy=_fields_there_are(model_type))


def _problem(model_type: type[BaseModel], detail: ErrorDetails, named: Mapping[str, Any]) -> str:
    path = ".".join(str(part) for part in detail["loc"])
    if detail["type"] == "extra_forbidden":
        return f"there is no field {path}{_meant(model_type, detail['loc'])}"
    if detail["type"] == "missing":
        return f"the field {path} is missing"
    secret = _secret(detail["loc"], named)
    if secret is not None:
        # Not the validator's own words, which may quote the value.
        return f"{_place(model_type, path)} refuses the value of {secret}"
    told = detail["msg"].removeprefix("Value error, ")
    if not path:
        return told
    told = told[:1].lower() + told[1:]
    told = told.replace("input should be", "should be", 1)
    return f"the field {path} is {_short(detail['input'])}, but {told}"


def _place(model_type: type[BaseModel], path: str) -> str:
    if not path:
        return f"a check of {model_type.__name__}"
    field = model_type.model_fields.get(path)
    return f"the field {path}" + (f" ({_type_name(field.annotation)})" if field else "")


def _secret(loc: tuple[Any, ...], named: Mapping[str, Any]) -> str | None:
    """The variables behind a field; behind the whole model, if the field is told by an alias."""
    known = bool(loc) and loc[0] in named
    behind = env_vars_in(named[loc[0]] if known else dict(named))
    return ", ".join(repr(variable) for variable in behind) or None


def _meant(model_type: type[BaseModel], loc: tuple[Any, ...]) -> str:
    known = _model_at(model_type, loc[:-1]).model_fields
    close = get_close_matches(str(loc[-1]), list(known), n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def _model_at(model_type: type[BaseModel], loc: tuple[Any, ...]) -> type[BaseModel]:
    """The model that a place in a nested model is in."""
    for part in loc:
        field = model_type.model_fields.get(str(part))
        inner = _models_in(field.annotation) if field else []
        model_type = inner[0] if inner else model_type
    return model_type


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for arg in get_args(annotation) for found in _models_in(arg)]


def _fields_there_are(model_type: type[BaseModel]) -> str:
    fields = [
        f"{name}: {_type_name(field.annotation)}"
        + ("" if field.is_required() else f" = {_short(field.get_default())}")
        for name, field in model_type.model_fields.items()
    ]
    return f"the fields are {', '.join(fields)}" if fields else "there are no fields to give"


def _type_name(annotation: Any) -> str:
    plain = isinstance(annotation, type) and not hasattr(annotation, "__origin__")
    return annotation.__name__ if plain else str(annotation).replace("typing.", "")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


# --- a whole run ----------------------------------------------------------------------------------

_SECTIONS = ("ops", "resources", "loggers", "execution")
_OP_KEYS = {"config", "inputs", "outputs", "ops"}


class RunConfig:
    """Everything a run tells its assets and resources, by their names.

    A value is a `Config`, the fields of one, or those under "config" as in a file. So a `Config`
    whose only field is called "config" has to be given as a `Config`.
    """

    def __init__(
        self,
        ops: Mapping[str, Any] | None = None,
        resources: Mapping[str, Any] | None = None,
        loggers: Mapping[str, Any] | None = None,
        execution: Mapping[str, Any] | None = None,
    ) -> None:
        self.ops = dict(ops or {})
        self.resources = dict(resources or {})
        self.loggers = dict(loggers or {})
        self.execution = dict(execution or {})

    @classmethod
    def of(cls, value: "RunConfig | Mapping[str, Any] | None") -> "RunConfig":
        """The configuration of a run, however it was given."""
        if isinstance(value, RunConfig):
            return value
        unknown = [name for name in value or {} if name not in _SECTIONS]
        if unknown:
            close = get_close_matches(unknown[0], _SECTIONS, n=1)
            raise Invalid(
                f"a run config has no section {unknown[0]!r}",
                remedy=f"did you mean {close[0]!r}?" if close else "use ops and resources",
            )
        return cls(**(value or {}))

    def to_config_dict(self) -> dict[str, Any]:
        """The form that files have and requests carry; variables are {"env": "NAME"} in it."""
        return {
            "loggers": _plain(self.loggers),
            "resources": {name: _config_level(value) for name, value in self.resources.items()},
            "ops": {name: _config_level(value) for name, value in self.ops.items()},
            "execution": _plain(self.execution),
        }

    def for_op(self, *names: str) -> Any:
        """What was given for an asset under one of its names, for `build_config`."""
        return next((_inside(self.ops[name]) for name in names if name in self.ops), None)

    def for_resources(self) -> dict[str, Any]:
        """What was given for each resource, for `open_resources`."""
        return {name: _inside(value) for name, value in self.resources.items()}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RunConfig):
            return NotImplemented
        return self.to_config_dict() == other.to_config_dict()

    __hash__ = None  # pyright: ignore[reportAssignmentType] - what has changeable parts has none

    def __repr__(self) -> str:
        given = [f"{name}={getattr(self, name)!r}" for name in _SECTIONS if getattr(self, name)]
        return f"RunConfig({', '.join(given)})"


def _has_level(value: Any) -> bool:
    return isinstance(value, Mapping) and not set(cast("Mapping[Any, Any]", value)) - _OP_KEYS


def _inside(value: Any) -> Any:
    return cast("Mapping[str, Any]", value).get("config") if _has_level(value) else value


def _config_level(value: Any) -> Any:
    return _plain(value) if _has_level(value) else {"config": _plain(value)}


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return _dump_model(value)
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in cast("Mapping[Any, Any]", value).items()}
    return [_plain(v) for v in value] if type(value) in _COLLECTIONS else _spell_env(value)


def _dump_model(model: BaseModel) -> dict[str, Any]:
    try:
        return model.model_dump(mode="json")
    except PydanticSerializationError as error:
        told = str(error)
    raise Invalid(
        f"{type(model).__name__} cannot be sent with a run: {told}",
        remedy="give it plain values: texts, numbers, lists and dicts",
    )
