"""Record which events and fields the current version of the stored format has.

    python tests/golden/record_formats.py

As long as the version is not released, an event may be changed and recorded anew. Afterwards its
record stays as it is: a change raises `FORMAT`, and `SINCE` of every event that has changed.
"""

import json
from pathlib import Path

import msgspec

from servo.core.events.registry import EVENTS
from servo.core.format import FORMAT

HERE = Path(__file__).parent / "formats"


def recorded(version: int) -> dict[str, list[str]]:
    """The events that have had their present fields since a version."""
    return {
        name: sorted(field.encode_name for field in msgspec.structs.fields(event))
        for name, event in sorted(EVENTS.items())
        if version == event.SINCE
    }


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    _ = (HERE / f"{FORMAT}.json").write_text(json.dumps(recorded(FORMAT), indent=1) + "\n")
