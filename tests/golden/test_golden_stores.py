"""Recorded stores: Servo, its fold and a reader written from the documents find the same rows."""

import ast
import json
import sys
import zipfile
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import msgspec
import pytest

from servo.core.state.state import folded_tables
from servo.ledger.paths import Paths
from servo.projection.read.reader import Reader
from servo.projection.upkeep.compare import Dump, dump
from servo.projection.upkeep.rebuild import rebuild
from servo.projection.upkeep.verify import verify
from servo.storage.memory import MemoryStore
from servo.testing.builders import START
from servo.testing.clock import ManualClock
from servo.testing.dumps import dump_snapshot

HERE = Path(__file__).parent
SCHEMA = HERE.parents[1] / "docs" / "reference" / "schema.json"
ROOT = "acme/prod/"
PATHS = Paths("acme", "prod")


def _module(name: str) -> Any:
    spec = spec_from_file_location(name, HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


READER = _module("independent_reader")
STORES = sorted(path.stem for path in (HERE / "stores").glob("*.zip"))

UNSEEN = {
    "asset_freshness",
    "automation_evaluations",
    "automation_sensors",
    "automation_state",
    "freshness_changes",
    "quotas",
    "task_costs",
}
"""Tables without rows in any store; they are in the recorded ledgers."""

every_store = pytest.mark.parametrize("name", STORES)


@cache
def objects(name: str) -> dict[str, bytes]:
    with zipfile.ZipFile(HERE / "stores" / f"{name}.zip") as packed:
        return {key: packed.read(key) for key in packed.namelist()}


@cache
def expected(name: str) -> dict[str, Any]:
    return json.loads((HERE / "stores" / f"{name}.json").read_text())


def stored(name: str) -> MemoryStore:
    store = MemoryStore(ManualClock(START))
    for key, data in objects(name).items():
        _ = store.create(key, data)
    return store


def plain(rows: Dump) -> dict[str, Any]:
    return json.loads(msgspec.json.encode({name: held for name, held in rows.items() if held}))


# --- Servo ----------------------------------------------------------------------------------------


@every_store
def test_servo_reads_the_recorded_rows(name: str) -> None:
    snapshot = Reader(stored(name), PATHS).snapshot()
    assert snapshot.manifest.applied_seq == expected(name)["applied_seq"]
    assert plain(dump_snapshot(snapshot)) == expected(name)["rows"]


@every_store
def test_the_ledger_folds_to_the_recorded_rows(name: str) -> None:
    state = rebuild(stored(name), PATHS, from_genesis=True).state
    assert state.seq == expected(name)["entries"]
    assert plain(dump(state)) == expected(name)["rows"]


@every_store
def test_recorded_stores_are_sound(name: str) -> None:
    assert verify(stored(name), PATHS).problems == ()


def test_the_stores_hold_one_of_everything() -> None:
    manifests = [READER.newest_manifest(objects(name), ROOT) for name in STORES]
    files = [f for m in manifests for held in m["tables"].values() for f in held["files"]]
    assert {file["tier"] for file in files} == {"active", "closed"}
    assert {file["level"] for file in files} >= {0, 1}
    assert any(file.get("tombstones") for file in files)
    assert any("/ledger-archive/" in key for key in objects("tiers"))
    assert any(entry["dead"] for entry in READER.entries(objects("attempts"), ROOT))
    rows = {table for name in STORES for table in expected(name)["rows"]}
    unseen = set(folded_tables()) - rows
    assert unseen == UNSEEN
    reasons = {row["reason"] for name in STORES for row in expected(name)["rows"].get("tasks", [])}
    assert {"user_cancelled", "system_cancelled", "execution_failed"} <= reasons


def test_every_story_has_been_recorded() -> None:
    assert set(STORES) == set(_module("record_stores").STORIES)


# --- a reader that knows nothing of Servo ---------------------------------------------------------


def test_the_independent_reader_imports_nothing_of_servo() -> None:
    tree = ast.parse((HERE / "independent_reader.py").read_text())
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported - set(sys.stdlib_module_names) == {"pyarrow"}


@cache
def schema() -> dict[str, Any]:
    return json.loads(SCHEMA.read_text())


@every_store
def test_the_independent_reader_finds_the_recorded_rows(name: str) -> None:
    manifest = READER.newest_manifest(objects(name), ROOT)
    assert manifest["applied_seq"] == expected(name)["applied_seq"]
    assert READER.tables(objects(name), manifest, schema()) == expected(name)["rows"]


@every_store
def test_the_independent_reader_verifies_the_ledger(name: str) -> None:
    entries = READER.entries(objects(name), ROOT)
    manifest = READER.newest_manifest(objects(name), ROOT)
    assert len(entries) == expected(name)["entries"]
    assert entries[manifest["applied_seq"] - 1]["hash"] == manifest["last_hash"]
    assert not entries[0]["batches"], "a workspace begins with a fence"


@every_store
def test_every_batch_of_the_ledger_is_in_the_index(name: str) -> None:
    written = [
        (entry["seq"], number, [event["type"] for event in batch.get("events", [])])
        for entry in READER.entries(objects(name), ROOT)
        for number, batch in enumerate(entry["batches"])
        if not entry["dead"]
    ]
    index = {
        (row["seq"], row["batch_index"]): row["event_types"]
        for row in expected(name)["rows"].get("ledger_index", [])
    }
    assert [(seq, number, index.get((seq, number))) for seq, number, _ in written] == written


@every_store
def test_stored_objects_have_the_form_of_the_schema(name: str) -> None:
    kinds = {"ledger_entry": READER.LEDGER, "manifest": READER.MANIFESTS}
    for kind, prefix in kinds.items():
        content = schema()["objects"][kind]["content"]
        for key, data in objects(name).items():
            if key.startswith(ROOT + prefix):
                READER.check(READER.unseal(data, key)[0], content, schema(), key)


def test_the_schema_refuses_what_has_another_form() -> None:
    content = schema()["objects"]["ledger_entry"]["content"]
    key = next(key for key in objects("tiers") if key.startswith(ROOT + READER.LEDGER))
    body = READER.unseal(objects("tiers")[key], key)[0]
    without = {name: value for name, value in body.items() if name != "epoch"}
    with pytest.raises(READER.Unreadable, match="has no epoch"):
        READER.check(without, content, schema(), "entry")
    unknown = {**body, "batches": [{"id": "b", "events": [{"type": "Nothing"}]}]}
    with pytest.raises(READER.Unreadable, match="is not known"):
        READER.check(unknown, content, schema(), "entry")


@every_store
def test_the_independent_reader_notices_damage(name: str) -> None:
    key = next(key for key in objects(name) if key.endswith(".parquet"))
    damaged = {**objects(name), key: objects(name)[key][:-1] + b"?"}
    manifest = READER.newest_manifest(damaged, ROOT)
    files = [file for held in manifest["tables"].values() for file in held["files"]]
    if key in [file["key"] for file in files]:
        with pytest.raises(READER.Unreadable, match="is damaged"):
            _ = READER.tables(damaged, manifest, schema())
