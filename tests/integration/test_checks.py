"""Checks in real worker processes: held back, let out, run alone, and stopped when they hang."""

import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from servo.testing.command_line import asked, listed, queried, servo

LIMIT = 60

CODE = """
    import time
    from pathlib import Path
    from servo import AssetCheckSeverity, asset, asset_check, checks

    def setting(name):
        path = Path(name)
        return path.read_text().strip() if path.exists() else ""

    @asset(check_policy="quarantine")
    def orders():
        return [{"id": 1, "amount": int(setting("amount") or 5)}]

    @asset
    def report(orders):
        print("made from", orders[0]["amount"])
        return orders[0]["amount"]

    orders_checks = [
        checks.sql(orders, "select count(*) = 0 from orders where amount < 0", blocking=True),
        checks.not_null(orders, "id"),
    ]

    @asset_check(asset=report, timeout=0.2, severity="WARN")
    def hangs(report):
        while setting("hang"):
            time.sleep(0.01)
        return True
    """


def results(folder: Path, run: str) -> list[tuple[str, str, bool, str]]:
    told = queried(folder, "select * from check_results order by task_key, check_name")
    mine = [row for row in told if row["run_id"] == run]
    return [(r["task_key"], r["check_name"], r["passed"], r["message"]) for r in mine]


def value(folder: Path, key: str) -> Any:
    code = f"import servo; print(servo.load_asset({key!r}))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.mark.slow
def test_bad_data_is_held_back_until_somebody_lets_it_through(tmp_path: Path) -> None:
    (tmp_path / "assets.py").write_text(dedent(CODE))
    assert servo(tmp_path, "materialize").returncode == 0
    (tmp_path / "amount").write_text("-7")
    assert servo(tmp_path, "materialize").returncode == 0
    assert value(tmp_path, "report") == "5"
    (held,) = listed(tmp_path, "quarantine", "list")
    assert held["asset_key"] == "orders"
    approved = servo(tmp_path, "quarantine", "approve", held["materialization_id"])
    assert approved.returncode == 0, approved.stderr
    assert approved.stdout.endswith(" of orders: it is the latest now.\n")
    done = servo(tmp_path, "materialize", "assets.py", "report")
    assert done.returncode == 0, done.stderr
    assert value(tmp_path, "report") == "-7"


@pytest.mark.slow
def test_checks_run_alone_and_again(tmp_path: Path) -> None:
    (tmp_path / "assets.py").write_text(dedent(CODE))
    made = asked(tmp_path, "materialize")
    assert [row[:3] for row in results(tmp_path, made["run"]["run_id"])] == [
        ("orders:materialize", "not_null_id", True),
        ("orders:materialize", "sql", True),
        ("report:materialize", "hangs", True),
    ]
    plan = asked(tmp_path, "materialize", "assets.py", "orders", "--checks-only", "--dry-run")
    assert [task["asset_key"] for task in plan["tasks"]] == ["orders"]
    alone = asked(tmp_path, "materialize", "assets.py", "orders", "--checks-only")
    run = alone["run"]["run_id"]
    assert [row[:3] for row in results(tmp_path, run)] == [
        ("orders:check", "not_null_id", True),
        ("orders:check", "sql", True),
    ]
    again = asked(tmp_path, "run", "retry", run, "--all")
    assert [task["task_key"] for task in again["tasks"]] == ["orders:check"]
    (counted,) = queried(tmp_path, "select count(*) as n from materializations")
    assert counted == {"n": 2}


@pytest.mark.slow
def test_a_check_that_hangs_is_stopped_and_the_worker_goes_on(tmp_path: Path) -> None:
    (tmp_path / "assets.py").write_text(dedent(CODE))
    (tmp_path / "hang").write_text("yes")
    made = asked(tmp_path, "materialize")
    assert made["run"]["state"] == "SUCCEEDED"
    (late,) = [r for r in results(tmp_path, made["run"]["run_id"]) if r[1] == "hangs"]
    assert late == ("report:materialize", "hangs", False, "the check took longer than 0.2 s")


def test_nothing_to_check_is_told(tmp_path: Path) -> None:
    (tmp_path / "assets.py").write_text("from servo import asset\n\n@asset\ndef a(): ...\n")
    done = servo(tmp_path, "materialize", "--checks-only")
    assert (done.returncode, "have no checks" in done.stderr) == (3, True), done
