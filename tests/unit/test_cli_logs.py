"""What `servo logs` prints of several executions."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from servo import (
    AssetSpec,
    MaterializeResult,
    StaticPartitionsDefinition,
    asset,
    materialize,
    multi_asset,
)
from servo.cli.commands.logs import Printer
from servo.cli.main import run
from servo.operations.logs import LogChunk
from servo.operations.runs import get_run
from servo.workspace.address import Address
from servo.workspace.workspace import open_workspace


def test_what_ends_within_a_line_is_told_apart_from_what_comes_next(
    capsys: pytest.CaptureFixture[str],
) -> None:
    printer = Printer()
    for task, said in (("a", "no end"), ("b", "one\n"), ("c", "none either")):
        printer.print(LogChunk(run_id="run_1", task_key=task, attempt=1, exec_id=task, text=said))
    assert capsys.readouterr().out == "no end\none\nnone either"
    printer.end_line()
    printer.end_line()
    assert capsys.readouterr().out == "\n"


@asset(partitions_def=StaticPartitionsDefinition(["eu", "us"]))
def sales() -> None: ...


@multi_asset(specs=[AssetSpec("shop/one"), AssetSpec("shop/two")])
def several() -> Iterator[MaterializeResult]:
    yield MaterializeResult(asset_key="shop/one")
    yield MaterializeResult(asset_key="shop/two")


@pytest.fixture
def printed(tmp_path: Path) -> str:
    """A run whose every task has printed its name; the options that name its workspace."""
    made = materialize([sales, several], partition_keys=["eu", "us"], store=str(tmp_path))
    workspace = open_workspace(Address.of(str(tmp_path)))
    for task in get_run(workspace, made.run_id).tasks:
        place = workspace.paths.log(made.run_id, task.task_key, 1, "x")
        _ = workspace.store.create(place, task.task_key.encode() + b"\n")
    return made.run_id


EU, US = "sales[partition=s:ZXU]:materialize\n", "sales[partition=s:dXM]:materialize\n"
SEVERAL = "shop/one:materialize\n"


@pytest.mark.parametrize(
    ("arguments", "out"),
    [
        (["sales"], EU + US),
        (["RUN", "sales"], EU + US),
        (["two"], SEVERAL),
        (["RUN", "shop/two"], SEVERAL),
        (["RUN"], EU + US + SEVERAL),
        ([], EU + US + SEVERAL),
    ],
)
def test_an_asset_is_found_whatever_makes_it(
    arguments: list[str],
    out: str,
    printed: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    named = [printed if one == "RUN" else one for one in arguments]
    assert run(["logs", *named, "--store", str(tmp_path)]) == 0
    told = capsys.readouterr()
    assert told.out == out
    assert ("── sales[eu]:materialize, attempt 1\n" in told.err) is (EU in out)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["RUN", "sale"], "there is no asset 'sale'; did you mean sales?"),
        (["sale"], "there is no run sale; see `servo run list`"),
    ],
)
def test_what_is_not_there_is_told(
    arguments: list[str],
    told: str,
    printed: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    named = [printed if one == "RUN" else one for one in arguments]
    assert run(["logs", *named, "--store", str(tmp_path)]) == 3
    assert capsys.readouterr().err == f"error: {told}\n"


def test_json_is_one_value_or_one_a_line_while_following(
    printed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = ["--json", "--store", str(tmp_path)]
    assert run(["logs", "two", *place]) == 0
    whole = json.loads(capsys.readouterr().out)
    assert (whole["run_id"], [one["text"] for one in whole["items"]]) == (printed, [SEVERAL])
    assert run(["logs", "--follow", *place]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["text"] for line in lines] == [EU, US, SEVERAL]


def test_the_past_cannot_be_followed(
    printed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    del printed
    assert run(["logs", "-f", "--as-of", "1", "--store", str(tmp_path)]) == 2
    assert "leave out --follow or --as-of" in capsys.readouterr().err
