"""Run keys that people choose, and who is on record for what they asked for."""

from pathlib import Path
from textwrap import dedent

import pytest

from servo.testing.command_line import asked, servo
from servo.workspace.identity import this_process

CODE = """
    from servo import asset

    @asset
    def orders() -> int:
        return 1

    @asset(deps=[orders])
    def total() -> int:
        return 2
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "assets.py").write_text(dedent(CODE))
    return tmp_path


@pytest.mark.slow
def test_a_request_that_is_repeated_under_its_key_creates_nothing(folder: Path) -> None:
    first = servo(folder, "materialize", "assets.py", "orders", "--run-key", "january")
    assert first.returncode == 0, first.stderr
    again = servo(folder, "materialize", "assets.py", "orders", "--run-key", "january")
    assert again.returncode == 0, again.stderr
    (run,) = asked(folder, "run", "list")["items"]
    assert f"{run['run_id']} was already requested with --run-key january" in again.stderr
    assert "no new run was created" in again.stderr
    other = servo(folder, "materialize", "assets.py", "total", "--run-key", "january")
    assert other.returncode != 0
    assert "the run key 'january' belongs to another request" in other.stderr
    assert "use another run key" in other.stderr
    assert len(asked(folder, "run", "list")["items"]) == 1


@pytest.mark.slow
def test_a_run_shows_who_asked_for_it_and_what_led_to_it(folder: Path) -> None:
    assert servo(folder, "materialize", "assets.py", "orders").returncode == 0
    (first,) = asked(folder, "run", "list")["items"]
    assert (first["requested_by"], first["request_text"]) == (this_process(), "orders")
    assert first["asset_selection"] == ["orders"]
    assert first["source"] == {"kind": "manual", "user_id": this_process()}
    done = servo(folder, "run", "retry", first["run_id"], "--all")
    assert done.returncode == 0, done.stderr
    again = next(r for r in asked(folder, "run", "list")["items"] if r["parent_run_id"])
    assert again["correlation"] == first["correlation"] == first["request_position"]
    steps = asked(folder, "run", "show", again["run_id"])["caused_by"]
    assert [step["position"] for step in steps] == [
        again["request_position"],
        first["request_position"],
    ]
    shown = " ".join(servo(folder, "run", "show", again["run_id"]).stdout.split())
    assert f"requested by {this_process()} (event {again['request_position']})" in shown
    cause = f"caused by: {first['run_id']} was requested: orders, by {this_process()} (event"
    assert cause in shown
    why = " ".join(servo(folder, "why", again["run_id"]).stdout.split())
    assert f"event {first['request_position']}" in why
