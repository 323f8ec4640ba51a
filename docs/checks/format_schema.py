"""`docs/reference/schema.json`: the storage format for programs, generated from the code.

`python docs/build.py --write` writes it; the check fails if the file differs from the code, or the
pages of the reference from the file. The file is a JSON Schema with everything that is JSON in
`$defs`, and three lists beside it that say where things are stored:

    objects     every kind of object: its key, whether it is sealed, its content
    events      every event: its kind, its version, its content
    tables      every table: its key, and its columns with types, defaults and allowed values
"""

import json
from collections.abc import Callable, Iterator
from enum import StrEnum
from types import NoneType, UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

import msgspec
from checks.markdown import Docs, plain
from checks.types import column_types

from servo.core import manifest
from servo.core.events.assets import AssetDefinition
from servo.core.events.envelope import Batch, Entry
from servo.core.events.registry import EVENTS, KnownEvent
from servo.core.fold.limits import FOLD_VERSION
from servo.core.manifest import Manifest
from servo.core.plan import Chunk
from servo.core.state.tables import TABLES, Residency, TableSpec
from servo.execution.outputs.store import Marker
from servo.leader.leases.lease import Lease
from servo.ledger import segment
from servo.ledger.paths import DOMAIN, MARKER
from servo.projection.files.schema import Column, columns, schema
from servo.projection.files.segment import KeyIndex
from servo.projection.upkeep.pins import Pin

PAGE = "reference/schema.json"
REF = "#/$defs/{name}"

_Json = dict[str, Any]


def written() -> str:
    """The file as it has to be."""
    return json.dumps(_format(), indent=1, ensure_ascii=False, sort_keys=False) + "\n"


def format_schema(docs: Docs) -> Iterator[str]:
    """The file is that of the code, and the pages describe what it holds."""
    path = docs.root / "docs" / PAGE
    held = path.read_text() if path.exists() else ""
    if held != written():
        yield f"{PAGE} is not what the code says: run docs/build.py --write"
    if held:
        found = json.loads(held)
        yield from _described_events(docs, found)
        yield from _described_tables(docs, found)
        yield from _described_objects(docs, found)


# --- generating -----------------------------------------------------------------------------------


def _format() -> _Json:
    batch = _concrete(Batch, events=tuple[KnownEvent, ...])
    entry = _concrete(Entry, batches=tuple[batch, ...])
    stored = _objects(entry, batch)
    nested = {hint: None for spec in TABLES.values() for hint in _json_hints(spec).values()}
    kinds = [kind for _, _, kind in stored.values() if kind is not None]
    found, defs = msgspec.json.schema_components(
        [*kinds, *EVENTS.values(), *nested], ref_template=REF
    )
    schemas = dict(zip([*kinds, *EVENTS.values(), *nested], found, strict=True))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Servo storage format",
        "description": "What a workspace holds, generated from the code of Servo. Unknown fields, "
        "columns and tables are to be ignored, absent fields and columns have their defaults.",
        "versions": {
            "manifest": manifest.FORMAT,
            "archive": segment.FORMAT,
            "fold": FOLD_VERSION,
        },
        "objects": {
            name: {"key": key, "sealed": sealed} | _content(schemas.get(kind))
            for name, (key, sealed, kind) in stored.items()
        },
        "events": {name: _event(kind, schemas[kind]) for name, kind in sorted(EVENTS.items())},
        "tables": {name: _table(spec, schemas) for name, spec in TABLES.items()},
        "$defs": {name: _tidy(held) for name, held in sorted(defs.items())},
    }


def _objects(entry: type[Any], batch: type[Any]) -> dict[str, tuple[str, bool, Any]]:
    root = "{tenant}/{workspace}/"
    return {
        "ledger_entry": (f"{root}ledger/{DOMAIN}/{{seq:020d}}.json", True, entry),
        "archive_segment": (
            f"{root}ledger-archive/{DOMAIN}/{{first:020d}}-{{last:020d}}.ndjson.zst",
            False,
            segment.Header,
        ),
        "inbox_batch": (f"{root}inbox/{DOMAIN}/{{name}}.json", False, batch),
        "dead_letter": (f"{root}dead-letters/{DOMAIN}/{{sha256}}", False, None),
        "manifest": (f"{root}manifests/{DOMAIN}/{{v:020d}}.json", True, Manifest),
        "state_file": (f"{root}state/{DOMAIN}/{{table}}/{{file}}.parquet", False, None),
        "key_index": (f"{root}state/{DOMAIN}/{{table}}/{{file}}.keys.json", False, KeyIndex),
        "plan": (f"{root}plans/{{sha256}}", False, Chunk),
        "partition_list": (f"{root}plans/{{sha256}}", False, tuple[str, ...]),
        "definitions": (f"{root}plans/{{sha256}}", False, tuple[AssetDefinition, ...]),
        "lease": (f"{root}leases/{DOMAIN}.json", False, Lease),
        "pin": (f"{root}pins/{DOMAIN}/{{name}}.json", False, Pin),
        "commit_marker": (f"{root}assets/{{asset}}/{{exec_id}}/{MARKER}", False, Marker),
    }


def _concrete(struct: type[Any], **types: Any) -> type[Any]:
    """A struct with the types that its fields have when they are stored."""
    hints = get_type_hints(struct, include_extras=True)
    fields: list[Any] = []
    for field in msgspec.structs.fields(struct):
        hint = types.get(field.name, hints[field.name])
        default = (
            {}
            if field.required
            else {"default": field.default}
            if field.default is not msgspec.NODEFAULT
            else {"default_factory": field.default_factory}
        )
        fields.append((field.name, hint, msgspec.field(**default, name=field.encode_name)))
    space = {"__doc__": struct.__doc__}
    return cast(
        "type[Any]", msgspec.defstruct(struct.__name__, fields, kw_only=True, namespace=space)
    )


def _content(held: _Json | None) -> _Json:
    return {} if held is None else {"content": held}


def _event(kind: Any, held: _Json) -> _Json:
    return {"kind": str(kind.KIND), "version": kind.VERSION, "content": held}


def _table(spec: TableSpec, schemas: dict[Any, _Json]) -> _Json:
    hints, public = _json_hints(spec), schema(spec.row, spec.key)
    every = {column.name: column for column in columns(spec.row)}
    types = column_types(spec)
    return {
        "key": list(spec.key),
        "residency": str(spec.residency),
        "stored": spec.residency is not Residency.VOLATILE,
        "columns": {
            field.name: {"type": types[field.name].rstrip("?"), "nullable": field.nullable}
            | _default(every.get(field.name))
            | _values(spec, field.name)
            | ({"content": schemas[hints[field.name]]} if field.name in hints else {})
            for field in public
        },
    }


def _default(column: Column | None) -> _Json:
    """What a file without the column means; none if every file must have it."""
    if column is None or column.required:
        return {}
    return {"default": msgspec.to_builtins(column.default)}


def _values(spec: TableSpec, name: str) -> _Json:
    """What a column may hold, if that is a closed set."""
    kind = _inner(get_type_hints(spec.row).get(name))
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return {"values": [member.value for member in kind]}
    return {}


def _json_hints(spec: TableSpec) -> dict[str, Any]:
    """The columns that hold JSON, and what is in them."""
    hints, types = get_type_hints(spec.row), column_types(spec)
    named = [name for name, kind in types.items() if kind.rstrip("?") == "json"]
    return {name: _inner(hints[name]) for name in named}


def _inner(hint: Any) -> Any:
    """A type without null; null is said by the column."""
    if get_origin(hint) not in (Union, UnionType):
        return hint
    members = [member for member in get_args(hint) if member is not NoneType]
    return members[0] if len(members) == 1 else hint


def _tidy(held: Any) -> Any:
    """Descriptions in one line: the indentation of the source says nothing."""
    if isinstance(held, list):
        return [_tidy(item) for item in cast("list[Any]", held)]
    if not isinstance(held, dict):
        return held
    found = {name: _tidy(item) for name, item in cast("_Json", held).items()}
    if isinstance(text := found.get("description"), str):
        found["description"] = " ".join(text.split())
    return found


# --- comparing with the pages ---------------------------------------------------------------------


def _described_events(docs: Docs, held: _Json) -> Iterator[str]:
    page = docs["reference/events.md"]
    for name, event in held["events"].items():
        said = {plain(row[0]): plain(row[2]) for row in page.section(name).rows()}
        yield from _same(f"{page.name}: {name}", _fields(held, event["content"]), said)


def _described_tables(docs: Docs, held: _Json) -> Iterator[str]:
    page = docs["reference/tables.md"]
    shared = {plain(row[0]): plain(row[1]) for row in page.section("Columns of every table").rows()}
    for name, table in held["tables"].items():
        said = shared | {plain(row[0]): plain(row[1]) for row in page.section(name).rows()}
        found = {
            column: f"{one['type']}{'?' * one['nullable']}"
            for column, one in table["columns"].items()
        }
        yield from _same(f"{page.name}: {name}", found, said)
    section = page.section("Absent columns")
    said = {
        column.strip(" `"): plain(row[1]) for row in section.rows() for column in row[0].split(",")
    }
    yield from _same(f"{page.name}: {section.title}", _unusual_defaults(held), said)


def _unusual_defaults(held: _Json) -> dict[str, str]:
    """The defaults of columns that are not null, and not the empty value of their type."""
    empty = {"string": "", "int64": 0, "bool": False, "list": [], "map": {}}
    return {
        f"{name}.{column}": default if isinstance(default, str) else _compact(default)
        for name, table in held["tables"].items()
        for column, one in table["columns"].items()
        if (default := one.get("default")) is not None and default != empty.get(one["type"])
    }


def _described_objects(docs: Docs, held: _Json) -> Iterator[str]:
    layout = docs["reference/layout.md"]
    for name, stored in held["objects"].items():
        folder = stored["key"].removeprefix("{tenant}/{workspace}/").partition("{")[0]
        if folder not in layout.text:
            yield f"{layout.name}: {name} lies under {folder}, which is not described"
    pages: dict[str, tuple[str, str, Callable[[list[str]], str]]] = {
        "ledger_entry": ("reference/ledger.md", "Entries", _third),
        "inbox_batch": ("reference/ledger.md", "Batches", _third),
        "manifest": ("reference/manifest.md", "Fields", _third),
    }
    for name, (where, title, of) in pages.items():
        said = {plain(row[0]): of(row) for row in docs[where].section(title).rows()}
        found = _fields(held, held["objects"][name]["content"])
        yield from _same(f"docs/{where}: {title}", found, said)


def _third(row: list[str]) -> str:
    return plain(row[2])


def _fields(held: _Json, content: _Json) -> dict[str, str]:
    """The fields of an object and what their absence means, as the pages write it."""
    body = held["$defs"][content["$ref"].rpartition("/")[2]]
    required = body.get("required", ())
    return {
        name: "required" if name in required else _compact(field["default"])
        for name, field in body["properties"].items()
        if name not in ("type", "v") or "enum" not in body["properties"].get("type", {})
    }


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _same(where: str, found: dict[str, str], said: dict[str, str]) -> Iterator[str]:
    for name in dict.fromkeys([*found, *said]):
        if found.get(name) != said.get(name):
            yield f"{where}: {name} is {found.get(name)} in {PAGE} and {said.get(name)} on the page"
