"""Configuration for those who may have none: nothing here imports Pydantic.

Pydantic takes 10 MB of every process and a tenth of a second to import. Whatever is one of its
models was made by somebody who imported it, so a process that has not has no models: no type of a
parameter, no schema and no value is one. What does concern a model is left to
`servo.sdk.resources.config`.
"""

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any, cast

from servo.errors import Invalid
from servo.sdk.resources.environment import environment
from servo.sdk.resources.references import resolve_env, short


def is_pydantic(value: Any) -> bool:
    """Whether a value is a model of Pydantic, anybody's."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(value, pydantic.BaseModel)


def build_config(
    model_type: Any, values: Any, *, where: str, environ: Mapping[str, str] | None = None
) -> Any:
    """`servo.sdk.resources.config.build_config`, which is asked if there may be a model."""
    if "pydantic" in sys.modules:
        build = import_module("servo.sdk.resources.config").build_config
        return build(model_type, values, where=where, environ=environ)
    known = environment() if environ is None else environ
    return resolve_env(as_dict(values, where), known, where=where)


def schema_model(schema: Any, where: str) -> Any:
    """`servo.sdk.resources.config.schema_model`, which is asked if there is a schema."""
    return (
        None
        if schema is None
        else import_module("servo.sdk.resources.config").schema_model(schema, where)
    )


def as_dict(values: Any, where: str) -> dict[str, Any]:
    """The fields of a configuration by name, however they were given."""
    if values is None:
        return {}
    if is_pydantic(values):
        return dict(values)
    if isinstance(values, Mapping):
        return dict(cast("Mapping[str, Any]", values))
    raise Invalid(
        f"{where}: the config is {short(values)}",
        remedy='pass the fields by name, like {"limit": 5}',
    )
