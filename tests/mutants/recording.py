"""A plugin of pytest that records which test runs which line, and how long each test takes.

Coverage is started by the interpreter (`COVERAGE_PROCESS_START`), here and in every process that a
test starts. In this process each test is a context of its own. A process that a test starts takes
the name of that test from the variable in which pytest leaves it.
"""

import json
import os
from collections.abc import Generator
from pathlib import Path

import pytest
from coverage import Coverage

TIMES = "SERVO_MUTANTS_TIMES"
"""The variable that names the file for the seconds of every test that passed."""
WORLD = "world "
"""The contexts of simulated worlds begin like this."""

_seconds: dict[str, float] = {}
_failed: set[str] = set()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Count the lines that run from here on for this test."""
    measuring = Coverage.current()
    if measuring is not None:
        measuring.switch_context(item.nodeid)
    try:
        return (yield)
    finally:
        if measuring is not None:
            measuring.switch_context("")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write down how long a test took once it has passed, in the process that reports."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    name = report.nodeid
    _seconds[name] = _seconds.get(name, 0.0) + report.duration
    if not report.passed:
        _failed.add(name)
    if report.when == "teardown" and name not in _failed:
        with Path(os.environ[TIMES]).open("a") as times:
            _ = times.write(json.dumps([name, round(_seconds[name], 3)]) + "\n")
