"""The benchmarks still run and say what they should; never how fast anything is."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_quick_benchmark_prints_one_object_a_line_for_every_result() -> None:
    command = [sys.executable, "-m", "benchmarks", "--quick", "--only", "fold_events"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert [result["name"] for result in results] == [
        "fold_events.handed_over",
        "fold_events.queued",
    ]
    for result in results:
        assert result.keys() >= {"name", "value", "unit", "floor", "ratio", "target", "met"}
        assert result["unit"] == "events/s"
        assert result["value"] > 0
        assert isinstance(result["met"], bool)
    assert "fold_events.queued" in done.stderr


def test_an_unknown_benchmark_is_refused_with_the_names_of_those_there_are() -> None:
    command = [sys.executable, "-m", "benchmarks", "--only", "nothing"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert "'fold_events'" in done.stderr
