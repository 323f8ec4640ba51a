"""User code that does what nobody should: it is told as what it did, and harms nobody else."""

import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent

import pytest

from servo.code.loader import load_project
from servo.core.keys import AssetKey
from servo.core.state.rows.execution import RunRow, TaskRow
from servo.core.state.states import TaskState
from servo.execution.outputs.store import OutputStore
from servo.host.leading import LeadingHost
from servo.operations.runs import cancel_run
from servo.planning.assets import plan_assets
from servo.sdk.triggers.resolution import declared
from servo.testing.eventually import eventually
from servo.testing.planned_runs import start_plan
from servo.testing.process_setups import setup_for

LIMIT = 60
HEAD = """
import asyncio, itertools, os, signal, subprocess, sys, threading, time
import servo
from servo import Failure, RetryPolicy, Skip, asset_check
from pathlib import Path

def asset(**options):
    return servo.asset(retry_policy=RetryPolicy(max_retries=0), **options)

@asset()
def who():
    return os.getpid()
"""


class Project:
    """A folder with a file of assets, and the session that runs it on one worker."""

    def __init__(self, folder: Path, code: str) -> None:
        self.folder = folder
        self._runs = 0
        (folder / "assets.py").write_text(HEAD + dedent(code))
        self.definitions = load_project("assets.py", folder)
        self.setup = setup_for("assets.py", folder, str(folder / "store"))

    @contextmanager
    def session(self) -> Generator[LeadingHost]:
        with LeadingHost(self.setup, workers=1) as session:
            session.deploy("assets.py", declared(self.definitions))
            yield session

    def run(self, session: LeadingHost, *names: str) -> RunRow:
        keys = [AssetKey(name) for name in names]
        plan = plan_assets(self.definitions, keys)
        self._runs += 1
        ended = session.wait(start_plan(session, plan, f"run {self._runs}"), LIMIT)
        assert ended is not None
        return ended

    def task(self, session: LeadingHost, name: str) -> TaskRow:
        run = self.run(session, name)
        return session.service.engine.state.tasks.rows[run.run_id, f"{name}:materialize"]

    def line(self, text: str) -> int:
        """Where a string first stands in the code."""
        lines = (self.folder / "assets.py").read_text().splitlines()
        return next(number for number, line in enumerate(lines, 1) if text in line)

    def who(self, session: LeadingHost) -> object:
        """The process that works."""
        assert self.task(session, "who").state is TaskState.SUCCEEDED
        return self.value(session, "who")

    def log(self, session: LeadingHost, row: TaskRow) -> str:
        place = session.paths.log(row.run_id, row.task_key, row.attempt, row.exec_id)
        return session.workspace.store.get(place).data.decode()

    def value(self, session: LeadingHost, name: str) -> object:
        row = session.service.engine.state.assets.rows[name]
        outputs = OutputStore(session.workspace.store, session.paths)
        return outputs.load(row.last_output_uri, row.last_content_hash)


ROUGH = """
    class Own(BaseException):
        pass

    class Mute(Exception):
        def __str__(self):
            raise RuntimeError("no words")

    class HasEverything(Exception):
        def __getattr__(self, name):
            return lambda *_: None

    class EndsWhenPickled:
        def __reduce__(self):
            raise SystemExit(4)

    @asset()
    def exits():
        sys.exit(3)

    @asset()
    def exits_beside_a_thread():
        threading.Thread(target=time.sleep, args=(600,)).start()
        sys.exit("with a word")

    @asset()
    def presses_ctrl_c():
        raise KeyboardInterrupt("by itself")

    @asset()
    def raises_its_own():
        raise Own("not an Exception")

    @asset()
    async def is_cancelled():
        raise asyncio.CancelledError

    @asset()
    def raises_what_cannot_be_told():
        raise Mute

    @asset()
    def raises_what_has_everything():
        raise HasEverything("and more")

    @asset()
    def closes_what_errors_are_written_to():
        sys.stderr.close()
        raise ValueError("the real reason")

    @asset()
    def raises_no_unicode():
        raise ValueError("half a \\ud800 pair")

    @asset()
    def ends_when_pickled():
        return EndsWhenPickled()

    @asset()
    def waits_for_ever():
        raise servo.RetryRequested(max_retries=1, seconds_to_wait=float("inf"))

    @asset()
    def tells_no_unicode():
        return servo.MaterializeResult(data_version=servo.DataVersion("\\ud800"))
"""

TOLD = {
    "exits": "SystemExit: 3",
    "exits_beside_a_thread": "SystemExit: with a word",
    "presses_ctrl_c": "KeyboardInterrupt: by itself",
    "raises_its_own": "Own: not an Exception",
    "is_cancelled": "CancelledError: ",
    "raises_what_cannot_be_told": "Mute",
    "raises_what_has_everything": "HasEverything: and more",
    "closes_what_errors_are_written_to": "ValueError: the real reason",
    "raises_no_unicode": "ValueError: half a ? pair",
    "ends_when_pickled": "SystemExit: 4",
    "waits_for_ever": "Invalid: RetryRequested: seconds_to_wait is inf",
    "tells_no_unicode": "Invalid: the report cannot be sent: ",
}


def test_whatever_code_raises_is_told_and_the_process_goes_on(tmp_path: Path) -> None:
    project = Project(tmp_path, ROUGH)
    with project.session() as session:
        before = project.who(session)
        run = project.run(session, *TOLD)
        rows = session.service.engine.state.tasks.rows
        told = {
            name: (row.state, row.error_message[: len(TOLD[name])])
            for name in TOLD
            for row in [rows[run.run_id, f"{name}:materialize"]]
        }
        assert told == {name: (TaskState.FAILED, message) for name, message in TOLD.items()}
        assert project.who(session) == before


def test_a_reason_to_skip_that_is_no_unicode_is_told_as_far_as_it_is(tmp_path: Path) -> None:
    code = """
        @asset()
        def skips():
            return Skip("half a \\ud800 pair")

        @asset_check(asset=skips)
        def good():
            return servo.AssetCheckResult(passed=True, description="\\udfff")
    """
    project = Project(tmp_path, code)
    with project.session() as session:
        row = project.task(session, "skips")
        assert (row.state, row.error_message) == (TaskState.SKIPPED, "half a ? pair")


def test_a_check_that_raises_what_is_no_exception_has_failed(tmp_path: Path) -> None:
    code = """
        class Own(BaseException):
            pass

        @asset()
        def orders():
            return 1

        @asset_check(asset=orders)
        def own():
            raise Own("not an Exception")

        @asset_check(asset=orders)
        def odd():
            return servo.AssetCheckResult(passed=False, description="half a \\ud800 pair")
    """
    project = Project(tmp_path, code)
    with project.session() as session:
        assert project.task(session, "orders").state is TaskState.SUCCEEDED
        rows = list(session.service.engine.state.check_results.rows.values())
        found = {row.check_name: (row.passed, row.message) for row in rows}
    assert found == {"own": (False, "Own: not an Exception"), "odd": (False, "half a ? pair")}


@pytest.mark.parametrize("how", ["return pid", "raise ValueError(pid)", "sys.exit(0)"])
def test_a_process_that_forks_is_one_execution(tmp_path: Path, how: str) -> None:
    code = f"""
        def both():
            pid = os.fork()
            if pid:
                os.waitpid(pid, 0)
                return 7
            {how}

        @asset()
        def returns():
            return both()

        @asset()
        def yields():
            yield servo.Output(both())
    """
    project = Project(tmp_path, code)
    with project.session() as session:
        for name in ("returns", "yields"):
            row = project.task(session, name)
            assert (row.state, row.error_message) == (TaskState.SUCCEEDED, "")
            assert project.value(session, name) == 7


@pytest.mark.parametrize(
    "what",
    [
        "sys.stdout.close(); sys.stderr.close()",
        "os.close(1); os.close(2)",
        "os.dup2(os.open('elsewhere', os.O_CREAT | os.O_WRONLY), 1)",
        "sys.stdout = sys.stderr = None",
        "os.chdir('/')",
        "os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')",
        "signal.alarm(1)",
    ],
)
def test_what_an_execution_does_to_its_process_is_not_the_next_ones(
    tmp_path: Path, what: str
) -> None:
    code = f"""
        @asset()
        def rough():
            {what}

        @asset(deps=[rough])
        def well():
            print("printed")
            print("told", file=sys.stderr)
            time.sleep(1.2 if {"alarm" in what} else 0)
            return Path("assets.py").exists()
    """
    project = Project(tmp_path, code)
    with project.session() as session:
        before = project.who(session)
        run = project.run(session, "rough", "well")
        assert run.tasks_succeeded == 2
        row = session.service.engine.state.tasks.rows[run.run_id, "well:materialize"]
        assert sorted(project.log(session, row).splitlines()) == ["printed", "told"]
        assert project.value(session, "well") is True
        assert project.who(session) == before


STOPPED = """
    @asset()
    def cleans_up():
        print("begun", flush=True)
        Path("begun").touch()
        try:
            time.sleep(600)
        finally:
            print("cleaned up")

    @asset()
    def makes_something_else_of_it():
        Path("begun").touch()
        try:
            time.sleep(600)
        except BaseException:
            raise RuntimeError("interrupted") from None

    @asset()
    def takes_no_notice():
        Path("begun").touch()
        try:
            time.sleep(600)
        except BaseException:
            return 1

    @asset()
    def handles_signals_itself():
        def handler(*_):
            raise RuntimeError("terminated")
        signal.signal(signal.SIGTERM, handler)
        Path("begun").touch()
        time.sleep(600)
"""


def started(project: Project, session: LeadingHost, name: str) -> str:
    run = start_plan(session, plan_assets(project.definitions, [AssetKey(name)]), "one")
    eventually((project.folder / "begun").exists)
    return run


def test_what_was_printed_before_a_stop_is_kept_with_where_it_was_stopped(tmp_path: Path) -> None:
    project = Project(tmp_path, STOPPED)
    with project.session() as session:
        run = started(project, session, "cleans_up")
        row = session.running()[0]
        _ = cancel_run(session.workspace, run)
        assert session.wait(run, LIMIT) is not None
        log = project.log(session, row)
    assert log.startswith("begun\ncleaned up\nTraceback (most recent call last):\n")
    assert "time.sleep(600)" in log
    assert "Servo stopped the execution: cancelled, out of time, or shut down" in log


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("makes_something_else_of_it", TaskState.READY),
        ("handles_signals_itself", TaskState.READY),
        ("takes_no_notice", TaskState.SUCCEEDED),
    ],
)
def test_what_code_makes_of_a_shutdown_is_no_failure(
    tmp_path: Path, name: str, state: TaskState
) -> None:
    project = Project(tmp_path, STOPPED)
    with project.session() as session:
        run = started(project, session, name)
        session.pool.drain()
        rows = session.service.engine.state.tasks.rows
        eventually(lambda: rows[run, f"{name}:materialize"].state is state)


@pytest.mark.parametrize("name", ["cleans_up", "makes_something_else_of_it"])
def test_what_somebody_else_stops_is_no_failure_either(tmp_path: Path, name: str) -> None:
    project = Project(tmp_path, STOPPED)
    with project.session() as session:
        worker = project.who(session)
        assert isinstance(worker, int)
        run = started(project, session, name)
        os.kill(worker, signal.SIGTERM)
        rows, key = session.service.engine.state.tasks.rows, (run, f"{name}:materialize")
        eventually(lambda: rows[key].attempt == 2)
        assert (rows[key].infra_losses, rows[key].user_failures) == (1, 0)


# --- processes that die ---------------------------------------------------------------------------

DEADLY = """
    import ctypes

    class Vault:
        def get(self, name):
            return "known-to-nobody"

    class Service(servo.ConfigurableResource):
        password: str = servo.Secret("password")

    @asset()
    def leaves():
        print("a last word")
        os._exit(7)

    @asset()
    def crashes():
        print("a last word")
        ctypes.string_at(0)

    @asset()
    def is_killed():
        os.kill(os.getpid(), signal.SIGKILL)

    @asset()
    def tells(service: Service):
        print("the first is stored", flush=True)
        time.sleep(1.5)
        print(service.password)
        ctypes.string_at(0)

    definitions = servo.Definitions(
        assets=[who, leaves, crashes, is_killed, tells],
        resources={"service": Service()},
        secrets=[Vault()],
    )
"""


def test_what_a_process_printed_before_it_died_is_kept(tmp_path: Path) -> None:
    project = Project(tmp_path, DEADLY)
    with project.session() as session:
        row = project.task(session, "leaves")
        assert row.error_message == "the worker process ended with exit code 7"
        assert project.log(session, row) == "a last word\n"


def test_where_a_process_crashed_is_told(tmp_path: Path) -> None:
    project = Project(tmp_path, DEADLY)
    line = project.line("ctypes.string_at(0)")
    with project.session() as session:
        row = project.task(session, "crashes")
        log = project.log(session, row)
    ended = f"the worker process ended with SIGSEGV in crashes (assets.py:{line})"
    assert row.error_message == ended
    assert log.startswith("a last word\nFatal Python error: Segmentation fault\n")
    assert log.endswith(f'  File "{tmp_path}/assets.py", line {line} in crashes\n')


def test_who_is_killed_is_told_why_that_may_be(tmp_path: Path) -> None:
    project = Project(tmp_path, DEADLY)
    with project.session() as session:
        message = project.task(session, "is_killed").error_message
    assert message.endswith("SIGKILL; the system does that when memory runs out")


@pytest.mark.slow
def test_the_crash_output_of_a_process_that_knew_a_secret_is_not_stored(tmp_path: Path) -> None:
    project = Project(tmp_path, DEADLY)
    with project.session() as session:
        log = project.log(session, project.task(session, "tells"))
    assert "known-to-nobody" not in log
    told = (
        "(the end of its output is not kept because it may contain secrets)\nFatal Python error: "
    )
    assert log.startswith(f"the first is stored\n{told}")


# --- checks that cannot be interrupted ------------------------------------------------------------


@pytest.mark.slow
def test_a_check_that_cannot_be_interrupted_ends_with_its_process(tmp_path: Path) -> None:
    code = """
        @asset()
        def orders():
            return 1

        @asset_check(asset=orders, timeout=0.2)
        def computes():
            return sum(itertools.repeat(0)) == 0  # never comes back to Python

        @asset()
        def other():
            return 1
    """
    project = Project(tmp_path, code)
    with project.session() as session:
        row = project.task(session, "orders")
        assert (row.state, row.error_code, row.attempt) == (TaskState.FAILED, "CheckHung", 1)
        assert row.error_message == (
            "the check computes of orders took longer than its timeout and could not be "
            "interrupted, so its process was ended"
        )
        assert project.task(session, "other").state is TaskState.SUCCEEDED
