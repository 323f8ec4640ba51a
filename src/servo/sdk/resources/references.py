"""References to environment variables and secrets inside any value.

They are found, resolved where the code runs, encoded for JSON, and kept from being shown after they
are resolved.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Self, cast

from servo.sdk.resources.environment import EnvVar, IntEnvVar, read_variable
from servo.sdk.resources.secrets import Secret, read_secret

COLLECTIONS = (list, tuple, set, frozenset)

Reference = EnvVar | IntEnvVar | Secret
"""A value that is known only where the code runs."""

SHOWN_CHARACTERS = 80


def resolve_env(value: Any, environ: Mapping[str, str], *, where: str = "a value") -> Any:
    """`value` with every reference resolved; `Invalid` names those without a value."""
    if isinstance(value, Reference):
        return _read(value, environ, where)
    if not holds_env(value):
        return value
    if is_model(value):
        return value.__servo_resolve__(environ, where)
    if isinstance(value, dict):
        pairs = cast("dict[Any, Any]", value).items()
        return {k: resolve_env(v, environ, where=within(where, k)) for k, v in pairs}
    kind = cast("type[list[Any]]", type(value))
    return kind([resolve_env(v, environ, where=within(where, i)) for i, v in enumerate(value)])


def is_model(value: Any) -> bool:
    """Whether a value is a model whose fields may hold references."""
    return hasattr(cast("type[object]", type(value)), "__servo_values__")


def env_vars_in(value: Any) -> Iterator[Reference]:
    """Every `EnvVar` and `Secret` in a value."""
    if isinstance(value, Reference):
        yield value
    elif is_model(value):
        for item in value.__servo_values__().values():
            yield from env_vars_in(item)
    elif type(value) is dict:
        for item in cast("dict[Any, Any]", value).values():
            yield from env_vars_in(item)
    elif type(value) in COLLECTIONS:
        for item in value:
            yield from env_vars_in(item)


def holds_env(value: Any) -> bool:
    """Whether a value contains a reference."""
    return next(env_vars_in(value), None) is not None


def _read(reference: Reference, environ: Mapping[str, str], where: str) -> str | int:
    if isinstance(reference, Secret):
        return read_secret(reference, where)
    return read_variable(reference, environ, where)


def within(where: str, name: object) -> str:
    """The path of a part, for messages."""
    return f"{where}.{name}" if ": " in where else f"{where}: {name}"


def spell_env(value: Any) -> Any:
    """The value with references encoded for JSON: {"env": "NAME"}, {"secret": "name"}."""
    if isinstance(value, Secret):
        return {"secret": value.secret_name}
    if isinstance(value, EnvVar | IntEnvVar):
        return {"env": value.env_var_name}
    if type(value) is dict:
        return {k: spell_env(v) for k, v in cast("dict[Any, Any]", value).items()}
    return [spell_env(v) for v in value] if type(value) in COLLECTIONS else value


def unspell_env(value: Any) -> Any:
    """The value with references decoded from JSON."""
    if type(value) is dict:
        pairs = cast("dict[Any, Any]", value)
        if list(pairs) == ["env"] and isinstance(pairs["env"], str):
            return EnvVar(pairs["env"])
        if list(pairs) == ["secret"] and isinstance(pairs["secret"], str):
            return Secret(pairs["secret"])
        return {k: unspell_env(v) for k, v in pairs.items()}
    return [unspell_env(v) for v in value] if type(value) in COLLECTIONS else value


class _VeiledText(str):
    """A string from the environment: usable as it is, but hidden when shown."""

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


def veiled(shown: Any, value: Any) -> Any:
    """`value` with the parts that `shown` takes from the environment hidden when shown."""
    kind = cast("type[Any]", type(value))
    if isinstance(shown, Reference):
        kept: Any = {str: _VeiledText, int: _VeiledInt}.get(kind)
        return kept(value, repr(shown)) if kept else value
    if type(shown) is not kind or kind not in (dict, list, tuple) or len(shown) != len(value):
        return value
    if isinstance(shown, dict):
        before = cast("dict[Any, Any]", shown)
        return {k: veiled(before.get(k), v) for k, v in value.items()}
    items: list[Any] = [veiled(s, v) for s, v in zip(shown, value, strict=True)]
    return items if kind is list else tuple(items)


def short(value: object) -> str:
    """A value as errors show it."""
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"
