"""The command line as a newcomer meets it: an empty folder, one file, and mistakes."""

import signal
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from servo.cli.hosts import AT_ONCE
from servo.testing.command_line import asked, listed, queried, servo
from servo.testing.eventually import eventually

LIMIT = 60


@pytest.mark.slow
def test_a_new_project_runs_as_it_is(tmp_path: Path) -> None:
    assert servo(tmp_path, "init").returncode == 0
    done = servo(tmp_path, "materialize")
    assert (done.returncode, done.stderr) == (0, ""), done
    assert "SUCCEEDED" in done.stdout
    assert "2 succeeded" in done.stdout
    assert "orders   61 B" in done.stdout
    assert "revenue  1 B" in done.stdout
    (run,) = listed(tmp_path, "run", "list")
    shown = asked(tmp_path, "run", "show", run["run_id"][:12])
    assert {task["asset_key"] for task in shown["tasks"]} == {"orders", "revenue"}
    assert servo(tmp_path, "init").returncode == 4
    assert servo(tmp_path, "asset", "wipe", "revenue", "--yes").returncode == 0
    assert servo(tmp_path, "resume").stdout == "nothing to resume: every run has finished\n"


@pytest.mark.slow
def test_a_part_can_be_chosen_and_a_plan_be_seen_first(tmp_path: Path) -> None:
    assert servo(tmp_path, "init").returncode == 0
    plan = asked(tmp_path, "materialize", "--dry-run")
    assert [task["asset_key"] for task in plan["tasks"]] == ["orders", "revenue"]
    assert not (tmp_path / ".servo").exists()
    made = asked(tmp_path, "materialize", "assets.py", "orders")
    assert [task["asset_key"] for task in made["tasks"]] == ["orders"]
    wrong = servo(tmp_path, "materialize", "assets.py", "order")
    assert (wrong.returncode, "orders" in wrong.stderr) == (2, True), wrong
    both = asked(tmp_path, "materialize", "assets.py", "orders+")
    assert len(both["tasks"]) == 2


def test_the_status_says_what_fails_and_what_was_never_made(tmp_path: Path) -> None:
    code = """
        from servo import asset

        @asset
        def good(): ...

        @asset
        def bad(good):
            raise ValueError

        @asset
        def below(bad): ...
        """
    (tmp_path / "assets.py").write_text(dedent(code))
    assert servo(tmp_path, "materialize").returncode == 1
    told = asked(tmp_path, "status")
    assert (told["assets"], told["failing"], told["missing"]) == (3, ["bad"], ["bad", "below"])
    assert (told["runs"], told["open_runs"]) == ({"FAILED": 1}, [])
    shown = servo(tmp_path, "status").stdout
    assert "failing: bad" in shown
    assert "FAILED" in shown


@pytest.mark.slow
def test_configuration_and_tags_reach_the_asset(tmp_path: Path) -> None:
    code = """
        from servo import AssetExecutionContext, Config, asset

        class Window(Config):
            days: int

        @asset
        def report(context: AssetExecutionContext, config: Window):
            print(f"{config.days} days for {context.get_tag('team')}")
        """
    (tmp_path / "assets.py").write_text(dedent(code))
    config = '{"ops": {"report": {"config": {"days": 3}}}}'
    done = servo(tmp_path, "materialize", "--config", config, "--tag", "team=sales")
    assert done.returncode == 0, done
    assert servo(tmp_path, "logs").stdout == "3 days for sales\n"
    (tmp_path / "run.json").write_text(config.replace("3", '"x"'))
    wrong = servo(tmp_path, "materialize", "--config", "run.json")
    assert (wrong.returncode, "days" in wrong.stdout) == (1, True), wrong
    assert servo(tmp_path, "materialize", "--config", "{").returncode == 2
    assert servo(tmp_path, "materialize", "--config", "nowhere.json").returncode == 3
    assert servo(tmp_path, "materialize", "--tag", "team").returncode == 2


def test_a_run_that_fails_says_what_failed_and_exits_with_1(tmp_path: Path) -> None:
    code = """
        from servo import asset

        @asset
        def broken():
            return 1 / 0

        @asset
        def odd():
            raise ValueError("[/] [red]no markup[/red]")
        """
    (tmp_path / "assets.py").write_text(dedent(code))
    done = servo(tmp_path, "materialize")
    assert done.returncode == 1
    assert "broken: ZeroDivisionError: division by zero" in done.stdout
    assert "odd: ValueError: [/] [red]no markup[/red]" in done.stdout
    (run,) = listed(tmp_path, "run", "list")
    assert f"`servo run retry {run['run_id']}`" in done.stderr
    assert "[red]no markup[/red]" in servo(tmp_path, "run", "show", run["run_id"]).stdout


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import nowhere_to_be_found", "nowhere_to_be_found"),
        ("def f(:", "SyntaxError"),
        ("x = 1", "defines no assets"),
        ("@asset\ndef a(b): ...", "takes 'b', which is not an asset"),
        ("@asset\ndef a(): ...\n@asset(name='a')\ndef b(): ...", "defined twice"),
        ("@asset\ndef a(b): ...\n@asset\ndef b(a): ...", "a → b → a"),
        ("@asset(colour=1)\ndef a(): ...", "no option colour"),
        ("1 / 0", "ZeroDivisionError"),
    ],
)
@pytest.mark.parametrize("command", ["check", "materialize"])
def test_wrong_code_is_told_with_its_place(
    tmp_path: Path, command: str, code: str, told: str
) -> None:
    (tmp_path / "assets.py").write_text(f"from servo import asset\n{code}\n")
    done = servo(tmp_path, command)
    assert done.returncode == 2, done
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert "assets" in done.stderr
    assert not (tmp_path / ".servo").exists()


def test_an_empty_folder_is_told_what_to_do(tmp_path: Path) -> None:
    done = servo(tmp_path, "materialize")
    assert done.returncode == 3
    assert "`servo init`" in done.stderr


@pytest.mark.slow
def test_what_failed_is_tried_again_and_what_succeeded_is_not(tmp_path: Path) -> None:
    code = """
        from pathlib import Path
        from servo import asset

        @asset
        def first():
            return 1

        @asset
        def second(first):
            assert Path("mended").exists()

        @asset
        def third(second): ...
        """
    (tmp_path / "assets.py").write_text(dedent(code))
    assert servo(tmp_path, "materialize", "--tag", "team=x").returncode == 1
    (failed,) = listed(tmp_path, "run", "list")
    (tmp_path / "mended").touch()
    again = asked(tmp_path, "run", "retry", failed["run_id"])
    assert {task["asset_key"] for task in again["tasks"]} == {"second", "third"}
    assert again["run"]["state"] == "SUCCEEDED"
    assert again["run"]["parent_run_id"] == failed["run_id"]
    assert again["run"]["labels"]["team"] == "x"
    nothing = servo(tmp_path, "run", "retry", again["run"]["run_id"])
    assert nothing.returncode == 4
    whole = asked(tmp_path, "run", "retry", failed["run_id"], "--all")
    assert whole["run"]["tasks_succeeded"] == 3
    some = asked(tmp_path, "run", "retry", failed["run_id"], "--select", "first+1")
    assert {task["asset_key"] for task in some["tasks"]} == {"first", "second"}
    strange = servo(tmp_path, "run", "retry", again["run"]["run_id"], "--select", "first")
    assert strange.returncode == 3
    assert "has no task for first" in strange.stderr


@pytest.mark.slow
def test_a_run_that_has_ended_cannot_be_stopped(tmp_path: Path) -> None:
    assert servo(tmp_path, "init").returncode == 0
    assert servo(tmp_path, "materialize").returncode == 0
    (run,) = listed(tmp_path, "run", "list")
    assert servo(tmp_path, "run", "cancel", run["run_id"]).returncode == 4
    assert servo(tmp_path, "run", "cancel", "run_nothing").returncode == 3


@pytest.mark.slow
def test_what_is_held_back_is_listed_and_decided(tmp_path: Path) -> None:
    code = """
        from servo import asset, asset_check

        @asset(quarantine=True)
        def orders():
            return -1

        @asset_check(asset=orders, blocking=True)
        def positive(orders):
            return orders > 0
        """
    (tmp_path / "assets.py").write_text(dedent(code))
    for _ in range(2):
        assert servo(tmp_path, "materialize").returncode == 0
    newer, older = listed(tmp_path, "quarantine", "list")
    assert servo(tmp_path, "quarantine", "approve", "nothing").returncode == 3
    approve = ("quarantine", "approve", newer["materialization_id"], "--reason", "looked at it")
    assert servo(tmp_path, *approve).returncode == 0
    assert servo(tmp_path, "quarantine", "reject", older["materialization_id"]).returncode == 0
    assert servo(tmp_path, "materialize", "assets.py").returncode == 0
    (left,) = listed(tmp_path, "quarantine", "list")
    assert left["materialization_id"] not in {
        newer["materialization_id"],
        older["materialization_id"],
    }
    (row,) = queried(tmp_path, "select last_materialization_id from assets")
    assert row["last_materialization_id"] == newer["materialization_id"]


def last_words(process: "subprocess.Popen[str]") -> str:
    """What a process says until it ends, which it must do soon."""
    try:
        return process.communicate(timeout=LIMIT)[1]
    finally:
        process.kill()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_says_so_once_and_is_resumed(
    tmp_path: Path, how: signal.Signals
) -> None:
    code = """
        import time
        from pathlib import Path
        from servo import asset

        @asset
        def slow():
            Path("began").touch()
            time.sleep(0 if Path("go").exists() else 60)
        """
    (tmp_path / "assets.py").write_text(dedent(code))
    command = [sys.executable, "-m", "servo.cli.main", "materialize"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as running:
        eventually((tmp_path / "began").exists)
        running.send_signal(how)
        told = last_words(running)
    assert running.returncode == 130
    assert told == "error: interrupted; continue with `servo resume`\n"
    (tmp_path / "go").touch()
    (resumed,) = asked(tmp_path, "resume")["items"]
    assert resumed["run"]["state"] == "SUCCEEDED"


@pytest.mark.slow
def test_a_second_ctrl_c_says_what_became_of_the_run_and_how_to_go_on(tmp_path: Path) -> None:
    code = """
        import time
        from pathlib import Path
        from servo import asset

        @asset
        def stubborn():
            while True:
                try:
                    Path("began").touch()
                    while not Path("go").exists():
                        time.sleep(0.05)
                    return
                except BaseException:
                    Path("asked").touch()
        """
    (tmp_path / "assets.py").write_text(dedent(code))
    command = [sys.executable, "-m", "servo", "materialize"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as running:
        for seen in ("began", "asked"):
            eventually((tmp_path / seen).exists)
            running.send_signal(signal.SIGINT)
        told = last_words(running)
    assert running.returncode == 130
    assert told == f"error: {AT_ONCE}\n"
    (tmp_path / "go").touch()
    (resumed,) = asked(tmp_path, "resume")["items"]
    assert resumed["run"]["state"] == "SUCCEEDED"


def test_a_typo_in_a_file_name_is_recognised(tmp_path: Path) -> None:
    (tmp_path / "assets.py").write_text("from servo import asset")
    wrong = servo(tmp_path, "materialize", "asset.py")
    assert wrong.stderr == "error: there is no file asset.py; did you mean assets.py?\n"


def test_a_subfolder_is_told_where_the_store_is(tmp_path: Path) -> None:
    (tmp_path / ".servo").mkdir()
    below = tmp_path / "notebooks" / "old"
    below.mkdir(parents=True)
    told = servo(below, "status")
    assert told.returncode == 3
    assert f"{tmp_path / '.servo'} is one: run the command in {tmp_path}" in told.stderr


@pytest.mark.parametrize("typed", ["orders:2026-01-01", "orders[2026-01-01]"])
def test_a_partition_in_a_selection_is_told_its_option(tmp_path: Path, typed: str) -> None:
    (tmp_path / "assets.py").write_text("import servo\n\n@servo.asset\ndef orders(): ...\n")
    told = servo(tmp_path, "materialize", typed)
    assert (told.returncode, "name a partition with --partition" in told.stderr) == (2, True), told


def test_a_command_that_is_looked_for_in_a_group_is_named(tmp_path: Path) -> None:
    told = servo(tmp_path, "asset", "list")
    assert (told.returncode, "Did you mean 'servo list'?" in told.stderr) == (2, True), told


@pytest.mark.slow
def test_the_status_names_unfinished_and_paused_backfills(tmp_path: Path) -> None:
    code = """
        import servo

        @servo.asset(partitions_def=servo.StaticPartitionsDefinition(["a", "b"]))
        def letters(): ...
        """
    (tmp_path / "assets.py").write_text(dedent(code))
    first, paused = (
        asked(tmp_path, "backfill", "create", "letters", "--partition", key)["backfill_id"]
        for key in "ab"
    )
    assert servo(tmp_path, "backfill", "pause", paused).returncode == 0
    told = asked(tmp_path, "status")
    assert (told["open_backfills"], told["paused_backfills"]) == ([first], [paused])
    shown = servo(tmp_path, "status").stdout
    assert "not finished: 1 backfill; continue with `servo resume`\n" in shown
    assert f"paused: backfill {paused}\n" in shown


def test_an_asset_whose_input_is_missing_says_what_to_materialize(tmp_path: Path) -> None:
    assert servo(tmp_path, "init").returncode == 0
    failed = servo(tmp_path, "materialize", "revenue")
    assert "materialize orders first, or select +revenue" in failed.stdout
    shown = asked(tmp_path, "run", "show")
    assert (shown["run"]["state"], shown["run"]["asset_selection"]) == ("FAILED", ["revenue"])
