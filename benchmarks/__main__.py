"""Measures Servo against the best that its machine can do.

    python -m benchmarks                     everything
    python -m benchmarks --only fold_events  one; may be given several times
    python -m benchmarks --quick             small sizes, to see that all of it still runs

Every result is one JSON object a line on standard output; a table for people goes to standard
error. Disks are measured where temporary files go: set TMPDIR to measure another.
"""

import argparse
import gc
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks import (
    backfilling,
    committing,
    conditions,
    executing,
    expanding,
    folding,
    messaging,
    million,
    partitions,
    processes,
    publishing,
    starting,
    takeovers,
    triggering,
)
from benchmarks.measure import Result
from benchmarks.scratch import Scratch


class Benchmark(Protocol):
    def __call__(self, scratch: Scratch, *, quick: bool) -> list[Result]: ...


BENCHMARKS: dict[str, Benchmark] = {
    "fold_events": folding.fold_events,
    "skip_chain": folding.skip_chain,
    "fan_in": folding.fan_in,
    "local_create": committing.local_create,
    "commit_latency": committing.commit_latency,
    "large_batch": committing.large_batch,
    "publish_flat": publishing.publish_flat,
    "cold_start": starting.cold_start,
    "leader_memory": starting.leader_memory,
    "killed_machine": takeovers.killed_machine,
    "many_partitions": partitions.many_partitions,
    "big_plan": expanding.big_plan,
    "chain": executing.chain,
    "fan_out": executing.fan_out,
    "layers": executing.layers,
    "automation_tick": conditions.automation_tick,
    "automation_start": conditions.automation_start,
    "backfill": backfilling.backfill,
    "million_partitions": million.million_partitions,
    "start_up": processes.start_up,
    "tree_memory": processes.tree_memory,
    "schedules_due": triggering.schedules_due,
    "idle_pass": triggering.idle_pass,
    "sensor_storm": messaging.sensor_storm,
}


WIDTH = 120


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options().parse_args(arguments)
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="servo-bench-") as folder:
        scratch = Scratch(Path(folder))
        for name in options.only or BENCHMARKS:
            _ = gc.collect()
            for result in BENCHMARKS[name](scratch, quick=options.quick):
                print(_line(result), flush=True)
                results.append(result)
    Console(stderr=True, width=None if sys.stderr.isatty() else WIDTH).print(_table(results))
    return 0


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", action="append", choices=list(BENCHMARKS), metavar="NAME")
    parser.add_argument("--quick", action="store_true")
    return parser


def _line(result: Result) -> str:
    """The result as JSON, with as many digits as mean anything."""
    values = {name: _rounded(value) for name, value in msgspec.structs.asdict(result).items()}
    return msgspec.json.encode(values).decode()


def _rounded(value: object) -> object:
    return float(f"{value:.4g}") if isinstance(value, float) else value


def _table(results: Sequence[Result]) -> Table:
    table = Table("benchmark", "value", "unit", "floor", "ratio", "by cpu", "best", "target", "met")
    for result in results:
        table.add_row(
            result.name,
            _shown(result.value),
            result.unit,
            _shown(result.floor),
            _shown(result.ratio),
            _shown(result.cpu),
            _shown(result.best),
            result.target,
            {None: "", True: "yes", False: "[bold red]no[/]"}[result.met],
        )
    return table


def _shown(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 1_000 else f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(main())
