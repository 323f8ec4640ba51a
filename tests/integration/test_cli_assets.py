"""What the command line says of assets, and their data in SQL."""

import json
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple

import pytest

from servo.cli.main import run
from servo.testing.command_line import servo

LIMIT = 60
CODE = """
    import pandas as pd
    from servo import AssetIn, Definitions, IOManager, MaterializeResult, asset, asset_check

    @asset(key_prefix="shop", owners=["ada@x.org"], tags={"tier": "1"}, kinds={"pandas"},
           code_version="2", group_name="sales")
    def daily():
        "Sales by day."
        frame = pd.DataFrame({"day": [1, 2], "sum": [3, 4]})
        return MaterializeResult(value=frame, metadata={"source": "till", "n": 2})

    @asset
    def people():
        return [{"name": "ada", "age": 36}, {"name": "bob"}]

    @asset(ins={"daily": AssetIn(key_prefix="shop")})
    def total(daily):
        return int(daily["sum"].sum())

    @asset
    def words():
        return ["a", "b"]

    @asset
    def pickled():
        return {1, 2}

    @asset
    def nothing(): ...

    @asset(key_prefix="left", name="same")
    def same_left():
        return 1

    @asset(key_prefix="right", name="same")
    def same_right():
        return 2

    @asset(io_manager_key="mine")
    def elsewhere():
        return 1

    @asset
    def failing():
        raise ValueError("no")

    @asset_check(asset=daily)
    def positive(daily):
        return bool((daily["sum"] > 3).all())

    class Mine(IOManager):
        def handle_output(self, context, obj): ...
        def load_input(self, context): ...

    defs = Definitions(
        [daily, people, total, words, pickled, nothing, same_left, same_right,
         elsewhere, failing],
        asset_checks=[positive], resources={"mine": Mine()},
    )
    """


class Said(NamedTuple):
    code: int
    out: str
    err: str


def told(folder: Path, *arguments: str) -> Said:
    """A command that only reads, in this process: starting one takes longer than the answer."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run([*arguments, "--store", str(folder / ".servo")])
    return Said(code, out.getvalue(), err.getvalue())


def asked(folder: Path, *arguments: str) -> Any:
    said = told(folder, *arguments, "--json")
    assert said.out, said.err
    return json.loads(said.out)


def queried(folder: Path, statement: str, *arguments: str) -> list[dict[str, Any]]:
    said = told(folder, "sql", statement, *arguments, "--format", "json")
    assert said.out, said.err
    return json.loads(said.out)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "assets.py").write_text(dedent(CODE))
    assert servo(folder, "materialize").returncode == 1
    return folder


def test_an_asset_is_shown_with_what_defines_it_and_what_was_made(made: Path) -> None:
    shown = asked(made, "asset", "show", "shop/daily")
    assert shown["asset"]["owners"] == ["ada@x.org"]
    assert shown["downstream"] == ["total"]
    assert shown["latest"]["row_count"] == 2
    assert shown["metadata"] == {"source": "till", "n": 2}
    assert [(check["check_name"], check["passed"]) for check in shown["checks"]] == [
        ("positive", False)
    ]
    said = told(made, "asset", "show", "daily").out
    for words in ("Sales by day.", "sales", "tier=1", "till", "failed (error)", "total"):
        assert words in said, said
    assert "1 failure" in told(made, "asset", "show", "failing").out


@pytest.mark.parametrize(
    ("key", "code", "words"),
    [
        ("shop/dayly", 3, "did you mean shop/daily?"),
        ("totl", 3, "did you mean total?"),
        ("zzz", 3, "servo list"),
        ("same", 4, "left/same, right/same"),
    ],
)
def test_an_unknown_key_is_answered_with_those_alike(
    made: Path, key: str, code: int, words: str
) -> None:
    for command in ("show", "history", "wipe"):
        said = told(made, "asset", command, key)
        assert (said.code, words in said.err) == (code, True), said


@pytest.mark.parametrize(
    ("statement", "rows"),
    [
        ('select * from data."shop/daily"', [{"day": 1, "sum": 3}, {"day": 2, "sum": 4}]),
        ("select sum(sum) as s from data.daily join data.words on true", [{"s": 14}]),
        ("from DATA.people", [{"name": "ada", "age": 36}, {"name": "bob", "age": None}]),
        ("from data.total", [{"value": 7}]),
        ("select count(*) as n from data.words join data.words w using (value)", [{"n": 2}]),
        ("select 'data.pickled' as text", [{"text": "data.pickled"}]),
        ("with data as (select 1 as total) select data.total from data", [{"total": 1}]),
    ],
)
def test_the_data_of_assets_is_asked_like_a_table(
    made: Path, statement: str, rows: list[dict[str, Any]]
) -> None:
    assert queried(made, statement) == rows


@pytest.mark.parametrize(
    ("statement", "code", "words"),
    [
        ("from data.pickled", 2, "servo.load_asset('pickled')"),
        ("from data.nothing", 2, "returns nothing"),
        ("from data.elsewhere", 2, "IO manager 'mine'"),
        ("from data.failing", 3, "has not been materialized"),
        ("from data.dayly", 3, "did you mean"),
        ("from data.same", 4, "left/same, right/same"),
        ("from daily", 3, "data.daily"),
        ("from nowhere", 2, "show tables"),
        ("select nope from data.daily", 2, "nope"),
    ],
)
def test_data_that_cannot_be_had_says_why(
    made: Path, statement: str, code: int, words: str
) -> None:
    said = told(made, "sql", statement)
    assert (said.code, words in said.err) == (code, True), said


def test_data_can_be_asked_as_it_was(tmp_path: Path) -> None:
    code = "from pathlib import Path\nfrom servo import asset\n\n@asset\ndef n():\n    return {}\n"
    for value in (1, 2):
        (tmp_path / "assets.py").write_text(code.format(value))
        assert servo(tmp_path, "materialize").returncode == 0
    rows = queried(tmp_path, "select created_seq from materializations order by 1")
    past = str(rows[0]["created_seq"])
    assert queried(tmp_path, "from data.n") == [{"value": 2}]
    assert queried(tmp_path, "from data.n", "--as-of", past) == [{"value": 1}]
    assert told(tmp_path, "sql", "--as-of", "1", "from data.n").code == 3


@pytest.mark.slow
def test_what_was_made_is_listed_and_forgotten_after_a_question(tmp_path: Path) -> None:
    assert servo(tmp_path, "init").returncode == 0
    for _ in range(3):
        assert servo(tmp_path, "materialize", "assets.py", "orders").returncode == 0
    past = asked(tmp_path, "asset", "history", "orders", "--limit", "2")
    assert [row["verdict"] for row in past["items"]] == ["latest", "promoted"]
    said = told(tmp_path, "asset", "history", "orders", "--limit", "2").out
    assert f"More: --before {past['next_cursor']}" in said
    kept = servo(tmp_path, "asset", "wipe", "orders", said="n\n")
    assert (kept.returncode, kept.stderr.endswith("Nothing was wiped.\n")) == (1, True)
    nobody = servo(tmp_path, "asset", "wipe", "orders", said="")
    assert (nobody.returncode, "pass --yes" in nobody.stderr) == (2, True)
    assert told(tmp_path, "asset", "wipe", "revenue", "--yes").code == 4
    wiped = servo(tmp_path, "asset", "wipe", "orders", said="y\n")
    assert (wiped.returncode, wiped.stdout) == (0, "Wiped orders.\n")
    assert asked(tmp_path, "asset", "show", "orders")["latest"] is None
    after = asked(tmp_path, "asset", "history", "orders")["items"]
    assert {row["verdict"] for row in after} == {"wiped"}
    then = asked(tmp_path, "asset", "history", "orders", "--as-of", str(after[0]["created_seq"]))
    assert [row["verdict"] for row in then["items"]] == ["latest", "promoted", "promoted"]
