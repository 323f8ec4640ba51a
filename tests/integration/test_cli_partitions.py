"""Partitions on the command line, with real worker processes."""

import signal
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from servo.testing.command_line import asked, listed, queried, servo
from servo.testing.eventually import eventually

CODE = """
    from pathlib import Path

    import servo

    days = servo.DailyPartitionsDefinition("2024-03-29", timezone="Europe/Berlin")
    hours = servo.HourlyPartitionsDefinition("2024-03-29-00:00", timezone="Europe/Berlin")
    customers = servo.DynamicPartitionsDefinition(name="customers")

    @servo.asset(partitions_def=hours)
    def events(context):
        return context.partition_key

    @servo.asset(partitions_def=days, code_version="1")
    def report(context, events):
        if Path("broken").exists() and context.partition_key == "2024-03-31":
            raise ValueError("no")
        print(context.partition_key, len(events))
        return len(events)

    @servo.asset_check(asset=report)
    def is_whole(report):
        return report == 24

    @servo.asset(partitions_def=days, backfill_policy=servo.BackfillPolicy.single_run())
    def table(context, report):
        print("together", list(report.items()))

    @servo.asset(partitions_def=customers)
    def letter(context):
        return f"dear {context.partition_key}"
    """


def project(folder: Path) -> Path:
    (folder / "assets.py").write_text(dedent(CODE))
    return folder


@pytest.mark.slow
def test_partitions_are_made_loaded_checked_and_told(tmp_path: Path) -> None:
    folder = project(tmp_path)
    between = ("--partition-range", "2024-03-30", "2024-03-31")
    done = servo(folder, "materialize", "assets.py", "events", "report", "table", *between)
    assert done.returncode == 0, done
    assert "50 succeeded" in done.stdout  # 24 and 23 hours, two days, and both of them together
    logs = servo(folder, "logs").stdout
    assert "2024-03-31 23\n" in logs  # the clocks went forward
    assert "together [('2024-03-30', 24), ('2024-03-31', 23)]\n" in logs
    counts = asked(folder, "partitions", "status", "table")
    assert (counts["materialized"], counts["stale_upstream_changed"]) == (2, 0)
    rows = queried(folder, "select partition_key k, passed p from check_results order by k")
    assert rows == [
        {"k": "partition=d:2024-03-30", "p": True},
        {"k": "partition=d:2024-03-31", "p": False},
    ]


@pytest.mark.slow
def test_what_failed_is_retried_by_its_partition_and_what_is_stale_is_told(tmp_path: Path) -> None:
    folder = project(tmp_path)
    between = ("--partition-range", "2024-03-30", "2024-03-31")
    (folder / "broken").touch()
    failed = servo(folder, "materialize", "assets.py", "events", "report", *between)
    assert failed.returncode == 1
    assert "report[2024-03-31]: ValueError: no" in failed.stdout
    found = listed(folder, "partitions", "list", "report")
    assert [(one["first"], one["status"], one["stale"]) for one in found[:3]] == [
        ("2024-03-29", "MISSING", "NEVER_MATERIALIZED"),
        ("2024-03-30", "MATERIALIZED", None),
        ("2024-03-31", "FAILED", "NEVER_MATERIALIZED"),
    ]
    (folder / "broken").unlink()
    (run,) = listed(folder, "run", "list")
    again = servo(folder, "run", "retry", run["run_id"])
    assert again.returncode == 0, again
    assert "1 succeeded" in again.stdout
    hour = ("--partition", "2024-03-31-05:00")
    assert servo(folder, "materialize", "assets.py", "events", *hour).returncode == 0
    stale = listed(folder, "partitions", "list", "report", "--status", "stale")
    assert [one["first"] for one in stale if one["stale"] == "UPSTREAM_CHANGED"] == ["2024-03-31"]
    code = (folder / "assets.py").read_text().replace('code_version="1"', 'code_version="2"')
    (folder / "assets.py").write_text(code)
    other = ("assets.py", "report", "--partition", "2024-03-30")
    assert servo(folder, "materialize", *other).returncode == 0
    counts = asked(folder, "partitions", "status", "report")
    assert (counts["stale_code_changed"], counts["stale_upstream_changed"]) == (1, 0)
    everywhere = listed(folder, "partitions", "stale", "--limit", "100")
    assert {one["asset_key"] for one in everywhere} == {"events", "report", "table"}
    (changed,) = [one for one in everywhere if one["reason"] == "CODE_CHANGED"]
    assert (changed["asset_key"], changed["first"]) == ("report", "2024-03-31")
    assert changed["since"] is not None
    told = servo(folder, "partitions", "stale", "--asset", "report").stdout
    (line,) = [line for line in told.splitlines() if "code changed" in line]
    assert line.split()[:2] == ["report", "2024-03-31"]


def test_adding_partitions_creates_the_workspace(tmp_path: Path) -> None:
    nowhere = servo(tmp_path, "partitions", "delete", "customers", "x")
    assert (nowhere.returncode, "there is no store" in nowhere.stderr) == (3, True)
    added = asked(tmp_path, "partitions", "add", "customers", "x")
    assert (added["added"], added["receipt"]["status"]) == (["x"], "applied")
    again = asked(tmp_path, "partitions", "add", "customers", "x", "y")
    assert again["added"] == ["y"]


@pytest.mark.slow
def test_dynamic_partitions_are_added_made_and_removed(tmp_path: Path) -> None:
    folder = project(tmp_path)
    make = ("materialize", "assets.py", "letter", "--partition", "acme & co")
    refused = servo(folder, *make)
    assert (refused.returncode, "letter has no partition 'acme & co'" in refused.stderr) == (
        3,
        True,
    )
    added = asked(folder, "partitions", "add", "customers", "acme & co", "b")
    assert (added["set_name"], added["added"]) == ("customers", ["acme & co", "b"])
    assert added["receipt"]["status"] == "applied"
    assert servo(folder, *make).returncode == 0
    found = asked(folder, "partitions", "list", "letter")
    assert [(one["first"], one["status"]) for one in found["items"]] == [
        ("acme & co", "MATERIALIZED"),
        ("b", "MISSING"),
    ]
    assert servo(folder, "partitions", "add", "customers", "a|b").returncode == 2
    assert servo(folder, "partitions", "delete", "customers", "nobody").returncode == 3
    assert servo(folder, "partitions", "delete", "customers", "acme & co").returncode == 0
    found = asked(folder, "partitions", "list", "letter")
    assert [one["first"] for one in found["items"]] == ["b"]
    assert found["outside"] == ["partition=s:YWNtZSAmIGNv"]
    assert (
        "1 partition no longer in the definition: acme & co"
        in servo(folder, "partitions", "list", "letter").stdout
    )


@pytest.mark.slow
def test_a_definition_that_was_changed_leaves_what_was_made_apart(tmp_path: Path) -> None:
    folder = project(tmp_path)
    make = ("materialize", "assets.py", "events", "--partition")
    assert servo(folder, *make, "2024-03-29-01:00").returncode == 0
    code = (folder / "assets.py").read_text()
    (folder / "assets.py").write_text(code.replace('"2024-03-29-00:00"', '"2024-03-31-00:00"'))
    assert servo(folder, *make, "2024-03-31-01:00").returncode == 0
    found = asked(folder, "partitions", "list", "events", "--limit", "2")
    assert [one["first"] for one in found["items"]] == [
        "2024-03-31-00:00",
        "2024-03-31-01:00",
    ]
    assert found["outside"] == ["partition=t:2024-03-29T00:00:00.000000Z"]
    gone = servo(folder, *make, "2024-03-29-01:00")
    assert (gone.returncode, "events has no partition" in gone.stderr) == (3, True)


def test_bad_partitions_are_told_with_a_remedy(tmp_path: Path) -> None:
    folder = project(tmp_path)
    for given, told in (
        ((), "no partition was given: events"),
        (("--partition", "2024-13-01"), "has no partition '2024-13-01'"),
        (("--partition-range", "2024-03-31", "2024-03-30"), "comes after '2024-03-30'"),
    ):
        done = servo(folder, "materialize", "assets.py", "events", "report", *given)
        assert (done.returncode in (2, 3), told in done.stderr) == (True, True), done
        assert "Traceback" not in done.stderr
    assert not (folder / ".servo").exists()


@pytest.mark.slow
def test_servo_dev_makes_partitions_that_another_terminal_asks_for(tmp_path: Path) -> None:
    folder = project(tmp_path)
    command = [sys.executable, "-m", "servo.cli.main", "dev", "assets.py", "--workers", "1"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=2) as dev:
        try:
            _until_there(folder / ".servo")
            make = ("materialize", "assets.py", "events", "--partition", "2024-03-31-05:00")
            done = servo(folder, *make)
            assert done.returncode == 0, done
            assert "events[2024-03-31T03:00:00Z]" in done.stdout
            added = asked(folder, "partitions", "add", "customers", "acme")
            assert added["added"] == ["acme"]
            made = servo(folder, "materialize", "assets.py", "letter", "--partition", "acme")
            assert made.returncode == 0, made
        finally:
            dev.send_signal(signal.SIGINT)
            assert dev.wait(30) is not None


def _until_there(path: Path) -> None:
    eventually(lambda: any(path.glob("**/manifests/**/*.json")))


@pytest.mark.slow
def test_the_data_of_all_partitions_is_one_table(tmp_path: Path) -> None:
    code = """
        import pyarrow as pa
        from servo import StaticPartitionsDefinition, asset

        LETTERS = StaticPartitionsDefinition(["b", "a", "c"])

        @asset(partitions_def=LETTERS)
        def rows(context):
            key = context.partition_key
            return pa.table({"n": [1, 2], **({"extra": ["x", "y"]} if key == "a" else {})})

        @asset(partitions_def=LETTERS)
        def mixed(context):
            return pa.table({"n": [1] if context.partition_key == "a" else ["one"]})

        @asset(partitions_def=LETTERS)
        def own(context):
            return pa.table({"_partition": [context.partition_key * 2]})
    """
    (tmp_path / "assets.py").write_text(dedent(code))
    for letter in "ab":
        done = servo(tmp_path, "materialize", "rows", "mixed", "own", "--partition", letter)
        assert done.returncode == 0, done.stderr
    found = queried(tmp_path, "select _partition, n, extra from data.rows")
    assert [(row["_partition"], row["n"], row["extra"]) for row in found] == [
        ("b", 1, None),
        ("b", 2, None),
        ("a", 1, "x"),
        ("a", 2, "y"),
    ], "in the order of the definition, and with what is not there left out"
    assert queried(tmp_path, "from data.own order by 1")[0] == {"_partition": "aa"}
    refused = servo(tmp_path, "sql", "from data.mixed")
    assert refused.returncode == 2
    assert "the partitions of mixed cannot be combined into one table" in refused.stderr
    assert "load_asset" in refused.stderr
