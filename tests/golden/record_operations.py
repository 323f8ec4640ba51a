"""Record the JSON Schema of every operation and of `--json` of every command.

    python tests/golden/record_operations.py

Look at the difference before you commit it. A parameter or a field that is added with a default
breaks nobody; one that is renamed, removed or gets another type breaks callers and scripts.
"""

from pathlib import Path

import msgspec

from servo.cli.json_results import RESULTS
from servo.operations.interface.catalog import schemas

FILE = Path(__file__).with_name("operations.json")


def recorded() -> bytes:
    """The schemas as they are stored."""
    data = msgspec.json.encode(schemas(RESULTS), order="sorted")
    return msgspec.json.format(data, indent=2) + b"\n"


if __name__ == "__main__":
    _ = FILE.write_bytes(recorded())
