"""`python -m tests.storm --signals 1000 [--seed N] [--s3]`: a storm, and what came of it."""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from servo.testing.seaweed import ACCESS_KEY, SECRET_KEY, Seaweed
from tests.storm.storm import Storm


def main() -> int:
    """1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="storm", description=__doc__)
    _ = parser.add_argument("--signals", type=int, default=1000)
    _ = parser.add_argument("--seed", type=int, default=1)
    _ = parser.add_argument("--s3", action="store_true", help="on a bucket instead of a folder")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="storm-"))
    print(f"{folder}, seed {options.seed}", file=sys.stderr)
    began = time.monotonic()
    with Storm(folder, str(folder / "store"), options.seed) as storm:
        storm.rage(options.signals, lambda words: print(words, file=sys.stderr, flush=True))
        broken = storm.judge()
    report = {
        "seconds": round(time.monotonic() - began),
        "signals": dict(sorted(storm.signals.items())),
        "commands": dict(sorted(storm.ends.items())),
        "settled_after": round(storm.waited, 1),
        "broken": len(broken),
    }
    print(json.dumps(report, indent=1))
    for words in broken:
        print(words)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
