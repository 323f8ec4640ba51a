"""What people get wrong about schedules, sensors and backfills: told with its remedy, or recorded.

None of it blocks the rest. What sensors do wrong while they are evaluated is in `test_sensors.py`.
"""

from pathlib import Path

import pytest

from servo.testing.command_line import Dev, asked, listed, queried, servo

HEAD = """
import time
from pathlib import Path
from servo import (
    DailyPartitionsDefinition, DefaultSensorStatus, DynamicPartitionsDefinition, RunRequest,
    ScheduleDefinition, SensorResult, StaticPartitionsDefinition, asset, schedule, sensor
)

@asset
def orders():
    return 1
"""


@pytest.mark.parametrize(
    ("code", "told", "remedy"),
    [
        (
            's = ScheduleDefinition(name="s", cron_schedule="61 * * * *", target="orders")',
            "'61 * * * *'",
            "write it like",
        ),
        (
            's = ScheduleDefinition(name="s", cron_schedule="@daily", target="orders",\n'
            '    execution_timezone="Mars/Olympus")',
            "there is no time zone 'Mars/Olympus'",
            "use an IANA name, such as",
        ),
        (
            's = ScheduleDefinition(name="s", cron_schedule="@daily", target="nothing")',
            "schedule s: ",
            "there is no asset nothing",
        ),
        (
            "@sensor(target='group:\"none\"')\ndef s(context): ...",
            "sensor s selects no executable asset",
            "change its target",
        ),
        (
            '@sensor(target="orders", timeout_seconds=0)\ndef s(context): ...',
            "timeout_seconds is 0",
            "pass a number of seconds greater than 0",
        ),
    ],
    ids=["invalid cron", "unknown zone", "unknown asset", "empty selection", "no time at all"],
)
def test_what_cannot_be_is_told_before_anything_is_deployed(
    tmp_path: Path, code: str, told: str, remedy: str
) -> None:
    (tmp_path / "assets.py").write_text(HEAD + code)
    done = servo(tmp_path, "tick")
    assert done.returncode != 0
    assert told in done.stderr
    assert remedy in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / ".servo" / "default").exists()


ODD = ["a b", "a,b", "a/b", "a=s:b", "ключ", "*", "-", "'", '"', "[x]", "~", "🙂"]


@pytest.mark.slow
def test_a_partition_key_may_have_nearly_any_character(tmp_path: Path) -> None:
    (tmp_path / "assets.py").write_text(
        HEAD
        + f"""
odd = StaticPartitionsDefinition({ODD!r})

@asset(partitions_def=odd)
def parts(context):
    return context.partition_key
"""
    )
    one = asked(tmp_path, *["backfill", "create", "assets.py", "parts", "--partition", "a,b"])
    assert one["partitions"] == 1
    done = servo(tmp_path, *["backfill", "create", "assets.py", "parts", "--all", "--wait"])
    assert done.returncode == 0, done.stdout + done.stderr
    name = done.stdout.split()[1].rstrip(":")
    states = asked(tmp_path, "backfill", "show", name)["partitions"]
    assert states == dict.fromkeys(ODD, "succeeded")
    again = servo(tmp_path, *["backfill", "create", "assets.py", "parts", "--missing", "--wait"])
    assert again.stdout == "Nothing to do: no partition is missing.\n", "each is known as made"


@pytest.mark.parametrize(
    ("key", "told"), [("..", "contains a relative path step"), ("%41", "contains '%'")]
)
def test_a_partition_key_that_would_be_mistaken_for_another_is_told(
    tmp_path: Path, key: str, told: str
) -> None:
    (tmp_path / "assets.py").write_text(HEAD + f"days = StaticPartitionsDefinition([{key!r}])")
    done = servo(tmp_path, "tick")
    assert done.returncode == 2
    assert f"partition value {key!r} {told}" in done.stderr


@pytest.mark.slow
def test_a_backfill_of_nothing_is_told_and_one_of_a_set_without_partitions_too(
    tmp_path: Path,
) -> None:
    (tmp_path / "assets.py").write_text(
        HEAD
        + """
@asset(partitions_def=StaticPartitionsDefinition(["a", "b"]))
def parts():
    return 1

@asset(partitions_def=DynamicPartitionsDefinition(name="places"))
def visits():
    return 1
"""
    )
    create = ["backfill", "create", "assets.py"]
    assert servo(tmp_path, *create, "parts", "--all", "--wait").returncode == 0
    again = servo(tmp_path, *create, "parts", "--missing", "--wait")
    assert again.returncode == 0, again.stderr
    assert again.stdout == "Nothing to do: no partition is missing.\n"
    none = servo(tmp_path, *create, "visits", "--all")
    assert none.returncode == 3
    assert "visits has no partitions at the moment" in none.stderr
    gone = servo(tmp_path, *create, "visits", "--partition", "rome")
    assert gone.returncode == 3
    assert "no partition 'rome'" in gone.stderr


DAYS = (
    HEAD
    + """
@asset(partitions_def=DailyPartitionsDefinition(start_date="2024-01-01", end_date="2024-01-11"))
def days(context):
    while context.partition_key > "2024-01-02" and Path("hold").exists():
        time.sleep(0.02)
    return context.partition_key
"""
)


@pytest.mark.slow
def test_definitions_that_are_edited_while_a_backfill_runs_hold_for_what_has_not_begun(
    tmp_path: Path,
) -> None:
    (tmp_path / "assets.py").write_text(DAYS)
    (tmp_path / "hold").touch()
    with Dev(tmp_path) as dev:
        dev.until(lambda: servo(tmp_path, "status").returncode == 0)
        create = "backfill create assets.py days --all --chunk-size 1 --concurrency 2"
        name = asked(tmp_path, *create.split())["backfill_id"]

        def shown() -> dict[str, int]:
            return asked(tmp_path, "backfill", "show", name)["backfill"]

        dev.until(lambda: shown()["planned_chunks"] == 4)
        (tmp_path / "assets.py").write_text(DAYS.replace("2024-01-11", "2024-01-08"))
        dev.until(lambda: "2024-01-09" not in servo(tmp_path, "partitions", "list", "days").stdout)
        (tmp_path / "hold").unlink()
        waited = servo(tmp_path, "backfill", "wait", name)
        assert waited.returncode == 1
        assert "7 succeeded, 3 failed of 10 partitions" in waited.stdout
        assert "2024-01-08" in waited.stdout
        assert asked(tmp_path, "materialize", "orders")["run"]["state"] == "SUCCEEDED"
        dev.stop()


@pytest.mark.slow
def test_another_way_of_dividing_an_asset_leaves_what_was_made_and_makes_what_is_missing(
    tmp_path: Path,
) -> None:
    (tmp_path / "assets.py").write_text(DAYS)
    create = ["backfill", "create", "assets.py", "days"]
    first = servo(tmp_path, *create, "--from", "2024-01-01", "--to", "2024-01-03", "--wait")
    assert first.returncode == 0, first.stderr
    (tmp_path / "assets.py").write_text(
        DAYS.replace(
            'DailyPartitionsDefinition(start_date="2024-01-01", end_date="2024-01-11")',
            'StaticPartitionsDefinition(["2024-01-02", "late"])',
        )
    )
    second = servo(tmp_path, *create, "--missing", "--wait")
    assert second.returncode == 0, second.stdout + second.stderr
    assert "2 succeeded of 2 partitions" in second.stdout
    gone = servo(tmp_path, *create, "--partition", "2024-01-01")
    assert gone.returncode == 3
    assert "no partition '2024-01-01'" in gone.stderr
    made = queried(tmp_path, "select count(*) n from materializations where asset_key = 'days'")
    assert made == [{"n": 5}]


@pytest.mark.slow
def test_partitions_that_a_sensor_adds_are_made_in_the_same_evaluation(tmp_path: Path) -> None:
    (tmp_path / "assets.py").write_text(
        HEAD
        + """
places = DynamicPartitionsDefinition(name="places")

@asset(partitions_def=places)
def visits(context):
    return context.partition_key

@sensor(target=visits, default_status=DefaultSensorStatus.RUNNING)
def found(context):
    new = ["rome", "a/b, c"]
    return SensorResult(
        run_requests=[RunRequest(run_key=key, partition_key=key) for key in new],
        dynamic_partitions_requests=[places.build_add_request(new)],
        cursor="done",
    )
"""
    )
    done = asked(tmp_path, "tick")
    assert [run["state"] for run in done["runs"]] == ["SUCCEEDED", "SUCCEEDED"]
    preview = servo(tmp_path, "backfill", "preview", "assets.py", "visits", "--all")
    assert "2 materialized, 0 missing" in preview.stdout
    [row] = listed(tmp_path, "sensor", "history", "found")
    assert row["message"] == "partitions of places: 2 added"
