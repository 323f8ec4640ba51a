"""Configuration without importing Pydantic, for processes that have none.

Pydantic takes 10 MB of every process and a tenth of a second to import. A Pydantic model can only
exist in a process that has imported Pydantic, so as long as it is not imported, no parameter type,
schema or value is a model. Models themselves are handled in `servo.sdk.resources.config`.
"""

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any, cast

from servo.errors import Invalid
from servo.sdk.resources.environment import environment
from servo.sdk.resources.references import resolve_env, short


def is_pydantic(value: Any) -> bool:
    """Whether a value is any Pydantic model."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(value, pydantic.BaseModel)


def build_config(
    model_type: Any, values: Any, *, where: str, environ: Mapping[str, str] | None = None
) -> Any:
    """`servo.sdk.resources.config.build_config`, imported only if there may be a model."""
    if "pydantic" in sys.modules:
        build = import_module("servo.sdk.resources.config").build_config
        return build(model_type, values, where=where, environ=environ)
    known = environment() if environ is None else environ
    return resolve_env(as_dict(values, where), known, where=where)


def schema_model(schema: Any, where: str) -> Any:
    """`servo.sdk.resources.config.schema_model`, imported only if there is a schema."""
    return (
        None
        if schema is None
        else import_module("servo.sdk.resources.config").schema_model(schema, where)
    )


def as_dict(values: Any, where: str) -> dict[str, Any]:
    """The fields of a configuration as a dict, in whatever form they were given."""
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
