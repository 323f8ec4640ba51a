"""Partitions that are not there, or no longer: what each command says, and what to do."""

from pathlib import Path
from textwrap import dedent

import pytest

from servo.testing.command_line import asked, servo

CODE = """
    import servo

    DAYS = servo.DailyPartitionsDefinition("2024-01-01", end_date="2024-01-05")
    LATER = servo.DailyPartitionsDefinition("2099-01-01")
    NAMES = servo.StaticPartitionsDefinition(
        ["a:b", "a/b", "a..b", "a,b", "day=x", "a b", "'quoted'", "ü", "日本", "🙂"]
    )

    @servo.asset(partitions_def=DAYS)
    def daily(context):
        return context.partition_key

    @servo.asset(partitions_def=LATER)
    def later(context):
        return context.partition_key

    @servo.asset(partitions_def=NAMES)
    def named(context):
        print("made", context.partition_key)
        return context.partition_key

    @servo.asset(partitions_def=servo.MultiPartitionsDefinition({"day": DAYS, "name": NAMES}))
    def both(context):
        print("made", dict(context.partition_key.keys_by_dimension))
        return context.partition_key
    """

EVERY_WAY = (("materialize",), ("backfill", "preview"), ("backfill", "create"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "assets.py").write_text(dedent(CODE), encoding="utf-8")
    return tmp_path


def refused(folder: Path, *arguments: str, code: int) -> str:
    """What a command that is refused says, in one line; it has asked for nothing."""
    done = servo(folder, *arguments)
    assert done.returncode == code, done
    assert "Traceback" not in done.stderr
    entries = [path.read_text() for path in folder.glob(".servo/**/ledger/**/*.json")]
    assert not [text for text in entries if "RunRequested" in text or "BackfillCreated" in text]
    return " ".join(done.stderr.split())


@pytest.mark.slow
@pytest.mark.parametrize("command", EVERY_WAY)
def test_a_partition_that_does_not_exist_is_told_with_those_there_are(
    folder: Path, command: tuple[str, ...]
) -> None:
    for strange in ("2024-01-09", "yesterday", "2024-02-30", ""):
        told = refused(folder, *command, "assets.py", "daily", "--partition", strange, code=3)
        assert f"daily has no partition '{strange}'" in told
        assert "available: '2024-01-01' to '2024-01-04'" in told


def test_a_reversed_range_is_told_with_the_way_out(folder: Path) -> None:
    ends = "2024-01-03", "2024-01-02"
    asks = (
        ("materialize", "assets.py", "daily", "--partition-range", *ends),
        ("backfill", "preview", "assets.py", "daily", "--from", ends[0], "--to", ends[1]),
        ("backfill", "create", "assets.py", "daily", "--from", ends[0], "--to", ends[1]),
    )
    for ask in asks:
        told = refused(folder, *ask, code=2)
        assert "'2024-01-03' comes after '2024-01-02'" in told
        assert "swap the two" in told


def test_an_empty_range_is_told_as_that(folder: Path) -> None:
    """An asset whose partitions all come later has none to range over."""
    ends = "2099-01-01", "2099-01-02"
    told = refused(folder, "materialize", "assets.py", "later", "--partition-range", *ends, code=3)
    assert "later has no partition '2099-01-01'" in told
    assert "it has no partitions at the moment" in told
    for ask in (("--all",), ("--missing",), ("--stale", "--from", "2099-01-01")):
        told = refused(folder, "backfill", "create", "assets.py", "later", *ask, code=3)
        assert "it has no partitions at the moment" in told


@pytest.mark.slow
def test_keys_of_any_character_are_made_and_told(folder: Path) -> None:
    chosen = ("a:b", "a/b", "a..b", "a,b", "day=x", "'quoted'", "日本", "🙂")
    named = [part for key in chosen for part in ("--partition", key)]
    done = servo(folder, "materialize", "assets.py", "named", *named)
    assert done.returncode == 0, done
    assert f"{len(chosen)} succeeded" in done.stdout
    pair = ("--partition", "2024-01-02|a,b", "--partition", "day=2024-01-03,name=a,b")
    both = servo(folder, "materialize", "assets.py", "both", *pair)
    assert both.returncode == 0, both
    assert "{'day': '2024-01-03', 'name': 'a,b'}" in servo(folder, "logs").stdout
    counts = asked(folder, "partitions", "status", "named")
    assert (counts["total"], counts["materialized"], counts["outside"]) == (10, len(chosen), 0)
    found = asked(folder, "partitions", "list", "both", "--status", "materialized")
    assert [one["first"] for one in found["items"]] == ["2024-01-02|a,b", "2024-01-03|a,b"]


@pytest.mark.slow
def test_a_definition_of_another_kind_leaves_what_was_made_apart(folder: Path) -> None:
    days = ("--partition-range", "2024-01-01", "2024-01-02")
    assert servo(folder, "materialize", "assets.py", "daily", *days).returncode == 0
    code = (folder / "assets.py").read_text(encoding="utf-8")
    changed = code.replace('"2024-01-01", end_date', '"2024-01-02", end_date')
    (folder / "assets.py").write_text(changed, encoding="utf-8")
    gone = servo(folder, "backfill", "create", "assets.py", "daily", "--partition", "2024-01-01")
    assert (gone.returncode, "available: '2024-01-02' to" in gone.stderr) == (3, True)
    (folder / "assets.py").write_text(code.replace("def=DAYS)", "def=NAMES)"), encoding="utf-8")
    other = servo(folder, "materialize", "assets.py", "daily", "--partition", "ü")
    assert other.returncode == 0, other
    counts = asked(folder, "partitions", "status", "daily")
    assert (counts["materialized"], counts["outside"]) == (1, 2)
    listed = servo(folder, "partitions", "list", "daily").stdout
    told = "2 partitions no longer in the definition: 2024-01-01, 2024-01-02"
    assert told in " ".join(listed.split())
