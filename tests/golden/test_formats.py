"""Nobody changes what is stored without saying since which version of the format it is so."""

import json
from pathlib import Path

import pytest

from servo.core.events.registry import EVENTS
from servo.core.format import FORMAT, RELEASES
from tests.golden.record_formats import HERE, recorded

REMEDY = (
    "events have changed: raise FORMAT in core/format.py and set SINCE of these events to it, or, "
    "if that version is not released, run tests/golden/record_formats.py"
)


@pytest.mark.parametrize("file", sorted(HERE.glob("*.json")), ids=lambda file: file.stem)
def test_the_events_of_a_version_have_the_fields_that_were_recorded(file: Path) -> None:
    known, now = json.loads(file.read_text()), recorded(int(file.stem))
    changed = {name: fields for name, fields in now.items() if known.get(name) != fields}
    assert not changed, REMEDY
    moved = {name for name in known if name not in now}
    assert all(name in EVENTS for name in moved), "an event that was ever stored stays readable"


def test_every_version_up_to_the_present_is_recorded_and_has_a_release() -> None:
    versions = set(range(1, FORMAT + 1))
    assert {int(file.stem) for file in HERE.glob("*.json")} == versions
    assert set(RELEASES) == versions
    assert {event.SINCE for event in EVENTS.values()} <= versions
