"""The public names: all there, and loaded only when they are used."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import servo

RECORDER = Path(__file__).parents[1] / "golden" / "record_public_names.py"

HEAVY = ("pydantic", "pyarrow", "duckdb", "polars", "pandas", "rich", "obstore")


@pytest.mark.parametrize("name", servo.__all__)
def test_a_public_name_can_be_loaded(name: str) -> None:
    assert getattr(servo, name) is not None
    assert name in dir(servo)


def test_another_name_is_told_as_python_does() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(servo, "nothing")  # noqa: B009 - a type checker knows that there is none


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


def test_type_checkers_see_the_names_that_are_there() -> None:
    spec = importlib.util.spec_from_file_location("record_public_names", RECORDER)
    assert spec is not None
    assert spec.loader is not None
    recorder: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(recorder)
    assert recorder.FILE.read_text() == recorder.recorded(), f"run python {RECORDER}"


@pytest.mark.slow
def test_a_type_checker_resolves_the_names_of_an_installed_servo(tmp_path: Path) -> None:
    consumer = tmp_path / "consumer.py"
    consumer.write_text(
        "import servo\n"
        "from servo import AssetExecutionContext, checks\n"
        "@servo.asset\n"
        "def orders(context: AssetExecutionContext) -> int:\n"
        "    return 1\n"
        "kept = checks.row_count(orders, min=1)\n"
        "reveal_type(orders)\n"
        "servo.nothing\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, str(consumer)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert 'Type of "orders" is "AssetsDefinition"' in done.stdout
    assert '"nothing" is not a known attribute of module "servo"' in done.stdout
    assert set(re.findall(r":(\d+):\d+ - (?:error|warning)", done.stdout)) == {"8"}
