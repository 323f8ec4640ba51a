"""What a shell is told when somebody presses Tab."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import BashComplete

import servo
from servo.cli.main import COMPLETE, PROGRAM, cli, run


def completed(*words: str) -> list[str]:
    """What is offered after these words, the last of which is not finished."""
    shell = BashComplete(cli, {}, PROGRAM, COMPLETE)
    return [item.value for item in shell.get_completions(list(words[:-1]), words[-1])]


def completed_by_bash(folder: Path, *words: str) -> list[str]:
    """The same, as bash asks for it."""
    environ = {
        **os.environ,
        "_SERVO_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(["servo", *words]),
        "COMP_CWORD": str(len(words)),
    }
    done = subprocess.run(
        [sys.executable, "-m", "servo.cli.main"],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


@servo.asset(key_prefix="shop")
def orders() -> int:
    return 1


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_gets_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    assert f"_SERVO_COMPLETE={shell}_complete" in capsys.readouterr().out
    assert run(["completion", "tcsh"]) == 2


def test_a_shell_is_answered_by_the_program(tmp_path: Path) -> None:
    assert completed_by_bash(tmp_path, "compl") == ["completion"]


def test_commands_keys_and_runs_are_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = servo.materialize([orders], store=str(tmp_path / ".servo"))
    assert completed("compl") == ["completion"]
    assert completed("asset", "show", "sh") == ["shop/orders"]
    assert completed("materialize", "assets.py", "sh") == ["shop/orders"]
    assert completed("run", "show", "run_") == [made.run_id]
    assert completed("run", "show", "--store", "nowhere", "run_") == []
    assert completed("why", "sh") == ["shop/orders"]
    assert completed("why", "ru") == ["run"]
    assert completed("why", "run", "run_") == [made.run_id]
    assert completed("why", "task", "run_") == [made.run_id]
    assert completed("why", "task", made.run_id, "sh") == ["shop/orders"]
    assert completed("why-not", "sh") == ["shop/orders"]
