"""What `servo logs` prints of several executions."""

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
from servo.cli.workspace import open_target
from servo.operations.runs import run_detail
from servo.projection.read.reader import Reader


def test_what_ends_within_a_line_is_told_apart_from_what_comes_next(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = open_target(str(tmp_path), "default", "default")
    for task, said in (("a", b"no end"), ("b", b"one\n"), ("c", b"none either")):
        _ = target.store.create(target.paths.log("run_1", task, 1, "x"), said)
    printer = Printer(target, "run_1", None)
    printer.look()
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
    target = open_target(str(tmp_path), "default", "default")
    tasks = run_detail(Reader(target.store, target.paths).snapshot(), made.run_id).tasks
    for task in tasks:
        place = target.paths.log(made.run_id, task.task_key, 1, "x")
        _ = target.store.create(place, task.task_key.encode() + b"\n")
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
