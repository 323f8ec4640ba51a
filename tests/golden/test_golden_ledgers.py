"""Recorded ledgers fold to recorded tables, with today's code."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import msgspec
import pytest

from servo.core.events.codec import decode_entry
from servo.core.events.registry import EVENTS
from servo.core.state.tables import TABLES


def _recorder() -> Any:
    spec = spec_from_file_location("recorder", Path(__file__).with_name("record_ledgers.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Added columns that entries of old say something about all the same.
TOLD_LATER = {
    ("assets", "code_changed_at"),
    ("assets", "wiped_seq"),
    ("assets", "data_changed_seq"),
    ("partition_status", "data_changed_seq"),
    ("partition_status", "last_observed_at"),
    ("dynamic_partitions", "number"),
    ("ledger_index", "first_index"),
    ("idempotency_keys", "first_index"),
    ("parked_batches", "first_index"),
    ("materializations", "created_index"),
    *(
        (table, column)
        for table in ("runs", "backfills", "schedule_ticks", "sensor_evals", "sensor_messages")
        for column in ("request_position", "correlation", "cause")
    ),
}
LATER = {"partition_sets"}
"""Tables that did not exist when the ledgers were recorded."""

RECORDER = _recorder()
LEDGERS: list[Path] = sorted(RECORDER.FOLDER.glob("*.ndjson"))


@pytest.mark.parametrize("ledger", LEDGERS, ids=lambda path: path.stem)
def test_a_recorded_ledger_folds_to_its_recorded_tables(ledger: Path) -> None:
    state = RECORDER.fold(ledger.read_bytes().splitlines())
    expected = msgspec.json.decode(ledger.with_suffix(".tables.json").read_bytes())
    found = msgspec.json.decode(msgspec.json.encode(RECORDER.tables(state)))
    assert _as_recorded(found, expected) == expected


def _as_recorded(found: dict[str, list[Any]], expected: dict[str, list[Any]]) -> dict[str, Any]:
    """The tables without columns that were added later: old entries leave them at their default."""
    return {
        name: [_columns(name, row, old) for row, old in zip(rows, expected[name], strict=True)]
        for name, rows in found.items()
        if name in expected or name not in LATER
    }


def _columns(table: str, row: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    fields = {field.name: field for field in msgspec.structs.fields(TABLES[table].row)}
    for name in row.keys() - old.keys():
        if (table, name) in TOLD_LATER:
            continue
        default = fields[name].default
        empty = default if default is not msgspec.NODEFAULT else fields[name].default_factory()
        assert row[name] == msgspec.json.decode(msgspec.json.encode(empty)), f"{table}.{name}"
    return {name: row[name] for name in old if name in row}


def test_every_story_has_been_recorded() -> None:
    assert {path.stem for path in LEDGERS} >= set(RECORDER.STORIES)


def test_most_kinds_of_event_are_in_some_recorded_ledger() -> None:
    recorded = {
        type(event).__name__
        for ledger in LEDGERS
        for line in ledger.read_bytes().splitlines()
        for batch in decode_entry(line, what="a recorded entry")[0].batches
        for event in batch.events
    }
    assert len(recorded) >= len(EVENTS) * 2 // 3, sorted(set(EVENTS) - recorded)
