"""Real worker processes: they run what they are given, and one that dies takes only its own."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent

import pytest

from servo.code.loader import load_project
from servo.core.keys import AssetKey
from servo.core.state.rows.execution import RunRow, TaskRow
from servo.errors import Conflict, Invalid
from servo.host.leading import LeadingHost
from servo.operations.runs import cancel_run
from servo.planning.assets import plan_assets
from servo.sdk.triggers.resolution import declared
from servo.testing.eventually import eventually
from servo.testing.planned_runs import start_plan
from servo.testing.process_setups import setup_for

LIMIT = 60

Work = Callable[..., RunRow]


class Project:
    """A folder with a file of assets, and the session that runs it."""

    def __init__(self, folder: Path, code: str) -> None:
        self.folder = folder
        (folder / "assets.py").write_text(
            "from servo.sdk.assets.asset import asset\n" + dedent(code)
        )
        self.definitions = load_project("assets.py", folder)
        self.setup = setup_for("assets.py", folder, str(folder / "store"))

    @contextmanager
    def session(self, workers: int = 2) -> Generator[LeadingHost]:
        with LeadingHost(self.setup, workers=workers) as session:
            session.deploy("assets.py", declared(self.definitions))
            yield session

    def run(self, session: LeadingHost, *names: str, key: str = "one") -> RunRow:
        keys = [AssetKey(name) for name in names] or self.definitions.order
        ended = session.wait(start_plan(session, plan_assets(self.definitions, keys), key), LIMIT)
        assert ended is not None
        return ended


def task(session: LeadingHost, run: RunRow, name: str) -> TaskRow:
    return session.service.engine.state.tasks.rows[run.run_id, f"{name}:materialize"]


def test_values_go_from_asset_to_asset(tmp_path: Path) -> None:
    project = Project(
        tmp_path,
        """
        from pathlib import Path

        @asset
        def numbers():
            return [1, 2, 3]

        @asset
        def large():
            return b"x" * 100_000

        @asset
        def nothing(): ...

        @asset
        def total(numbers, large, nothing):
            assert nothing is None
            Path("told").write_text(f"{sum(numbers)} {len(large)}")
            return {"sum": sum(numbers)}
        """,
    )
    with project.session() as session:
        run = project.run(session)
        assert (run.state.value, run.tasks_succeeded) == ("SUCCEEDED", 4)
        assert (tmp_path / "told").read_text() == "6 100000"
        assets = session.service.engine.state.assets.rows
        assert assets["nothing"].last_output_uri == ""
        stored = {path.parent.parent.name for path in tmp_path.rglob("_commit.json")}
        assert stored == {"numbers", "large", "total"}


def test_an_input_that_was_made_earlier_is_used(tmp_path: Path) -> None:
    project = Project(
        tmp_path,
        """
        @asset
        def a():
            return 1

        @asset
        def b(a):
            assert a == 1
        """,
    )
    with project.session() as session:
        assert project.run(session, "b", key="too early").state.value == "FAILED"
        assert project.run(session, "a", key="first").state.value == "SUCCEEDED"
        assert project.run(session, "b", key="second").state.value == "SUCCEEDED"


def test_what_user_code_raises_is_recorded_and_what_depends_on_it_is_skipped(
    tmp_path: Path,
) -> None:
    project = Project(
        tmp_path,
        """
        @asset
        def fails():
            raise ValueError("no good")

        @asset(deps=[fails])
        def below(): ...

        @asset
        def beside(): ...
        """,
    )
    with project.session() as session:
        run = project.run(session)
        assert (run.tasks_failed, run.tasks_skipped, run.tasks_succeeded) == (1, 1, 1)
        failed = task(session, run, "fails")
        assert failed.error_message == "ValueError: no good"


@pytest.mark.parametrize(
    "death", ["os._exit(3)", "os.kill(os.getpid(), 9)", "import ctypes; ctypes.string_at(0)"]
)
def test_a_process_that_dies_fails_its_task_and_nothing_else(tmp_path: Path, death: str) -> None:
    project = Project(
        tmp_path,
        f"""
        import os

        @asset
        def deadly():
            {death}

        def make(name):
            def fn(): ...
            fn.__name__ = name
            return asset(fn)

        others = [make(f"other_{{n}}") for n in range(30)]
        for other in others:
            globals()[other.name] = other
        """,
    )
    with project.session() as session:
        run = project.run(session)
        assert (run.tasks_failed, run.tasks_succeeded) == (1, 30)
        assert "ended with" in task(session, run, "deadly").error_message
        assert project.run(session, "other_1", key="again").tasks_succeeded == 1


def test_code_that_cannot_be_imported_is_told_at_the_start(tmp_path: Path) -> None:
    project = Project(tmp_path, "@asset\ndef a(): ...\n")
    (tmp_path / "assets.py").write_text("import there_is_no_such_module\n")
    with pytest.raises(Invalid, match="there_is_no_such_module"), project.session():
        pass


SLEEPER = """
    import time
    from pathlib import Path

    @asset{options}
    def sleeper():
        Path("began").touch()
        try:
            time.sleep(60)
        finally:
            Path("cleaned").touch()

    @asset
    def beside():
        return 1
"""


def test_a_cancelled_run_interrupts_what_runs_and_it_can_clean_up(tmp_path: Path) -> None:
    project = Project(tmp_path, SLEEPER.format(options=""))
    with project.session() as session:
        plan = plan_assets(project.definitions, project.definitions.order)
        run = start_plan(session, plan, "one")
        eventually((tmp_path / "began").exists)
        _ = cancel_run(session.workspace, run)
        ended = session.wait(run, LIMIT)
        assert ended is not None
        assert ended.state.value == "CANCELLED"
        assert (tmp_path / "cleaned").exists()
        assert project.run(session, "beside", key="after").state.value == "SUCCEEDED"


def test_a_run_that_is_ended_by_force_leaves_no_process_behind(tmp_path: Path) -> None:
    project = Project(
        tmp_path,
        """
        import os, time
        from pathlib import Path

        @asset
        def stubborn():
            Path("pid.part").write_text(str(os.getpid()))
            Path("pid.part").rename("pid")
            while True:
                try:
                    time.sleep(60)
                except BaseException:
                    pass

        @asset
        def beside():
            return 1
        """,
    )
    with project.session() as session:
        plan = plan_assets(project.definitions, [AssetKey("stubborn")])
        run = start_plan(session, plan, "one")
        eventually((tmp_path / "pid").exists)
        _ = cancel_run(session.workspace, run, force=True)
        row = session.row(run)
        assert row is not None
        assert (row.state.value, row.cancel_forced) == ("CANCELLED", True)
        process = Path("/proc") / (tmp_path / "pid").read_text()
        eventually(lambda: not process.exists(), 5)  # half of what it would have had
        assert project.run(session, "beside", key="after").state.value == "SUCCEEDED"


def test_an_asset_that_takes_too_long_is_stopped_and_fails(tmp_path: Path) -> None:
    project = Project(tmp_path, SLEEPER.format(options="(timeout=0.5)"))
    with project.session() as session:
        run = project.run(session)
        assert (run.state.value, run.tasks_failed, run.tasks_succeeded) == ("FAILED", 1, 1)
        assert task(session, run, "sleeper").outcome == "TIMED_OUT"
        eventually((tmp_path / "cleaned").exists)
        assert project.run(session, "beside", key="after").state.value == "SUCCEEDED"


def test_what_is_interrupted_by_a_shutdown_is_done_by_the_next_session(tmp_path: Path) -> None:
    project = Project(tmp_path, SLEEPER.format(options=""))
    with project.session() as session:
        plan = plan_assets(project.definitions, project.definitions.order)
        run = start_plan(session, plan, "one")
        eventually((tmp_path / "began").exists)
        session.pool.drain()
        eventually(lambda: not session.service.engine.state.index.running)
    (tmp_path / "assets.py").write_text(
        "from servo import asset\n\n@asset\ndef sleeper(): ...\n@asset\ndef beside(): ..."
    )
    with project.session() as session:
        ended = session.wait(run, LIMIT)  # it may have ended before anybody asks
        assert ended is not None
        assert ended.tasks_succeeded == 2


def test_what_an_execution_prints_is_kept_by_attempt(tmp_path: Path) -> None:
    project = Project(
        tmp_path,
        """
        import os
        import sys

        @asset(key=["a b", "größe"])
        def loud(context):
            print("plain")
            print("to error", file=sys.stderr)
            context.log.warning("logged %s", 7)
            os.system("echo from a subprocess")

        @asset
        def quiet(): ...
        """,
    )
    with project.session() as session:
        run = project.run(session)
        assert run.tasks_succeeded == 2
    (kept,) = (tmp_path / "store").rglob("*.txt")
    text = kept.read_text()
    for line in ("plain", "to error", "WARNING logged 7", "from a subprocess"):
        assert line in text


def test_what_an_execution_raises_is_kept_with_what_it_prints(tmp_path: Path) -> None:
    project = Project(
        tmp_path,
        """
        @asset
        def broken():
            print("so far so good")
            raise ValueError("no header")
        """,
    )
    with project.session() as session:
        assert project.run(session).tasks_failed == 1
    (kept,) = (tmp_path / "store").rglob("*.txt")
    first, *_, last = kept.read_text().splitlines()
    assert (first, last) == ("so far so good", "ValueError: no header")
    assert "servo/worker" not in kept.read_text()


def test_a_second_session_in_a_workspace_is_told_that_somebody_is_at_work(tmp_path: Path) -> None:
    project = Project(tmp_path, "@asset\ndef a(): ...\n")
    with project.session() as session:
        with pytest.raises(Conflict, match="leads this workspace"):
            LeadingHost(project.setup, workers=1)
        assert project.run(session).state.value == "SUCCEEDED"
    with project.session():
        pass


def test_code_that_ends_its_process_when_it_is_imported_is_told(tmp_path: Path) -> None:
    project = Project(tmp_path, "@asset\ndef a(): ...\n")
    (tmp_path / "assets.py").write_text("import os\nos.kill(os.getpid(), 9)\n")
    told = "while they import the code, with SIGKILL"
    with pytest.raises(Invalid, match=told), project.session():
        pass


def test_code_that_breaks_while_a_run_goes_on_ends_the_wait(tmp_path: Path) -> None:
    project = Project(tmp_path, "import os\n@asset\ndef deadly():\n    os._exit(1)\n")
    with project.session(workers=1) as session:
        (tmp_path / "assets.py").write_text("def broken(:")
        assert project.run(session).state.value == "FAILED"
        plan = plan_assets(project.definitions, project.definitions.order)
        with pytest.raises(Invalid, match="SyntaxError"):
            session.wait(start_plan(session, plan, "again"), LIMIT)


def test_what_is_too_much_to_report_fails_the_task_and_is_told(tmp_path: Path) -> None:
    project = Project(
        tmp_path,
        """
        @asset
        def wordy():
            raise ValueError("x" * 1_000_000 + "\\ud800")

        @asset
        def laden(context):
            context.add_output_metadata({"all": "x" * 1_000_000})
        """,
    )
    with project.session() as session:
        run = project.run(session)
        assert run.tasks_failed == 2
        assert task(session, run, "wordy").error_message.startswith("ValueError: xxx")
        assert task(session, run, "laden").error_code == "ReportRefused"


def test_threads_and_processes_that_user_code_leaves_behind_hold_nobody_up(tmp_path: Path) -> None:
    project = Project(
        tmp_path,
        """
        import os
        import threading
        import time

        @asset
        def leaves_a_thread():
            threading.Thread(target=time.sleep, args=(600,)).start()

        @asset(deps=[leaves_a_thread])
        def leaves_a_process():
            if os.fork() == 0:
                time.sleep(3)
                os._exit(0)
            os.kill(os.getpid(), 9)
        """,
    )
    with project.session(workers=1) as session:
        run = project.run(session)
        assert (run.tasks_succeeded, run.tasks_failed) == (1, 1)
        assert "SIGKILL" in task(session, run, "leaves_a_process").error_message
