"""The public names: all there, and loaded only when they are used."""

import subprocess
import sys

import pytest

import servo

HEAVY = ("pydantic", "pyarrow", "duckdb", "polars", "pandas", "rich", "obstore")


@pytest.mark.parametrize("name", servo.__all__)
def test_a_public_name_can_be_loaded(name: str) -> None:
    assert getattr(servo, name) is not None
    assert name in dir(servo)


def test_another_name_is_told_as_python_does() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = servo.nothing


@pytest.mark.parametrize("code", ["import servo", "from servo.cli.main import run; run(['-V'])"])
def test_the_first_import_loads_nothing_heavy(code: str) -> None:
    check = f"{code}; import sys; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_an_asset_does_not_need_the_worker() -> None:
    check = "import sys; from servo import asset; print('servo.leader' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_ready_made_checks_are_there_without_an_import_of_their_own() -> None:
    check = "import servo; print(servo.checks.row_count.__name__); from servo import *; checks.sql"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout == "row_count\n"
