"""Create a model from values, and describe everything that is wrong with them.

No error shows a value that comes from the environment or from a secrets provider.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from servo.errors import Invalid
from servo.sdk.assets.annotations import name_of
from servo.sdk.resources.references import env_vars_in, is_model, short

M = TypeVar("M", bound=BaseModel)


def validated(model_type: type[M], values: dict[str, Any], where: str, *, named: Any = None) -> M:
    """The model of these values; `Invalid` describes everything that is wrong with them.

    Values that `named` takes from the environment are shown as the names of their variables.
    """
    try:
        return model_type(**values)
    except ValidationError as error:
        details = error.errors(include_url=False)
    # Raised outside the handler: Pydantic's error contains the values, and would be the context.
    known: Mapping[str, Any] = named.__servo_values__() if is_model(named) else {}
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
        # Not the validator's message, which may quote the value.
        return f"{_place(model_type, path)} rejects the value of {secret}"
    told = detail["msg"].removeprefix("Value error, ")
    if not path:
        return told
    told = told[:1].lower() + told[1:]
    told = told.replace("input should be", "should be", 1)
    return f"the field {path} is {short(detail['input'])}, but {told}"


def _place(model_type: type[BaseModel], path: str) -> str:
    if not path:
        return f"a check of {model_type.__name__}"
    field = model_type.model_fields.get(path)
    return f"the field {path}" + (f" ({name_of(field.annotation)})" if field else "")


def _secret(loc: tuple[Any, ...], named: Mapping[str, Any]) -> str | None:
    """The variables behind a field; those of the whole model if the error names an alias."""
    known = bool(loc) and loc[0] in named
    behind = env_vars_in(named[loc[0]] if known else dict(named))
    return ", ".join(repr(variable) for variable in behind) or None


def _meant(model_type: type[BaseModel], loc: tuple[Any, ...]) -> str:
    known = _model_at(model_type, loc[:-1]).model_fields
    close = get_close_matches(str(loc[-1]), list(known), n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def _model_at(model_type: type[BaseModel], loc: tuple[Any, ...]) -> type[BaseModel]:
    """The nested model at a location."""
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
        f"{name}: {name_of(field.annotation)}"
        + ("" if field.is_required() else f" = {short(field.get_default())}")
        for name, field in model_type.model_fields.items()
    ]
    return f"the fields are {', '.join(fields)}" if fields else "leave it out: there are no fields"
