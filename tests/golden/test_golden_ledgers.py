"""Recorded ledgers fold to recorded tables, with today's code."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import msgspec
import pytest

from servo.core.events.codec import decode_entry
from servo.core.events.registry import EVENTS


def _recorder() -> Any:
    spec = spec_from_file_location("recorder", Path(__file__).with_name("record_ledgers.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RECORDER = _recorder()
LEDGERS: list[Path] = sorted(RECORDER.FOLDER.glob("*.ndjson"))


@pytest.mark.parametrize("ledger", LEDGERS, ids=lambda path: path.stem)
def test_a_recorded_ledger_folds_to_its_recorded_tables(ledger: Path) -> None:
    state = RECORDER.fold(ledger.read_bytes().splitlines())
    expected = msgspec.json.decode(ledger.with_suffix(".tables.json").read_bytes())
    found = msgspec.json.decode(msgspec.json.encode(RECORDER.tables(state)))
    assert found == expected


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
