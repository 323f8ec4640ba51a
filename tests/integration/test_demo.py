"""`servo demo` does what it tells: real processes, killed for real."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from servo.cli.demo.processes import DemoProcess
from servo.cli.demo.shop import write_shop
from servo.cli.main import run
from servo.errors import Conflict
from servo.ledger.paths import Paths
from servo.projection.read.reader import Reader
from servo.projection.read.sql import query
from servo.storage.from_url import store_from_url
from servo.workspace.system import SystemClock

ROOT = Path(__file__).parents[2]
TASKS = 9


def played(capsys: pytest.CaptureFixture[str]) -> str:
    code = run(["demo", "shop"])
    told = capsys.readouterr()
    assert code == 0, told.out + told.err
    return told.out


def asked(folder: Path, sql: str) -> list[tuple[Any, ...]]:
    store = store_from_url(str(folder / "shop" / ".servo"), clock=SystemClock())
    return query(Reader(store, Paths("default", "default")).snapshot(), sql).rows


@pytest.mark.slow
def test_the_demo_kills_and_recovers_and_keeps_bad_data_out_and_can_be_played_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    told = played(capsys)
    assert "kill -9 everything else" in told
    assert "payment 9 is -40.0" in told
    assert max(map(len, told.splitlines())) <= 80
    runs = asked(tmp_path, "select state, tasks_succeeded from runs")
    assert runs == [("SUCCEEDED", TASKS)] * 2
    lost = asked(tmp_path, "select sum(infra_losses) > 0, max(attempt) < 4 from tasks")
    assert lost == [(True, True)]
    once = asked(
        tmp_path,
        "select count(*) = count(distinct (run_id, asset_key)) from materializations",
    )
    assert once == [(True,)], "something that was finished was done again"
    latest = asked(
        tmp_path,
        "select m.row_count, m.promoted from assets a join materializations m "
        "on m.materialization_id = a.last_materialization_id where a.asset_key = 'payments'",
    )
    assert latest == [(8, True)]
    again = played(capsys)
    assert "payment 9 is -40.0" in again
    assert asked(tmp_path, "select count(*) from runs where state = 'SUCCEEDED'") == [(4,)]


def test_a_demo_whose_command_is_refused_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "duckdb.py").write_text("raise ImportError('not today')\n")
    assert run(["demo", "shop"]) == 6
    told = capsys.readouterr()
    assert "not today" in told.out
    assert "`servo materialize` exited with 2" in told.err


def test_a_project_that_somebody_changed_is_not_written_over(tmp_path: Path) -> None:
    write_shop(tmp_path)
    write_shop(tmp_path)
    code = tmp_path / "assets.py"
    code.write_text(code.read_text() + "\nmine = 1\n")
    with pytest.raises(Conflict, match="choose another folder"):
        write_shop(tmp_path)
    assert code.read_text().endswith("mine = 1\n")


def test_the_workers_of_a_process_are_found_and_end_with_it(tmp_path: Path) -> None:
    (tmp_path / "assets.py").write_text(
        "import time\nfrom servo import asset\n\n@asset\ndef slow() -> None:\n    time.sleep(60)\n"
    )
    running = DemoProcess(tmp_path, "materialize", "--workers", "2")
    try:
        workers: list[int] = []
        while len(workers) < 2 and not running.ended:
            workers = running.workers()
        assert not running.ended
    finally:
        running.kill()
    assert running.ended
    deadline = SystemClock().monotonic() + 20
    while any(alive(pid) for pid in workers):
        assert SystemClock().monotonic() < deadline, "a worker outlives its leader"


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and that nobody waited for does not."""
    stat = Path(f"/proc/{pid}/stat")
    if stat.parent.parent.joinpath("self").exists():
        return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
def test_a_wheel_holds_the_shop_and_the_schema(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        held = packed.read("servo/cli/shop/assets.py")
        assert "servo/cli/shop/data/payments.csv" in packed.namelist()
        schema = packed.read("servo/schema.json")
    assert schema == (ROOT / "docs/reference/schema.json").read_bytes()
    assert held == (ROOT / "examples/shop/assets.py").read_bytes()
