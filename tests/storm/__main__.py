"""`python -m tests.storm --signals 1000 [--seed N] [--s3]`: a storm, and what came of it."""

import argparse
import json
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from servo.testing.seaweed import ACCESS_KEY, SECRET_KEY, seaweed
from servo.workspace.system import SystemClock
from tests.storm.judging import judge
from tests.storm.storm import Storm


def main() -> int:
    """1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="storm", description=__doc__)
    _ = parser.add_argument("--signals", type=int, default=1000)
    _ = parser.add_argument("--seed", type=int, default=1)
    _ = parser.add_argument("--s3", action="store_true", help="in a bucket instead of a folder")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="servo-storm-"))
    print(f"seed {options.seed}, in {folder}", file=sys.stderr)
    clock = SystemClock()
    began = clock.monotonic()
    with _storm(folder, options.seed, in_bucket=options.s3) as storm:
        storm.rage(options.signals, lambda words: print(words, file=sys.stderr, flush=True))
        broken = judge(storm)
    report = {
        "seconds": round(clock.monotonic() - began),
        "signals": {"all": storm.signals.total(), **dict(sorted(storm.signals.items()))},
        "commands": {"all": storm.ends.total(), **dict(sorted(storm.ends.items()))},
        "settled_after": round(storm.settled_after, 1),
        "broken": len(broken),
    }
    print(json.dumps(report, indent=1))
    print(*broken, sep="\n")
    return 1 if broken else 0


@contextmanager
def _storm(folder: Path, seed: int, *, in_bucket: bool) -> Generator[Storm]:
    if not in_bucket:
        with Storm(folder, str(folder / "store"), seed) as storm:
            yield storm
        return
    with seaweed() as server:
        _ = server.store("storm", clock=SystemClock()).put("made", b"")
        where = f"endpoint={server.endpoint}&region=us-east-1&allow_http=true"
        keys = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
        with Storm(folder, f"s3://storm/w?{where}", seed, **keys) as storm:
            yield storm


if __name__ == "__main__":
    sys.exit(main())
