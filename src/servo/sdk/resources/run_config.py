"""The run config: the configuration of the assets and resources of a run."""

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any, cast

from servo.errors import Invalid
from servo.sdk.option_kinds import by_name
from servo.sdk.resources.deferred_config import is_pydantic
from servo.sdk.resources.references import COLLECTIONS, spell_env

_SECTIONS = ("ops", "resources", "loggers", "execution")
_OP_KEYS = {"config", "inputs", "outputs", "ops"}


class RunConfig:
    """The configuration of a run: of its assets under `ops`, and of its resources.

        RunConfig(ops={"orders": OrdersConfig(limit=5)}, resources={"warehouse": {"url": "..."}})

    A value is a `Config`, its fields, or its fields under "config" as in a file. So a `Config`
    whose only field is called "config" has to be passed as a `Config`.
    """

    def __init__(
        self,
        ops: Mapping[str, Any] | None = None,
        resources: Mapping[str, Any] | None = None,
        loggers: Mapping[str, Any] | None = None,
        execution: Mapping[str, Any] | None = None,
    ) -> None:
        self.ops = by_name(ops, what="a run config: ops")
        self.resources = by_name(resources, what="a run config: resources")
        self.loggers = by_name(loggers, what="a run config: loggers")
        self.execution = by_name(execution, what="a run config: execution")

    @classmethod
    def of(cls, value: "RunConfig | Mapping[str, Any] | None") -> "RunConfig":
        """The run config, in whatever form it was given."""
        if isinstance(value, RunConfig):
            return value
        given: Any = value or {}
        if not isinstance(given, Mapping):
            raise Invalid(f"invalid run config {value!r}", remedy="use RunConfig(…), or a mapping")
        unknown = [name for name in value or {} if name not in _SECTIONS]
        if unknown:
            close = get_close_matches(unknown[0], _SECTIONS, n=1)
            raise Invalid(
                f"a run config has no section {unknown[0]!r}",
                remedy=f"did you mean {close[0]!r}?" if close else "use ops and resources",
            )
        return cls(**(value or {}))

    def to_config_dict(self) -> dict[str, Any]:
        """The run config as a plain dict; variables become {"env": "NAME"}."""
        return {
            "loggers": _plain(self.loggers),
            "resources": {name: _config_level(value) for name, value in self.resources.items()},
            "ops": {name: _config_level(value) for name, value in self.ops.items()},
            "execution": _plain(self.execution),
        }

    def for_op(self, *names: str) -> Any:
        """The configuration of an asset under one of its names, for `build_config`."""
        return next((_inside(self.ops[name]) for name in names if name in self.ops), None)

    def for_resources(self) -> dict[str, Any]:
        """The configuration of each resource, for `open_resources`."""
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
    if is_pydantic(value):
        return _dump_model(value)
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in cast("Mapping[Any, Any]", value).items()}
    return [_plain(v) for v in value] if type(value) in COLLECTIONS else spell_env(value)


def _dump_model(model: Any) -> dict[str, Any]:
    try:
        return model.model_dump(mode="json")
    except import_module("pydantic_core").PydanticSerializationError as error:
        told = str(error)
    raise Invalid(
        f"{type(model).__name__} cannot be sent with a run: {told}",
        remedy="use plain values: strings, numbers, lists and dicts",
    )
