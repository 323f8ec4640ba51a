"""What mkdocstrings cannot see: generated constructors, and the members of closed sets.

It reads sources and does not run them, so it knows nothing of the constructors that msgspec and
Pydantic generate, and it leaves out members without a docstring. This griffe extension adds both.
"""

from collections.abc import Iterator
from typing import Any

import griffe

STRUCT, MODEL = "msgspec.Struct", "pydantic.BaseModel"
ENUMS = {"enum.Enum", "enum.StrEnum", "enum.IntEnum"}


class FieldSignatures(griffe.Extension):
    """Gives structs and models an `__init__` with their fields, and members of enums a line."""

    def on_package(self, *, pkg: griffe.Module, loader: Any, **kwargs: Any) -> None:
        """Look through a package once all of it is loaded, so that bases are known."""
        del loader, kwargs
        for cls in _classes(pkg):
            bases = _all_bases(cls)
            if "__init__" not in cls.members and not bases.isdisjoint({STRUCT, MODEL}):
                parameters = griffe.Parameters(*_parameters(cls))
                init = griffe.Function("__init__", parameters=parameters, parent=cls)
                cls.set_member("__init__", init)
            if not bases.isdisjoint(ENUMS):
                _describe_members(cls)


def _classes(module: griffe.Module) -> Iterator[griffe.Class]:
    for member in [*module.members.values()]:
        if isinstance(member, griffe.Module):
            yield from _classes(member)
        elif isinstance(member, griffe.Class):
            yield member


def _all_bases(cls: griffe.Class) -> set[str]:
    """The full names of everything it inherits from, also outside of this package."""
    found = {base if isinstance(base, str) else base.canonical_path for base in cls.bases}
    for base in cls.resolved_bases:
        if isinstance(base, griffe.Class):
            found |= _all_bases(base)
    return found


def _describe_members(cls: griffe.Class) -> None:
    for member in cls.members.values():
        if isinstance(member, griffe.Attribute) and member.docstring is None:
            member.docstring = griffe.Docstring(f"The value {member.value}.", parent=member)


def _parameters(cls: griffe.Class) -> Iterator[griffe.Parameter]:
    """The fields, inherited ones first; those without a default precede the others."""
    fields: dict[str, griffe.Attribute] = {}
    for ancestor in [*reversed(cls.mro()), cls]:
        fields |= {name: field for name, field in ancestor.members.items() if _is_field(field)}
    kinds = griffe.ParameterKind
    by_name = MODEL in _all_bases(cls) or str(cls.keywords.get("kw_only")) == "True"
    kind = kinds.keyword_only if by_name else kinds.positional_or_keyword
    for name, field in sorted(fields.items(), key=lambda item: item[1].value is not None):
        yield griffe.Parameter(name, annotation=field.annotation, kind=kind, default=field.value)


def _is_field(member: Any) -> bool:
    if not isinstance(member, griffe.Attribute) or member.name.startswith("_"):
        return False
    return member.annotation is not None and "ClassVar" not in str(member.annotation)
