"""Sensors on real processes: `servo dev` evaluates them, and nothing they do stops another."""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from servo.errors import NotFound
from servo.ledger.paths import Paths
from servo.projection.read.reader import Reader
from servo.storage.from_url import store_from_url
from servo.testing.command_line import asked, listed, servo
from servo.testing.eventually import eventually
from servo.workspace.system import SystemClock

LIMIT = 60
HEAD = """
import os
import time
from pathlib import Path
from servo import *

ON = DefaultSensorStatus.RUNNING
SOON = {"minimum_interval_seconds": 0.5, "default_status": ON}

def note(name, text):
    with open(name, "a") as file:
        file.write(f"{text}\\n")

@asset
def orders():
    return 1

@asset
def report():
    if Path("broken").exists():
        raise ValueError("out of paper")
    return 2
"""


def lines(path: Path) -> list[str]:
    """What was written to a file so far, if anything."""
    return path.read_text().splitlines() if path.exists() else []


class Dev:
    """A `servo dev` in a folder, until it is stopped or killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-m", "servo.cli.main", "dev", "--workers", "1"],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def until(self, met: Callable[[], Any]) -> Any:
        def found() -> Any:
            assert self.process.poll() is None, "servo dev has ended"
            return met()

        return eventually(found, LIMIT, every=0.2)

    def kill(self) -> None:
        """As the machine would: no process of it says goodbye."""
        os.killpg(self.process.pid, signal.SIGKILL)
        _ = self.process.wait(LIMIT)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            _ = self.process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            self.kill()


@contextmanager
def dev(folder: Path) -> Generator[Dev]:
    running = Dev(folder)
    try:
        yield running
    finally:
        running.stop()


def project(folder: Path, code: str) -> Path:
    (folder / "assets.py").write_text(HEAD + code)
    return folder


def table(folder: Path, name: str) -> list[dict[str, Any]]:
    """The rows of a table as they were published; none before anything was."""
    if not (folder / ".servo").is_dir():
        return []
    store = store_from_url(str(folder / ".servo"), clock=SystemClock())
    try:
        return Reader(store, Paths("default", "default")).snapshot().table(name).to_pylist()
    except NotFound:
        return []


def history(folder: Path, name: str) -> list[dict[str, Any]]:
    return [row for row in table(folder, "sensor_evals") if row["sensor_id"] == name]


def state(folder: Path, name: str) -> dict[str, Any]:
    return next(row for row in table(folder, "sensor_state") if row["sensor_id"] == name)


@pytest.mark.slow
def test_a_sensor_follows_its_cursor_and_no_other_keeps_it_from_it(tmp_path: Path) -> None:
    project(
        tmp_path,
        """
@sensor(target="orders", **SOON)
def files(context):
    new = [p.name for p in sorted(Path(".").glob("*.csv")) if p.name > (context.cursor or "")]
    if not new:
        return SkipReason("no new file")
    return SensorResult(run_requests=[RunRequest(run_key=n) for n in new], cursor=new[-1])

@sensor(target="orders", timeout_seconds=1, **SOON)
def hangs(context):
    time.sleep(1000)

@sensor(target="orders", **SOON)
def raises(context):
    raise ValueError("not today")

@sensor(target="orders", **SOON)
def ends(context):
    os._exit(7)

@sensor(target="orders", **SOON)
def garbage(context):
    return 42

@sensor(**SOON)
def unknown(context):
    return RunRequest(asset_selection=["nowhere"])

@sensor(target="orders", **SOON)
def always(context):
    note("always", "")
    return RunRequest(run_key="the only one")
""",
    )
    (tmp_path / "1.csv").touch()
    with dev(tmp_path) as running:
        running.until(lambda: history(tmp_path, "files"))
        (tmp_path / "2.csv").touch()
        (tmp_path / "3.csv").touch()
        running.until(lambda: state(tmp_path, "files")["cursor"] == "3.csv")
        failed = {
            name: running.until(lambda name=name: history(tmp_path, name))[-1]
            for name in ("hangs", "raises", "ends", "garbage", "unknown")
        }
        running.until(lambda: len(lines(tmp_path / "always")) > 5)
    told = {name: row["message"] for name, row in failed.items()}
    assert {row["status"] for row in failed.values()} == {"FAILED"}
    assert told["hangs"] == "it took longer than 1 s to answer and was stopped"
    assert told["raises"].startswith("ValueError: not today (assets.py:")
    assert told["ends"] == "the evaluator process ended with 7"
    assert told["garbage"].startswith("sensor garbage returned 42")
    assert told["unknown"].startswith("sensor unknown requests nowhere, which is not an asset")
    runs = Counter(row["run_key"] for row in table(tmp_path, "runs"))
    assert runs == {
        **{f"sensor:files:key:{n}.csv": 1 for n in (1, 2, 3)},
        "sensor:always:key:the only one": 1,
    }
    # What says the same again is not recorded again.
    assert len(history(tmp_path, "always")) <= 3
    assert asked(tmp_path, "sensor", "show", "raises")["sensor"]["state"]["status"] == "ERROR"


@pytest.mark.slow
def test_sensors_of_assets_and_runs_are_told_of_everything_once(tmp_path: Path) -> None:
    project(
        tmp_path,
        """
@asset_sensor(asset_key="orders", target="report", **SOON)
def made(context, event):
    note("made", event.run_id)
    return RunRequest(run_key=event.run_id)

@asset_sensor(asset_key="orders", each_event=True, **SOON)
def each(context, event):
    note("each", event.run_id)

@multi_asset_sensor(monitored_assets=["orders", "report"], **SOON)
def both(context):
    found = context.latest_materialization_records_by_key()
    if all(found.values()):
        note("both", "")
        context.advance_all_cursors()

@run_status_sensor(run_status=RunStatus.SUCCESS, **SOON)
def ended(context):
    note("ended", context.run.run_id)

@run_status_sensor(run_status=RunStatus.STARTED, **SOON)
def began(context):
    note("began", context.run.run_id)

@run_failure_sensor(**SOON)
def failed(context):
    if not Path("mended").exists():
        note("tried", context.run.run_id)
        raise ValueError("the pager is off")
    note("failed", context.failure_event.message)

@run_failure_sensor(monitored_jobs=[define_asset_job("no_such_runs", "orders")], **SOON)
def other(context):
    note("other", "")
""",
    )

    def said(name: str) -> list[str]:
        return lines(tmp_path / name)

    def is_settled(last: str) -> bool:
        """Whether all are told of all that there is, up to what came of the last run."""
        runs = table(tmp_path, "runs")
        succeeded = {row["run_id"] for row in runs if row["state"] == "SUCCEEDED"}
        followed = any(row["run_key"] == f"sensor:made:key:{last}" for row in runs)
        over = all(row["finished_at"] for row in runs)
        told = succeeded <= set(said("ended")) and len(set(said("began"))) == len(runs)
        return followed and over and told and last in said("each")

    with dev(tmp_path) as running:
        running.until(lambda: table(tmp_path, "sensor_state"))
        for _ in range(3):
            assert asked(tmp_path, "materialize", "assets.py", "orders")["run"]["state"]
        running.until(lambda: len(said("each")) >= 3 and said("both"))
        (tmp_path / "broken").touch()
        assert servo(tmp_path, "materialize", "assets.py", "report").returncode == 1
        running.until(lambda: len(said("tried")) >= 2)
        (tmp_path / "mended").touch()
        running.until(lambda: said("failed"))
        (tmp_path / "broken").unlink()
        # Whoever is told of one more run would have been told of those before a second time.
        last = asked(tmp_path, "materialize", "assets.py", "orders")["run"]["run_id"]
        running.until(lambda: is_settled(last))
    runs = table(tmp_path, "runs")
    succeeded = {row["run_id"] for row in runs if row["state"] == "SUCCEEDED"}
    assert Counter(said("ended")) == dict.fromkeys(succeeded, 1)
    assert Counter(said("began")) == dict.fromkeys((row["run_id"] for row in runs), 1)
    outputs = table(tmp_path, "materializations")
    made = [row for row in outputs if row["asset_key"] == "orders"]
    assert Counter(said("each")) == {row["run_id"]: 1 for row in made}
    assert set(said("made")) <= {row["run_id"] for row in made}
    assert max(Counter(said("made")).values()) == 1
    assert said("failed") == ["report: ValueError: out of paper"]
    assert not said("other")


PUSHED = """
@push_sensor(target="orders", default_status=ON)
def arrived(context):
    note("evaluated", context.message_id)
    if context.payload == {"die": True} and not Path("dead").exists():
        Path("dead").touch()
        os.kill(os.getpid(), 9)
    time.sleep(0.01)
    if context.payload == "bad":
        raise ValueError("no such order")
    return RunRequest(run_key=context.message_id)
"""


def answered(folder: Path) -> dict[str, int]:
    evals = history(folder, "arrived")
    return Counter(row["message_id"] for row in evals if row["status"] != "FAILED")


@pytest.mark.slow
def test_a_message_is_evaluated_once_however_often_it_is_sent(tmp_path: Path) -> None:
    project(tmp_path, PUSHED)
    with dev(tmp_path) as running:
        running.until(lambda: table(tmp_path, "sensor_state"))
        push = ("sensor", "push", "arrived")
        for _ in range(3):
            sent = servo(tmp_path, *push, "--message-id", "m1", "--payload", '{"n": 1}')
            assert (sent.returncode, sent.stderr) == (0, ""), sent
        (tmp_path / "large.json").write_text('"' + "x" * 200_000 + '"')
        assert servo(tmp_path, *push, "--message-id", "m2", "--payload", "@large.json").stdout
        assert servo(tmp_path, *push, "--message-id", "m3", "--payload", "-", said="[1]").stdout
        assert asked(tmp_path, *push, "--message-id", "bad", "--payload", '"bad"')
        dies = ("--message-id", "dies", "--payload", '{"die": true}')
        assert servo(tmp_path, *push, *dies).returncode == 0
        assert asked(tmp_path, *push)["message_id"]
        running.until(lambda: len(answered(tmp_path)) == 5)
        for name in ("m1", "m4"):  # that m4 is answered says that m1 was looked at
            assert servo(tmp_path, *push, "--message-id", name).returncode == 0
        running.until(lambda: "m4" in answered(tmp_path))
        assert set(answered(tmp_path).values()) == {1}
        shown = asked(tmp_path, "sensor", "show", "arrived")
        assert [row["message_id"] for row in shown["messages"]] == ["bad"]
        assert shown["messages"][0]["last_error"].startswith("ValueError: no such order")
    seen = Counter((tmp_path / "evaluated").read_text().split())
    assert (seen["m1"], seen["m2"], seen["dies"]) == (1, 1, 2)


@pytest.mark.slow
def test_no_message_is_lost_or_answered_twice_when_everything_is_killed(tmp_path: Path) -> None:
    project(tmp_path, PUSHED)
    sender = """
import sys
from servo import ServoInstance
instance = ServoInstance.of_store(sys.argv[1])
for n in range(int(sys.argv[2]), int(sys.argv[3])):
    for _ in range(1 + (n % 3 == 0)):
        instance.push_sensor_message("arrived", {"n": n}, message_id=f"m{n}")
    print(n, flush=True)
"""
    with dev(tmp_path) as first:
        first.until(lambda: table(tmp_path, "sensor_state"))
        (tmp_path / "sender.py").write_text(sender)
        store = str((tmp_path / ".servo").absolute())
        with subprocess.Popen(
            [sys.executable, "sender.py", store, "0", "40"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as sending:
            assert sending.stdout is not None
            sent: list[str] = []
            for line in sending.stdout:
                sent.append(line.strip())
                if len(sent) == 12:
                    first.kill()
                    sending.kill()
    evaluated, expected = tmp_path / "evaluated", {f"m{n}" for n in sent}
    for _ in range(2):  # again, while it works off what is left
        with dev(tmp_path) as again:
            more = len(lines(evaluated)) + 2
            again.until(
                lambda more=more: (
                    len(lines(evaluated)) >= more or expected <= answered(tmp_path).keys()
                )
            )
            again.kill()
    with dev(tmp_path) as last:
        last.until(lambda: expected <= answered(tmp_path).keys())
        last.until(lambda: all(row["finished_at"] for row in table(tmp_path, "runs")))
    counts = answered(tmp_path)
    assert set(counts.values()) == {1}
    runs = Counter(row["run_key"] for row in table(tmp_path, "runs"))
    assert runs == {f"sensor:arrived:key:{name}": 1 for name in counts}


@pytest.mark.slow
def test_the_verbs_of_the_command_line(tmp_path: Path) -> None:
    project(
        tmp_path,
        """
@sensor(target="orders", minimum_interval_seconds=0.5)
def count(context):
    print("on its way")
    number = int(context.cursor or 0) + 1
    return SensorResult(run_requests=[RunRequest(run_key=str(number))], cursor=str(number))

@push_sensor(target="report")
def told(context):
    if context.payload is None:
        return SkipReason("nothing was said")
    return RunRequest(tags={"said": str(context.payload)})
""",
    )
    # Before anything is deployed it can be tried.
    tried = asked(tmp_path, "sensor", "evaluate", "count", "--cursor", "6")
    assert (tried["cursor"], [run["assets"] for run in tried["runs"]]) == ("7", [["orders"]])
    silent = servo(tmp_path, "sensor", "evaluate", "told")
    assert silent.stdout == "No runs: nothing was said\n"
    tried = asked(tmp_path, "sensor", "evaluate", "told", "--payload", '"hello"')
    assert tried["runs"][0]["labels"]["said"] == "hello"
    refused = servo(tmp_path, "sensor", "evaluate", "count", "--commit")
    assert (refused.returncode, "deploy it with `servo dev`" in refused.stderr) == (3, True)
    wrong = servo(tmp_path, "sensor", "evaluate", "told", "--payload", "{")
    assert (wrong.returncode, "invalid JSON in the payload" in wrong.stderr) == (2, True)
    missing = servo(tmp_path, "sensor", "evaluate", "cuont")
    assert (missing.returncode, "did you mean 'count'?" in missing.stderr) == (2, True), missing

    with dev(tmp_path) as running:
        running.until(lambda: table(tmp_path, "sensor_state"))
        found = listed(tmp_path, "sensor", "list")
        assert [row["state"]["status"] for row in found] == ["PAUSED", "PAUSED"]
        twice = servo(tmp_path, "sensor", "pause", "count")
        assert (twice.returncode, "is already paused" in twice.stderr) == (4, True)
        unknown = servo(tmp_path, "sensor", "resume", "cuont")
        assert (unknown.returncode, "did you mean count?" in unknown.stderr) == (3, True)
        pushed = servo(tmp_path, "sensor", "push", "count")
        assert (pushed.returncode, "takes no messages" in pushed.stderr) == (2, True)
        assert servo(tmp_path, "sensor", "push", "told", "--message-id", "m1").returncode == 0
        assert servo(tmp_path, "sensor", "resume", "told").returncode == 0
        running.until(lambda: history(tmp_path, "told"))
        assert servo(tmp_path, "sensor", "resume", "count").returncode == 0
        running.until(lambda: int(state(tmp_path, "count")["cursor"] or 0) >= 2)
        assert servo(tmp_path, "sensor", "pause", "count").returncode == 0
        running.until(lambda: state(tmp_path, "count")["status"] == "PAUSED")
        assert servo(tmp_path, "sensor", "cursor", "count", "--set", "99").returncode == 0
        running.until(lambda: state(tmp_path, "count")["cursor"] == "99")
        assert servo(tmp_path, "sensor", "cursor", "count").stdout.strip() == "99"
        assert servo(tmp_path, "sensor", "resume", "count").returncode == 0
        running.until(lambda: int(state(tmp_path, "count")["cursor"]) >= 100)
        assert asked(tmp_path, "sensor", "cursor", "count", "--reset")["cursor"] is None
    assert "NO_NEW_DATA" not in servo(tmp_path, "sensor", "show", "count").stdout
    assert "nothing was said" in servo(tmp_path, "sensor", "history", "told").stdout
