"""The command line as a process of its own, as people use it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

LIMIT = 60


def servo(
    folder: Path, *arguments: str, said: str = "", **environ: str
) -> "subprocess.CompletedProcess[str]":
    """Run a command in a folder; `said` is typed to it."""
    return subprocess.run(  # noqa: S603 - our own interpreter and module
        [sys.executable, "-m", "servo.cli.main", *arguments],
        cwd=folder,
        input=said,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
        env={**os.environ, **environ},
    )


def asked(folder: Path, *arguments: str) -> Any:
    """What a command prints with `--json`."""
    done = servo(folder, *arguments, "--json")
    if not done.stdout:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)
