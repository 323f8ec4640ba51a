"""Redaction of structs: every text in them without secret values.

All texts are redacted, in whatever a struct holds, unless a rule says otherwise. So a field that is
added later is redacted too. Rules name the fields that are kept as they are, because they identify
something, and those that are redacted in a way of their own, so that readers can still read them.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, TypeVar, cast

import msgspec

from servo.errors import Corrupt
from servo.sdk.metadata.entries import decode_metadata
from servo.sdk.resources.redaction import STARS, Redaction

T = TypeVar("T")

Treatment = Callable[[Any, Redaction], Any]
Rules = Mapping[type[Any], Mapping[str, Treatment]]
"""How the fields of structs are treated that are not simply redacted."""


def keep(value: Any, hidden: Redaction) -> Any:
    """Keep a field as it is."""
    del hidden
    return value


def kept(*names: str) -> dict[str, Treatment]:
    """Rules that keep these fields."""
    return dict.fromkeys(names, keep)


def redact(value: T, hidden: Redaction, rules: Rules) -> T:
    """The value with every text in it redacted."""
    return cast("T", _Redacting(hidden, rules).clean(value)) if hidden else value


class _Redacting:
    def __init__(self, hidden: Redaction, rules: Rules) -> None:
        self._hidden = hidden
        self._rules = rules

    def clean(self, value: Any) -> Any:
        if isinstance(value, str):
            return value if isinstance(value, Enum) else self._hidden.text(value)
        if isinstance(value, msgspec.Struct):
            return self._struct(value)
        if isinstance(value, Mapping):
            pairs = cast("Mapping[Any, Any]", value).items()
            return {self.clean(name): self.clean(item) for name, item in pairs}
        if isinstance(value, bytes):
            return self._hidden.data(value)
        if isinstance(value, tuple | list | set | frozenset):
            kind = cast("type[list[Any]]", type(cast("object", value)))
            return kind([self.clean(item) for item in cast("Iterable[Any]", value)])
        return value

    def _struct(self, value: msgspec.Struct) -> msgspec.Struct:
        own = self._rules.get(type(value), {})
        changes: dict[str, Any] = {}
        for name in value.__struct_fields__:
            treatment = own.get(name)
            if treatment is keep:
                continue
            before = getattr(value, name)
            after = treatment(before, self._hidden) if treatment else self.clean(before)
            if after != before:
                changes[name] = after
        return msgspec.structs.replace(value, **changes) if changes else value


# --- fields that are redacted in a way of their own -----------------------------------------------


def redact_values(given: Mapping[str, str], hidden: Redaction) -> dict[str, str]:
    """Texts by name, where the names are kept."""
    return {name: hidden.text(text) for name, text in given.items()}


def redact_tags(own: Iterable[str]) -> Treatment:
    """Tags; those that Servo itself reads, which are its `own`, are kept."""
    names = frozenset(own)

    def treated(given: Mapping[str, str], hidden: Redaction) -> dict[str, str]:
        return {
            **{hidden.text(n): hidden.text(text) for n, text in given.items() if n not in names},
            **{n: text for n, text in given.items() if n in names},
        }

    return treated


def redact_metadata(stored: Any, hidden: Redaction) -> Any:
    """Stored metadata, which stays readable for `decode_metadata`."""
    if not stored:
        return stored
    items: dict[str, Any] = json.loads(stored)
    cleaned = {hidden.text(name): _entry(item, hidden) for name, item in items.items()}
    if cleaned == items:
        return stored
    return json.dumps(cleaned, separators=(",", ":"))


def _entry(item: Any, hidden: Redaction) -> Any:
    cleaned = _json(item, hidden)
    try:
        _ = decode_metadata(json.dumps({"": cleaned}))
    except Corrupt:  # a number, or an asset's key
        return {"type": "text", "value": STARS}
    return cleaned


def _json(value: Any, hidden: Redaction) -> Any:
    if isinstance(value, str):
        return hidden.text(value)
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        return {hidden.text(name): _json(item, hidden) for name, item in pairs}
    if isinstance(value, list):
        return [_json(item, hidden) for item in cast("list[Any]", value)]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return STARS if number and hidden.is_hidden(value) else value
