"""What user code prints is seen while it runs."""

import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from textwrap import dedent
from threading import Timer

from servo.testing.eventually import eventually

LIMIT = 60
CODE = """
    import time
    from pathlib import Path
    from servo import asset

    @asset
    def slow():
        print("begun", flush=False)
        while not Path("go").exists():
            time.sleep(0.05)
        print("done")

    @asset
    def quiet(): ...
    """


Started = subprocess.Popen[str]


def start(folder: Path, *arguments: str) -> Started:
    return subprocess.Popen(
        [sys.executable, "-m", "servo.cli.main", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(path: Path, pattern: str) -> None:
    eventually(lambda: list(path.glob(pattern)))


def test_what_runs_is_followed_until_it_ends(tmp_path: Path) -> None:
    (tmp_path / "assets.py").write_text(dedent(CODE))
    with start(tmp_path, "materialize") as running:
        wait_for(tmp_path, ".servo/default/default/manifests/**/*.json")
        with start(tmp_path, "logs", "-f") as following, start(tmp_path, "logs", "-f") as left:
            all_of_them = (running, following, left)
            overdue = Timer(LIMIT, kill, [all_of_them])
            overdue.start()
            try:
                watch(tmp_path, *all_of_them)
            finally:
                overdue.cancel()
                kill(all_of_them)
    stored = list((tmp_path / ".servo/default/default/logs").rglob("*.txt"))
    assert [path.read_text() for path in stored] == ["begun\ndone\n"]


def kill(processes: Iterable[Started]) -> None:
    for process in processes:
        process.kill()


def watch(folder: Path, running: Started, following: Started, left: Started) -> None:
    assert following.stdout is not None
    assert left.stdout is not None
    assert following.stdout.readline() == "begun\n"
    assert left.stdout.readline() == "begun\n"
    left.send_signal(signal.SIGINT)
    out, told = left.communicate(timeout=LIMIT)
    assert (out, "interrupted" in told) == ("", False)
    assert left.returncode == 0
    assert running.poll() is None
    (folder / "go").touch()
    out, _ = following.communicate(timeout=LIMIT)
    assert (out, following.returncode) == ("done\n", 0)
    assert running.wait(LIMIT) == 0
