"""What a shell is told when somebody presses Tab."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import servo
from servo.cli.main import run


def completed(folder: Path, *words: str) -> list[str]:
    """What bash would offer after these words, the last of which is not finished."""
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


def test_commands_keys_and_runs_are_completed(tmp_path: Path) -> None:
    made = servo.materialize([orders], store=str(tmp_path / ".servo"))
    assert completed(tmp_path, "compl") == ["completion"]
    assert completed(tmp_path, "asset", "show", "sh") == ["shop/orders"]
    assert completed(tmp_path, "materialize", "assets.py", "sh") == ["shop/orders"]
    assert completed(tmp_path, "run", "show", "run_") == [made.run_id]
    assert completed(tmp_path, "run", "show", "--store", "nowhere", "run_") == []
    assert completed(tmp_path, "why", "sh") == ["shop/orders"]
    assert completed(tmp_path, "why", "ru") == ["run"]
    assert completed(tmp_path, "why", "run", "run_") == [made.run_id]
    assert completed(tmp_path, "why", "task", "run_") == [made.run_id]
    assert completed(tmp_path, "why", "task", made.run_id, "sh") == ["shop/orders"]
    assert completed(tmp_path, "why-not", "sh") == ["shop/orders"]
