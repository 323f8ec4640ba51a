"""Priorities, pools and quotas, from what people type to what runs."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent

import pytest

from servo.cli.main import run as servo
from servo.code.loader import load_project
from servo.core.keys import AssetKey
from servo.core.state.rows.execution import RunRow
from servo.host.leading import LeadingHost
from servo.planning.assets import plan_assets
from servo.sdk.triggers.resolution import declared
from servo.testing.eventually import eventually
from servo.testing.planned_runs import start_plan
from servo.testing.process_setups import setup_for

LIMIT = 60
HEAD = """
from servo.sdk.assets.asset import asset
from servo.sdk.triggers.resolution import declared
import time
from pathlib import Path
"""


class Project:
    """A folder with a file of assets, and the session that runs it."""

    def __init__(self, folder: Path, code: str) -> None:
        self.folder = folder
        (folder / "assets.py").write_text(HEAD + dedent(code))
        self.definitions = load_project("assets.py", folder)
        self.setup = setup_for("assets.py", folder, str(folder / "store"))

    @contextmanager
    def session(self, workers: int = 1) -> Generator[LeadingHost]:
        with LeadingHost(self.setup, workers=workers) as session:
            session.deploy("assets.py", declared(self.definitions))
            yield session

    def request(self, session: LeadingHost, *names: str, key: str = "one") -> str:
        keys = [AssetKey(name) for name in names]
        return start_plan(session, plan_assets(self.definitions, keys), key)

    def run(self, session: LeadingHost, *names: str, key: str = "one") -> RunRow:
        ended = session.wait(self.request(session, *names, key=key), LIMIT)
        assert ended is not None
        return ended

    def told(self, name: str) -> list[int]:
        path = self.folder / name
        return [int(line) for line in path.read_text().split()] if path.exists() else []


POOLED = """
    def make(name, **options):
        def fn():
            mine = Path("at-work") / name
            mine.touch()
            beside = len(list(Path("at-work").iterdir()))
            with Path("beside").open("a") as file:
                print(beside, file=file)
            time.sleep(0.1)
            mine.unlink()
        fn.__name__ = name
        return asset(**options)(fn)

    for n in range(4):
        globals()[f"pooled{n}"] = make(f"pooled{n}", pool="warehouse")
    for n in range(4):
        globals()[f"free{n}"] = make(f"free{n}")

    def meet(mine, other):
        Path(mine).touch()
        while not Path(other).exists():
            time.sleep(0.01)

    @asset(pool="warehouse")
    def one():
        meet("one-is-here", "other-is-here")

    @asset(pool="other")
    def other():
        meet("other-is-here", "one-is-here")
"""
POOLED_NAMES = [f"pooled{n}" for n in range(4)]


def project_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(folder)
    (folder / "at-work").mkdir()
    (folder / "store").mkdir()
    return Project(folder, POOLED)


def test_a_pool_has_no_more_at_work_than_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project = project_in(tmp_path, monkeypatch)
    assert servo(["admin", "pool", "set", "warehouse", "1", "--store", "store"]) == 0
    with project.session(workers=3) as session:
        assert project.run(session, *POOLED_NAMES).tasks_succeeded == 4
        assert project.told("beside") == [1, 1, 1, 1]
        # Another pool is not held up, and a limit is one of the pool and not of the machine.
        assert project.run(session, "one", "other", key="two").tasks_succeeded == 2
    capsys.readouterr()
    assert servo(["admin", "pool", "list", "--json", "--store", "store"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["items"]
    assert (row["name"], row["max_concurrent_tasks"]) == ("warehouse", 1)


@pytest.mark.slow
def test_a_limit_that_is_lifted_while_tasks_wait_lets_them_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = project_in(tmp_path, monkeypatch)
    assert servo(["admin", "pool", "set", "warehouse", "0", "--store", "store"]) == 0
    with project.session() as session:
        run = project.request(session, "pooled0", "free0")
        eventually(lambda: len(project.told("beside")) == 1)
        row = session.row(run)
        assert row is not None
        assert row.tasks_succeeded <= 1
        assert servo(["admin", "pool", "remove", "warehouse", "--store", "store"]) == 0
        ended = session.wait(run, LIMIT)
        assert ended is not None
        assert ended.tasks_succeeded == 2
    assert servo(["admin", "pool", "list", "--store", "store"]) == 0


def test_a_workspace_has_no_more_at_work_than_its_quota(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project = project_in(tmp_path, monkeypatch)
    assert servo(["admin", "quota", "--max-parallel", "1", "--store", "store"]) == 0
    with project.session(workers=3) as session:
        assert project.run(session, *POOLED_NAMES, "free0", "free1").tasks_succeeded == 6
    assert project.told("beside") == [1] * 6
    capsys.readouterr()
    assert servo(["admin", "quota", "--json", "--store", "store"]) == 0
    limits = {row["name"]: row["limit"] for row in json.loads(capsys.readouterr().out)["items"]}
    assert (limits["max_concurrent_tasks"], limits["max_concurrent_runs"]) == (1, None)


ORDERED = """
    def make(name, **options):
        def fn():
            while not Path("go").exists():
                time.sleep(0.01)
            with Path("order").open("a") as file:
                print(int(name[1:]), file=file)
        fn.__name__ = name
        return asset(**options)(fn)

    a1 = make("a1")
    a2 = make("a2", op_tags={"servo/priority": "5"})
    a3 = make("a3", op_tags={"dagster/priority": "-5"})
    a4 = make("a4", op_tags={"dagster/priority": 7})
    a9 = make("a9")
"""


def test_what_has_the_higher_priority_goes_first(tmp_path: Path) -> None:
    project = Project(tmp_path, ORDERED)
    (tmp_path / "go").touch()
    with project.session() as session:
        assert project.run(session, "a1", "a2", "a3", "a4").tasks_succeeded == 4
    assert project.told("order") == [4, 2, 1, 3]


def test_a_run_with_a_higher_priority_goes_first(tmp_path: Path) -> None:
    project = Project(tmp_path, ORDERED)
    with project.session() as session:

        def ask(name: str, priority: str | None = None) -> str:
            plan = plan_assets(project.definitions, [AssetKey(name)])
            tags = {"servo/priority": priority} if priority else {}
            return start_plan(session, plan, f"run of {name}", tags=tags)

        runs = [ask("a9")]
        eventually(session.pool.at_work)  # it holds the only worker until it may go
        runs += [ask("a3"), ask("a1", "-1"), ask("a2", "-10"), ask("a4", "-1000")]
        (tmp_path / "go").touch()
        for run in runs:
            ended = session.wait(run, LIMIT)
            assert ended is not None
            assert ended.tasks_succeeded == 1
    # -5 alone, 0 - 1, 5 - 10 and 7 - 1000; of two that are equal the first comes first.
    assert project.told("order") == [9, 1, 3, 2, 4]
