"""A reader of workspaces that knows the documented format and nothing of Servo.

It is written from `docs/reference` and takes types, keys and defaults from `schema.json`. It uses
the standard library, and pyarrow for Parquet and zstd. It does not fold: it verifies the ledger and
the manifests, and reads the tables that are published.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from io import BytesIO
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

# It ships no types.
arrow: Any = pa
parquet: Any = pq

Json = dict[str, Any]
Objects = Mapping[str, bytes]

LEDGER = "ledger/orchestration/"
ARCHIVE = "ledger-archive/orchestration/"
MANIFESTS = "manifests/orchestration/"


class Unreadable(Exception):
    """The store is not what the reference says."""


def require(holds: bool, what: str) -> None:
    if not holds:
        raise Unreadable(what)


# --- sealed objects -------------------------------------------------------------------------------


def unseal(data: bytes, what: str) -> tuple[Json, str]:
    """The body of a sealed object and its hash: reference/ledger.md, Sealed objects."""
    prefix, middle = b'{"sha256":"', b'","body":'
    body = data[len(prefix) + 64 + len(middle) : -1]
    digest = sha256(body).hexdigest()
    require(data == prefix + digest.encode() + middle + body + b"}", f"{what} is damaged")
    return json.loads(body), digest


# --- the ledger -----------------------------------------------------------------------------------


def entries(objects: Objects, root: str) -> list[Json]:
    """Every entry, hot or archived, in order: reference/ledger.md, Reading forward."""
    stored = dict(_archived(objects, root + ARCHIVE))
    for key, data in objects.items():
        if key.startswith(root + LEDGER):
            _ = stored.setdefault(int(key[-25:-5]), data)
    found: list[Json] = []
    before, epoch, time = "", 0, ""
    for seq in range(1, len(stored) + 1):
        require(seq in stored, f"entry {seq} is missing")
        entry, digest = unseal(stored[seq], f"entry {seq}")
        require((entry["seq"], entry["prev_hash"]) == (seq, before), f"entry {seq} is unchained")
        entry["dead"] = entry["epoch"] < epoch
        if not entry["dead"]:
            require(instant(entry["ts"]) > instant(time), f"entry {seq} is too early")
            epoch, time = entry["epoch"], entry["ts"]
        entry["hash"], before = digest, digest
        found.append(entry)
    return found


def _archived(objects: Objects, prefix: str) -> Iterator[tuple[int, bytes]]:
    """The stored entries of all segments: reference/ledger.md, The archive."""
    for key, data in objects.items():
        if not key.startswith(prefix):
            continue
        length = int.from_bytes(data[4:8], "little")
        require(data[:4] == bytes.fromhex("502a4d18"), f"{key} has no header")
        header, _ = unseal(data[8 : 8 + length], key)
        frame = data[8 + length :]
        require(sha256(frame).hexdigest() == header["sha256"], f"{key} is damaged")
        lines: bytes = arrow.Codec("zstd").decompress(frame, header["size"], asbytes=True)
        yield from enumerate(lines.splitlines(), start=header["first"])


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text) if text else datetime(1970, 1, 1, tzinfo=UTC)


# --- the manifest ---------------------------------------------------------------------------------


def newest_manifest(objects: Objects, root: str) -> Json:
    """The newest version; all of them must be one chain: reference/manifest.md, Invariants."""
    keys = sorted(key for key in objects if key.startswith(root + MANIFESTS))
    found: Json = {}
    before = ""
    for number, key in enumerate(keys, start=1):
        body, digest = unseal(objects[key], key)
        require((body["v"], body.get("prev_hash", "")) == (number, before), f"{key} is unchained")
        require(not found or body["identity"] == found["identity"], f"{key} has another identity")
        found, before = body, digest
    require(bool(found), "nothing is published")
    return found


# --- the tables -----------------------------------------------------------------------------------


def tables(objects: Objects, manifest: Json, schema: Json) -> dict[str, list[Json]]:
    """The rows of every table, in the order of their keys."""
    found = {
        name: _rows(objects, held["files"], schema["tables"][name])
        for name, held in manifest.get("tables", {}).items()
        if name in schema["tables"]
    }
    if "partition_status" in found:
        _wipe(found["partition_status"], found.get("assets", []))
    return {name: rows for name, rows in found.items() if rows}


def _rows(objects: Objects, files: list[Json], table: Json) -> list[Json]:
    """Which version of a row counts: reference/manifest.md."""
    best: dict[tuple[Any, ...], tuple[Any, Json | None]] = {}
    for file in files:
        data = objects[file["key"]]
        require(len(data) == file["size"], f"{file['key']} has another size")
        require(sha256(data).hexdigest() == file["sha256"], f"{file['key']} is damaged")
        held: list[Json] = parquet.ParquetFile(BytesIO(data)).read().to_pylist()
        keys = [tuple(row[column] for column in table["key"]) for row in held]
        require(keys == sorted(set(keys)), f"{file['key']} is not sorted")
        require((list(keys[0]), list(keys[-1])) == (file["min_key"], file["max_key"]), "range")
        require(len(held) == file["rows"], f"{file['key']} has other rows")
        for key, row in zip(keys, held, strict=True):
            deleted = row.get("_deleted", False)
            rank = (row["row_version"], file["tier"] == "closed", deleted)
            if key not in best or rank >= best[key][0]:
                best[key] = rank, None if deleted else _plain(row, table["columns"])
    return [row for _, (_, row) in sorted(best.items()) if row is not None]


def _plain(row: Json, columns: Json) -> Json:
    """A row as JSON values; absent and null columns have their defaults."""
    found: Json = {}
    for name, column in columns.items():
        if name in ("tenant_id", "workspace_id"):
            continue
        value = row.get(name)
        if value is None:
            require(column["nullable"] or "default" in column, f"{name} is null")
            found[name] = column.get("default")
        elif column["type"] == "timestamp":
            found[name] = value.isoformat().replace("+00:00", "Z")
        elif column["type"] == "map":
            found[name] = dict(value)
        elif column["type"] == "json":
            found[name] = json.loads(value)
        else:
            found[name] = value
    return found


WIPED: Json = {
    "last_materialization_id": None,
    "last_materialization_run_id": None,
    "last_materialization_at": None,
    "last_materialization_seq": None,
    "last_materialization_code_version": None,
    "stale_since": None,
    "stale_reason_code": None,
    "last_output_uri": "",
    "last_content_hash": "",
    "last_data_version": "",
}


def _wipe(partitions: list[Json], assets: list[Json]) -> None:
    """Partitions of assets that were wiped as a whole: reference/tables.md, partition_status."""
    wiped = {row["asset_key"]: row["wiped_seq"] for row in assets}
    for row in partitions:
        seq = wiped.get(row["asset_key"], 0)
        if row["row_version"] < seq:
            row.update(WIPED, latest_floor=seq, row_version=seq)


# --- JSON against the schema ----------------------------------------------------------------------


def check(value: Any, schema: Json, whole: Json, where: str) -> None:
    """A value has the form that a schema says; only the words that `schema.json` uses."""
    if "$ref" in schema:
        return check(value, whole["$defs"][schema["$ref"].rpartition("/")[2]], whole, where)
    if "anyOf" in schema:
        return _check_any(value, schema, whole, where)
    if "enum" in schema:
        return require(value in schema["enum"], f"{where}: {value!r} is not one of the values")
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
    kind = schema.get("type")
    if kind == "null":
        return require(value is None, f"{where} is not null")
    if kind in kinds:
        require(isinstance(value, kinds[kind]), f"{where} is no {kind}")
    for name, held, inner in _inside(value, schema, where):
        check(held, inner, whole, f"{where}.{name}")
    return None


def _inside(value: Any, schema: Json, where: str) -> Iterator[tuple[str, Any, Json]]:
    """The values inside a value, and the schemas that they must have."""
    if schema.get("type") == "array" and "items" in schema:
        for place, held in enumerate(value):
            yield str(place), held, schema["items"]
    if schema.get("type") == "object":
        for name in schema.get("required", ()):
            require(name in value, f"{where} has no {name}")
        for name, held in value.items():
            inner = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
            if isinstance(inner, dict):
                yield name, held, inner


def _check_any(value: Any, schema: Json, whole: Json, where: str) -> None:
    named = schema.get("discriminator")
    if named is not None and isinstance(value, dict):
        tag = cast("Json", value).get(named["propertyName"])
        require(tag in named["mapping"], f"{where}: {tag!r} is not known")
        return check(value, {"$ref": named["mapping"][tag]}, whole, where)
    faults: list[str] = []
    for choice in schema["anyOf"]:
        try:
            return check(value, choice, whole, where)
        except Unreadable as fault:
            faults.append(str(fault))
    raise Unreadable(f"{where}: {faults}")
