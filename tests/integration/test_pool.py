"""What a pool owes when things go wrong: nothing outlives a task, nothing is lost or done twice."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from textwrap import dedent
from threading import Event, Timer

import pytest
from msgspec.structs import replace

from servo.code.loader import load_project
from servo.config import WorkerSettings
from servo.core.keys import AssetKey
from servo.core.state.rows.execution import RunRow, TaskRow
from servo.errors import Unavailable
from servo.host.leading import LeadingHost
from servo.operations.runs import cancel_run
from servo.planning.assets import plan_assets
from servo.ports.object_store import Blob, ObjectMeta, ObjectStore
from servo.ports.world import World
from servo.sdk.triggers.resolution import declared
from servo.testing.eventually import eventually
from servo.testing.planned_runs import start_plan
from servo.testing.process_setups import setup_for
from servo.workspace.composition import open_world
from servo.workspace.leader_lock import leader_here
from servo.workspace.system import SystemClock

LIMIT = 60
HEAD = """
from servo.sdk.assets.asset import asset
from servo.sdk.triggers.resolution import declared
import os
import signal
import subprocess
import time
from pathlib import Path
"""


class Project:
    """A folder with a file of assets, and the session that runs it."""

    def __init__(self, folder: Path, code: str) -> None:
        self.folder = folder
        self.write(code)
        self.definitions = load_project("assets.py", folder)
        self.setup = setup_for("assets.py", folder, str(folder / "store"))

    def write(self, code: str) -> None:
        (self.folder / "assets.py").write_text(HEAD + dedent(code))

    @contextmanager
    def session(
        self,
        workers: int = 1,
        *,
        limits: WorkerSettings | None = None,
        world: World | None = None,
    ) -> Generator[LeadingHost]:
        with LeadingHost(self.setup, workers=workers, limits=limits, world=world) as session:
            session.deploy("assets.py", declared(self.definitions))
            yield session

    def request(self, session: LeadingHost, *names: str, key: str = "one") -> str:
        keys = [AssetKey(name) for name in names] or self.definitions.order
        return start_plan(session, plan_assets(self.definitions, keys), key)

    def run(self, session: LeadingHost, *names: str, key: str = "one") -> RunRow:
        ended = session.wait(self.request(session, *names, key=key), LIMIT)
        assert ended is not None
        return ended

    def told(self, name: str) -> list[int]:
        path = self.folder / name
        return [int(queue) for queue in path.read_text().split()] if path.exists() else []


def task(session: LeadingHost, run: str, name: str) -> TaskRow:
    return session.service.engine.state.tasks.rows[run, f"{name}:materialize"]


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def workers_of(pid: int) -> list[int]:
    """The worker processes of a process, by their numbers."""
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = (path / "stat").read_text().rpartition(")")[2].split()[1]
            command = (path / "cmdline").read_bytes()
        except OSError:
            continue
        if int(parent) == pid and b"servo.workers.local_pool.process" in command:
            found.append(int(path.name))
    return found


# --- nothing outlives a task ----------------------------------------------------------------------

STARTS = """
    def start(**how):
        started = subprocess.Popen(["sleep", "600"], **how)
        Path("started.tmp").write_text(str(started.pid))
        Path("started.tmp").rename("started")

    @asset
    def sleeps():
        start()
        time.sleep(600)

    @asset(timeout=0.5)
    def too_slow():
        start()
        time.sleep(600)

    @asset
    def waits_in_c():
        os.system("sleep 600 & echo $! > started.tmp; mv started.tmp started; wait")

    @asset
    def has_a_daemon():
        start(start_new_session=True)
        time.sleep(600)

    @asset
    def dies():
        start()
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("name", ["sleeps", "waits_in_c", "too_slow", "has_a_daemon", "dies"])
def test_what_an_execution_started_dies_with_it(tmp_path: Path, name: str) -> None:
    project = Project(tmp_path, STARTS)
    with project.session() as session:
        run = project.request(session, name)
        eventually((tmp_path / "started").exists)
        (pid,) = project.told("started")
        if name not in ("dies", "too_slow"):
            assert lives(pid)
            _ = cancel_run(session.workspace, run)
        assert session.wait(run, LIMIT) is not None
        eventually(lambda: not lives(pid), 5)


@pytest.mark.parametrize("name", ["sleeps", "has_a_daemon"])
def test_what_an_execution_started_dies_with_a_pool_that_stops(tmp_path: Path, name: str) -> None:
    project = Project(tmp_path, STARTS)
    with project.session() as session:
        project.request(session, name)
        eventually((tmp_path / "started").exists)
    (pid,) = project.told("started")
    eventually(lambda: not lives(pid), 5)


@pytest.mark.kill
@pytest.mark.parametrize("name", ["sleeps", "has_a_daemon"])
def test_what_an_execution_started_dies_with_a_pool_that_is_killed(
    tmp_path: Path, name: str
) -> None:
    project = Project(tmp_path, STARTS)
    command = "from servo.cli.main import main; main()"
    pool = subprocess.Popen(
        [sys.executable, "-c", command, "materialize", "assets.py", name],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    eventually((tmp_path / "started").exists)
    (pid,) = project.told("started")
    assert lives(pid)
    pool.kill()
    pool.wait()
    eventually(lambda: not lives(pid), 5)


def test_what_was_started_without_the_mark_lives_on(tmp_path: Path) -> None:
    project = Project(
        tmp_path,
        """
        @asset
        def leaves_a_daemon():
            rest = {name: value for name, value in os.environ.items() if name != "SERVO_WORKER"}
            started = subprocess.Popen(["sleep", "600"], env=rest, start_new_session=True)
            Path("started").write_text(str(started.pid))
        """,
    )
    with project.session() as session:
        assert project.run(session).tasks_succeeded == 1
    (pid,) = project.told("started")
    assert lives(pid)
    os.kill(pid, signal.SIGKILL)


def test_nobody_can_read_the_store_in_the_arguments_of_a_process(tmp_path: Path) -> None:
    project = Project(tmp_path, "@asset\ndef a(): ...\n")
    with project.session():
        (pid,) = workers_of(os.getpid())
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    assert str(tmp_path).encode() not in command


# --- what never began -----------------------------------------------------------------------------


def test_what_a_process_never_began_is_done_by_another_at_no_cost(tmp_path: Path) -> None:
    project = Project(
        tmp_path,
        """
        @asset
        def a():
            Path("pid").write_text(str(os.getpid()))
        """,
    )
    with project.session() as session:
        (pid,) = workers_of(os.getpid())
        os.kill(pid, signal.SIGSTOP)  # it is given the execution and does not look
        run = project.request(session)
        eventually(session.pool.at_work)
        os.kill(pid, signal.SIGKILL)
        ended = session.wait(run, LIMIT)
        assert ended is not None
        assert ended.state.value == "SUCCEEDED"
        row = task(session, run, "a")
        assert (row.attempt, row.user_failures, row.infra_losses) == (1, 0, 0)
        assert project.told("pid") != [pid]


@pytest.mark.slow
def test_what_kills_every_process_before_it_begins_is_given_up(tmp_path: Path) -> None:
    project = Project(
        tmp_path,
        """
        from servo.workers.local_pool import crash_record

        if "servo.workers.local_pool.process" in " ".join(__import__("sys").orig_argv):
            with Path("pids").open("a") as file:
                print(os.getpid(), file=file)
            crash_record.CrashRecord.one_more = lambda self: os._exit(5)

        @asset
        def a(): ...
        """,
    )
    with project.session() as session:
        run = project.run(session)
        assert run.state.value == "FAILED"
        assert task(session, run.run_id, "a").error_message.endswith("exit code 5")
        assert 4 <= len(project.told("pids")) <= 5


# --- leaving --------------------------------------------------------------------------------------

STUBBORN = """
    @asset
    def stubborn():
        Path("began").touch()
        while True:
            try:
                time.sleep(60)
            except BaseException:
                Path("asked").touch()
"""


def test_what_ignores_the_request_to_stop_is_reported_within_the_limit(tmp_path: Path) -> None:
    project = Project(tmp_path, STUBBORN)
    clock = SystemClock()
    with project.session() as session:
        run = project.request(session)
        eventually((tmp_path / "began").exists)
        began = clock.monotonic()
        session.pool.drain(timedelta(seconds=2))
        took = clock.monotonic() - began
        eventually(lambda: task(session, run, "stubborn").state.value != "RUNNING", 1)
        assert took < 2
        assert task(session, run, "stubborn").infra_losses == 1
        assert (tmp_path / "asked").exists()


HELD = """
    @asset
    def held():
        Path("began").touch()
        while not Path("go").exists():
            time.sleep(0.01)

    @asset
    def beside(): ...
"""


def test_a_pool_with_a_free_process_takes_more_while_it_works(tmp_path: Path) -> None:
    project = Project(tmp_path, HELD)
    with project.session(workers=2) as session:
        run = project.request(session, "held")
        eventually((tmp_path / "began").exists)
        assert project.run(session, "beside", key="two").state.value == "SUCCEEDED"
        assert task(session, run, "held").state.value == "RUNNING"
        (tmp_path / "go").touch()
        ended = session.wait(run, LIMIT)
        assert ended is not None
        assert ended.state.value == "SUCCEEDED"


def test_what_a_session_left_undone_is_done_by_the_next_in_the_same_process(tmp_path: Path) -> None:
    project = Project(tmp_path, STUBBORN)
    with project.session() as session:
        run = project.request(session)
        eventually((tmp_path / "began").exists)
    project.write("@asset\ndef stubborn(): ...\n")
    with project.session() as session:
        ended = session.wait(run, LIMIT)  # it may have ended before anybody asks
        assert ended is not None
        assert ended.tasks_succeeded == 1


def test_a_session_that_cannot_start_a_process_leaves_nothing_behind(tmp_path: Path) -> None:
    project = Project(tmp_path, "@asset\ndef a(): ...\n")
    gone = replace(project.setup.location, folder=str(tmp_path / "gone"))
    nowhere = replace(project.setup, location=gone)
    with pytest.raises(FileNotFoundError, match="gone"), LeadingHost(nowhere, workers=1):
        raise AssertionError("it must not begin")
    assert leader_here(project.setup.address) is None


# --- a leader that cannot be sure -----------------------------------------------------------------


class Doubtful(ObjectStore):
    """A store that does what it is told and does not say so, then is away for a while."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self.away = 0
        self.doubtful: bytes | None = None

    def _look(self) -> None:
        if self.away > 0:
            self.away -= 1
            raise Unavailable("the store is away")

    def create(self, key: str, data: bytes) -> ObjectMeta:
        self._look()
        made = self._store.create(key, data)
        if self.doubtful is not None and "ledger/" in key and self.doubtful in data:
            self.doubtful, self.away = None, 6
            raise Unavailable("no answer")
        return made

    def get(self, key: str) -> Blob:
        self._look()
        return self._store.get(key)

    def get_range(self, key: str, *, start: int, length: int) -> bytes:
        self._look()
        return self._store.get_range(key, start=start, length=length)

    def put(self, key: str, data: bytes) -> ObjectMeta:
        self._look()
        return self._store.put(key, data)

    def replace_if(self, key: str, data: bytes, *, version: str) -> ObjectMeta:
        self._look()
        return self._store.replace_if(key, data, version=version)

    def list_after(
        self, prefix: str, *, after: str = "", limit: int | None = None
    ) -> Sequence[ObjectMeta]:
        self._look()
        return self._store.list_after(prefix, after=after, limit=limit)

    def delete(self, key: str) -> None:
        self._look()
        self._store.delete(key)


class Full(Doubtful):
    """A store that takes its time to say that it cannot take a report."""

    reporting = False
    answer = Event()

    def create(self, key: str, data: bytes) -> ObjectMeta:
        if self.reporting and "ledger/" in key:
            self.answer.wait(LIMIT)
            raise Unavailable("the disk is full", may_have_applied=False)
        return super().create(key, data)


@pytest.mark.slow
def test_a_report_that_was_refused_while_everything_ended_is_made_up_for_by_the_next(
    tmp_path: Path,
) -> None:
    project = Project(
        tmp_path, "@asset\ndef a():\n    Path('began').touch()\n    time.sleep(600)\n"
    )
    opened = open_world(project.setup.address.store)
    store = Full(opened.store)
    with project.session(world=World(store, opened.clock, opened.entropy)) as session:
        run = project.request(session)
        eventually((tmp_path / "began").exists)
        store.reporting = True
        session.interrupt()
        # The processes end at once, and the leader still waits for its answer.
        Timer(1, store.answer.set).start()
    project.write("@asset\ndef a(): ...\n")
    with project.session() as session:
        ended = session.wait(run, LIMIT)
        assert ended is not None
        assert ended.tasks_succeeded == 1


@pytest.mark.parametrize("doubtful", [b'"handover"', b'"TaskFinished"'])
def test_a_grant_that_was_never_handed_over_is_given_back_and_its_name_not_used_again(
    tmp_path: Path, doubtful: bytes
) -> None:
    project = Project(
        tmp_path,
        """
        def make(name):
            def fn():
                with Path("made").open("a") as file:
                    print(len(name), file=file)
            fn.__name__ = name
            return asset(fn)

        for n in range(1, 9):
            globals()["a" * n] = make("a" * n)
        """,
    )
    opened = open_world(project.setup.address.store)
    store = Doubtful(opened.store)
    world = World(store, opened.clock, opened.entropy)
    with project.session(workers=2, world=world) as session:
        store.doubtful = doubtful
        with suppress(Unavailable):
            project.request(session)
        eventually(lambda: store.doubtful is None)

        def made() -> int:
            with suppress(Unavailable):  # nobody leads right now
                rows = list(session.service.engine.state.runs.rows.values())
                return rows[0].tasks_succeeded
            return 0

        eventually(lambda: made() == 8, 20)
        (run,) = [row.run_id for row in session.service.engine.state.runs.rows.values()]
        rows = session.tasks(run)
        assert not any(row.user_failures for row in rows)
    ledger = b"".join(path.read_bytes() for path in (tmp_path / "store").glob("*/*/ledger/*/*"))
    granted = re.findall(rb'"handover":{"exec_id":"(\w+)"', ledger)
    assert len(granted) == len(set(granted)) >= 8
    assert sorted(project.told("made")) == list(range(1, 9))


# --- who waits for whom ---------------------------------------------------------------------------

SHORT = """
    def make(name, fn, **options):
        def made():
            fn()
        made.__name__ = name
        globals()[name] = asset(**options)(made)

    for n in range(60):
        make(f"warm{n}", lambda: None)
"""
WARM = [f"warm{n}" for n in range(60)]


@pytest.mark.parametrize("size", [0, 20_000])
def test_nothing_waits_behind_an_execution_that_takes_long(tmp_path: Path, size: int) -> None:
    project = Project(
        tmp_path,
        SHORT
        + """
    def touch():
        with Path("made").open("a") as file:
            print(1, file=file)

    for n in range(40):
        make(f"short{n}", touch)

    @asset(op_tags={"servo/priority": "1"})
    def first():
        until = time.monotonic() + 30  # it ends when all that were granted with it have
        while Path("made").read_text().count("1") < 40 if Path("made").exists() else True:
            if time.monotonic() > until:
                raise TimeoutError("others wait for this one")
            time.sleep(0.01)
    """,
    )
    with project.session(workers=2) as session:
        assert project.run(session, *WARM, key="warm").state.value == "SUCCEEDED"
        keys = [AssetKey(name) for name in ["first", *[f"short{n}" for n in range(40)]]]
        plan = plan_assets(project.definitions, keys)
        tags = {"note": "x" * size}  # what lies ready has to fit into a socket that nobody reads
        run = session.wait(start_plan(session, plan, "mixed", tags=tags), LIMIT)
        assert run is not None
        assert run.state.value == "SUCCEEDED"


@pytest.mark.slow
def test_what_has_to_wait_is_given_back_and_its_time_does_not_run(tmp_path: Path) -> None:
    project = Project(
        tmp_path,
        SHORT
        + """
    for n in range(8):
        make(f"long{n}", lambda: time.sleep(0.5), timeout=1.4)
    """,
    )
    with project.session(workers=2) as session:
        assert project.run(session, *WARM, key="warm").state.value == "SUCCEEDED"
        names = [f"long{n}" for n in range(8)]
        run = project.run(session, *names, key="long")
        rows = [task(session, run.run_id, name) for name in names]
        told = [(row.state.value, row.attempt, row.infra_losses) for row in rows]
        assert told == [("SUCCEEDED", 1, 0)] * 8


def test_what_no_process_has_begun_when_the_pool_drains_has_cost_nothing(tmp_path: Path) -> None:
    project = Project(
        tmp_path,
        SHORT
        + """
    def begin():
        with Path("begun").open("a") as file:
            print(1, file=file)
        time.sleep(600)

    for n in range(30):
        make(f"long{n}", begin)
    """,
    )
    with project.session(workers=2) as session:
        assert project.run(session, *WARM, key="warm").state.value == "SUCCEEDED"
        run = project.request(session, *[f"long{n}" for n in range(30)], key="long")
        eventually(lambda: len(project.told("begun")) == 2)
        session.pool.drain(timedelta(seconds=20))
        eventually(lambda: not session.service.engine.state.index.running)
        rows = [row for row in session.tasks(run) if row.asset_key.startswith("long")]
        assert sum(row.infra_losses for row in rows) == 2
        assert sorted({row.state.value for row in rows}) == ["READY"]


# --- replaced and alone ---------------------------------------------------------------------------

MANY = """
    def make(name, **options):
        def fn():
            with Path("pids").open("a") as file:
                print(os.getpid(), file=file)
        fn.__name__ = name
        return asset(**options)(fn)

    for n in range(12):
        globals()[f"a{n}"] = make(f"a{n}")
    for n in range(3):
        globals()[f"alone{n}"] = make(f"alone{n}", isolation="process")
"""


def test_a_process_is_replaced_after_so_many_executions(tmp_path: Path) -> None:
    project = Project(tmp_path, MANY)
    with project.session(limits=WorkerSettings(max_executions=3)) as session:
        (first,) = workers_of(os.getpid())
        assert project.run(session, "a0", "a1").tasks_succeeded == 2
        assert workers_of(os.getpid()) == [first]
        assert project.run(session, "a0", key="two").tasks_succeeded == 1
        eventually(lambda: first not in workers_of(os.getpid()))
        (second,) = workers_of(os.getpid())
        assert project.run(session, "a0", key="three").tasks_succeeded == 1
    assert project.told("pids") == [first, first, first, second]


def test_the_old_process_works_until_the_new_one_can(tmp_path: Path) -> None:
    project = Project(
        tmp_path,
        """
        if Path("pids").exists():
            while not Path("go").exists():  # every process but the first takes its time to start
                time.sleep(0.01)
        """
        + dedent(MANY).replace("\n", "\n        "),
    )
    names = [f"a{n}" for n in range(12)]
    with project.session(limits=WorkerSettings(max_executions=1)) as session:
        run = project.run(session, *names)
        rows = session.tasks(run.run_id)
        assert {(row.state.value, row.attempt) for row in rows} == {("SUCCEEDED", 1)}
        (old,) = set(project.told("pids"))
        (tmp_path / "go").touch()
        eventually(lambda: old not in workers_of(os.getpid()))
        assert project.run(session, "a0", key="two").tasks_succeeded == 1
        assert project.told("pids")[-1] != old


@pytest.mark.slow
def test_a_process_that_holds_too_much_memory_is_replaced(tmp_path: Path) -> None:
    project = Project(
        tmp_path,
        """
        kept = []

        @asset
        def small(): ...

        @asset
        def large():
            kept.append(b"x" * 300_000_000)
        """,
    )
    with project.session(limits=WorkerSettings(max_memory_bytes=280_000_000)) as session:
        before = workers_of(os.getpid())
        assert project.run(session, "small").tasks_succeeded == 1
        assert workers_of(os.getpid()) == before
        assert project.run(session, "large", key="two").tasks_succeeded == 1
        eventually(lambda: not set(before) & set(workers_of(os.getpid())))
        assert project.run(session, "small", key="three").tasks_succeeded == 1


@pytest.mark.slow
def test_an_isolated_execution_has_a_process_of_its_own_that_ends_after_it(tmp_path: Path) -> None:
    project = Project(tmp_path, MANY)
    with project.session() as session:
        for turn in range(2):
            assert project.run(session, "a0", key=f"warm {turn}").tasks_succeeded == 1
            run = project.run(session, "alone0", "alone1", "alone2", key=f"alone {turn}")
            assert run.tasks_succeeded == 3
        pids = project.told("pids")
        alone = [pid for n, pid in enumerate(pids) if n not in (0, 4)]
        assert len(set(alone)) == 6
        assert pids[0] not in alone
        eventually(lambda: not [pid for pid in alone if lives(pid)], 5)
        eventually(lambda: len(workers_of(os.getpid())) == 1, 5)


@pytest.mark.parametrize("by", ["setup", "run"])
def test_everything_can_be_isolated(tmp_path: Path, by: str) -> None:
    project = Project(tmp_path, MANY)
    limits = WorkerSettings(isolate=by == "setup")
    tags = {"servo/isolation": "process"} if by == "run" else {}
    with project.session(workers=2, limits=limits) as session:
        plan = plan_assets(project.definitions, [AssetKey(f"a{n}") for n in range(4)])
        ended = session.wait(start_plan(session, plan, "one", tags=tags), LIMIT)
        assert ended is not None
        assert ended.tasks_succeeded == 4
    assert len(set(project.told("pids"))) == 4


def test_what_is_not_isolated_does_not_wait_for_what_is(tmp_path: Path) -> None:
    project = Project(
        tmp_path,
        """
        @asset(isolation="process")
        def alone():
            while not Path("made").exists():
                time.sleep(0.01)

        @asset
        def beside():
            Path("made").touch()
        """,
    )
    with project.session(workers=2) as session:
        assert project.run(session, "beside", key="warm").tasks_succeeded == 1
        (tmp_path / "made").unlink()
        assert project.run(session).tasks_succeeded == 2
