"""What `servo logs` prints of several executions."""

from pathlib import Path

import pytest

from servo.cli.commands.logs import Printer
from servo.cli.workspace import open_target


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
