"""What is reported of an execution, without the secrets that it came to know.

Everything a person wrote or an error said is looked through; names and addresses that Servo made
are left as they are. What an asset's function returns is data and not looked at.
"""

import json
from typing import Any, cast

import msgspec

from servo.errors import Corrupt
from servo.leader.assignments import TaskResult
from servo.sdk.metadata.entries import decode_metadata
from servo.sdk.resources.redaction import STARS, Redaction

# Names and addresses that Servo made, or that stand in the user's definitions.
_KEPT = frozenset(
    {
        "exec_id",
        "materialization_id",
        "uri",
        "format",
        "schema_hash",
        "content_hash",
        "code",
        "types",
        "name",
        "asset_key",
        "check_name",
        "code_version",
    }
)


def redacted(done: TaskResult, hidden: Redaction) -> TaskResult:
    """How an execution ended, without what is to be hidden."""
    return cast("TaskResult", _clean(done, hidden)) if hidden else done


def _clean(value: Any, hidden: Redaction) -> Any:
    if type(value) is str:
        return hidden.text(value)
    if isinstance(value, msgspec.Struct):
        return _clean_struct(value, hidden)
    if type(value) is tuple:
        return tuple(_clean(item, hidden) for item in cast("tuple[Any, ...]", value))
    if type(value) is dict:
        pairs = cast("dict[Any, Any]", value).items()
        return {_clean(name, hidden): _clean(item, hidden) for name, item in pairs}
    return value


def _clean_struct(value: msgspec.Struct, hidden: Redaction) -> msgspec.Struct:
    changes: dict[str, Any] = {}
    for name in value.__struct_fields__:
        before = getattr(value, name)
        if name in _KEPT:
            continue
        after = _metadata(before, hidden) if name == "metadata" else _clean(before, hidden)
        if after != before:
            changes[name] = after
    return msgspec.structs.replace(value, **changes) if changes else value


def _metadata(stored: Any, hidden: Redaction) -> Any:
    """Stored metadata, which stays what readers can read."""
    if type(stored) is not str or not stored:
        return _clean(stored, hidden)
    items: dict[str, Any] = json.loads(stored)
    cleaned = {hidden.text(name): _item(item, hidden) for name, item in items.items()}
    if cleaned == items:
        return stored
    return json.dumps(cleaned, separators=(",", ":"))


def _item(item: Any, hidden: Redaction) -> Any:
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
