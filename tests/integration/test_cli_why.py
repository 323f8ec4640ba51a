"""`servo why` and `servo why-not`, on what really ran and on what only the ledger tells of."""

import json
import re
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple

import pytest

from servo.cli.main import run
from servo.code.loader import load_project
from servo.core.events.assets import AssetDefinition, DefinitionsDeployed
from servo.core.events.runs import PlanCreated, RunRequested, ScheduleSource
from servo.core.events.schedules import (
    SchedulePaused,
    ScheduleTicked,
    ScheduleUpserted,
    TickStatus,
)
from servo.core.events.tasks import TaskFinished, TaskOutcome
from servo.core.explain.finding import What
from servo.core.keys import AssetKey, TaskOperation, task_key_text
from servo.core.partitions import PartitionKey
from servo.core.plan import TaskSpec
from servo.host.leading import LeadingHost
from servo.planning.assets import plan_assets
from servo.sdk.triggers.resolution import declared
from servo.storage.from_url import store_from_url
from servo.testing.builders import task_key
from servo.testing.command_line import servo
from servo.testing.eventually import eventually
from servo.testing.planned_runs import start_plan
from servo.testing.process_setups import setup_for
from servo.testing.workspaces import StoredStory
from servo.workspace.system import SystemClock

LIMIT = 60
DOCS = Path(__file__).parents[2] / "docs"
CODE = """
    import time
    from pathlib import Path
    from servo import AssetCheckResult, RetryPolicy, asset, asset_check

    @asset(key_prefix="raw")
    def orders():
        raise ValueError("no header")

    @asset(deps=[orders])
    def clean(): ...

    @asset(deps=[clean])
    def report(): ...

    @asset(quarantine=True)
    def prices():
        return [3, -1]

    @asset_check(asset=prices, blocking=True)
    def positive(prices):
        return AssetCheckResult(passed=min(prices) > 0, description="1 price is below 0")

    @asset(retry_policy=RetryPolicy(max_retries=2, delay=3600))
    def flaky():
        raise ConnectionError("no route")

    @asset(pool="db")
    def first():
        while not Path("go").exists():
            time.sleep(0.02)

    @asset(pool="db")
    def second(): ...

    @asset
    def fine():
        return 1
    """


class Said(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """What was printed, without what differs from time to time."""
        return steady(self.out)


def steady(text: str) -> list[str]:
    """The lines of an answer without instants, ids, entries and places."""
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ", "<time>", text)
    text = re.sub(r"run_([a-z2-7]{26}|ab12)\b", "<run>", text)
    text = re.sub(r"\bx([0-9a-f]{20}|12ab)\b", "<output>", text)
    text = re.sub(r"  entry \d+", "", text)
    text = re.sub(r"\buser:[\w.+-]+@[\w.-]+", "<user>", text)
    return re.sub(r" --store \S+", "", text).splitlines()


def told(folder: Path, *arguments: str) -> Said:
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run([*arguments, "--store", str(folder / ".servo")])
    return Said(code, out.getvalue(), err.getvalue())


def found(folder: Path, *arguments: str) -> dict[str, Any]:
    said = told(folder, *arguments, "--json")
    assert said.code == 0, said.err
    return json.loads(said.out)


# --- what ran -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shop")
    (folder / "assets.py").write_text(dedent(CODE))
    chosen = ["raw/orders", "clean", "report", "prices", "fine"]
    done = servo(folder, "materialize", "assets.py", *chosen)
    assert done.returncode == 1, done.stderr
    return folder


def run_of(folder: Path) -> str:
    return json.loads(told(folder, "run", "list", "--json").out)["items"][0]["run_id"]


def test_a_skipped_asset_leads_to_the_failure_and_to_what_to_type(shop: Path) -> None:
    assert told(shop, "why", "report").lines == [
        "◌ report has never been materialized",
        "✘ report was skipped at <time> because of its upstream assets (in <run>)",
        "├── ✘ raw/orders failed at <time> (attempt 1 of 1): ValueError: no header (in between: "
        "clean)",
        "│     → it has no retry policy; see `servo logs <run> raw/orders`, "
        "fix the cause, and retry",
        "│       servo run retry <run>",
        "└── · started by hand by <user>; <time>",
        "· nothing starts it automatically: no schedule, sensor or condition covers it",
        "  → once that is resolved, materialize it by hand",
        "    servo materialize assets.py report",
    ]


def test_a_run_by_the_beginning_of_its_id(shop: Path) -> None:
    run_id = run_of(shop)
    lines = told(shop, "why", "run", run_id[:10]).lines
    assert lines[0] == "✘ <run> failed at <time>: 2 succeeded, 1 failed, 2 skipped of 5 tasks"
    assert lines[-1] == "└── · 2 tasks skipped because of that"
    assert told(shop, "why", run_id).lines == lines


def test_a_task_by_its_key_or_its_asset(shop: Path) -> None:
    run_id = run_of(shop)
    by_key = told(shop, "why", "task", run_id, "raw/orders:materialize")
    assert by_key.lines[0].startswith("✘ raw/orders failed at <time>")
    assert by_key.lines[-1] == "└── · started by hand by <user>; <time>"
    for name in ("raw/orders", "raw.orders", "orders"):
        assert told(shop, "why", "task", run_id, name).out == by_key.out
    unknown = told(shop, "why", "task", run_id, "nope")
    assert (unknown.code, unknown.err) == (
        3,
        f"error: {run_id} has no task for 'nope'; see `servo run show {run_id}`\n",
    )


def test_an_output_in_quarantine_says_how_to_decide(shop: Path) -> None:
    lines = told(shop, "why", "prices").lines
    assert lines[:5] == [
        "◌ prices has no data yet: its output is in quarantine",
        "◌ the output of <time> is in quarantine",
        "  → check the data, then approve it, or run `servo quarantine reject <output>`",
        "    servo quarantine approve <output>",
        "└── ✘ its check positive failed (error, blocking): 1 price is below 0",
    ]


def test_json_is_the_findings_with_their_entries(shop: Path) -> None:
    told_of = found(shop, "why-not", "report")
    assert sorted(told_of) == ["applied_seq", "as_of", "findings"]
    made, skipped, nothing = told_of["findings"]
    assert made["what"] == "asset.never_made"
    assert (skipped["what"], skipped["status"]) == ("task.skipped", "failed")
    cause, asked = skipped["because"]
    assert (cause["what"], cause["subject"]) == ("task.failed", "raw/orders:materialize")
    assert 0 < cause["seq"] <= skipped["seq"] <= told_of["applied_seq"]
    assert cause["command"] == f"servo run retry {run_of(shop)}"
    assert asked["what"] == "asked.by_hand"
    assert (nothing["what"], nothing["because"]) == ("starts.nothing", [])


def test_the_past_is_explained_as_it_was(shop: Path) -> None:
    assert told(shop, "why", "fine", "--as-of", "1").code == 3
    before = told(shop, "why", "fine", "--as-of", "2")
    assert before.lines[0] == "◌ fine has never been materialized"
    assert re.fullmatch(r"as of entry 2, .*Z\n", before.err)
    assert told(shop, "why", "fine").lines[0].startswith("✔ fine was last materialized at <time>")
    long_ago = told(shop, "why", "fine", "--as-of", "2020-01-01")
    assert long_ago.code == 3
    assert told(shop, "why", "fine", "--as-of", "soon").code == 2


def test_what_cannot_be_answered_says_what_to_ask(shop: Path) -> None:
    usage = "servo why ASSET[:PARTITION], servo why run RUN_ID, or servo why task RUN_ID TASK"
    assert told(shop, "why", "run").err == f"error: which run?; use {usage}\n"
    wrong = told(shop, "why", "run", "a", "b")
    assert wrong.err == f"error: cannot interpret 'run a b'; use {usage}\n"
    assert wrong.code == 2
    assert "did you mean report?" in told(shop, "why", "repor").err
    assert told(shop, "why-not", "nope").code == 3
    assert "there is no run run_zz" in told(shop, "why", "run", "run_zz").err
    assert "there is no run run_zz" in told(shop, "why", "run_zz").err
    assert "no partition of fine is recorded yet" in told(shop, "why", "fine:x").err
    assert "is recorded yet" in told(shop, "why", "fine", "--partition", "x").err
    assert "there is no asset 'run_x'" in told(shop, "why", "run_x", "--partition", "x").err


def test_a_terminal_that_knows_no_unicode_gets_plain_marks(shop: Path) -> None:
    done = servo(shop, "why", "report", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    assert "\n  -> once that is resolved, materialize it by hand\n" in done.stdout


@pytest.mark.slow
def test_a_narrow_terminal_gets_the_same_words(shop: Path) -> None:
    wide = servo(shop, "why", "report", COLUMNS="300", FORCE_COLOR="1", TERM="xterm")
    narrow = servo(shop, "why", "report", COLUMNS="60", FORCE_COLOR="1", TERM="xterm")
    plain = re.compile(r"\x1b\[[0-9;]*m")
    lines = plain.sub("", narrow.stdout).splitlines()
    assert max(map(len, lines)) <= 60
    words = [plain.sub("", text).replace("│", " ").split() for text in (wide.stdout, narrow.stdout)]
    assert "".join(words[0]) == "".join(words[1])


# --- what waits -----------------------------------------------------------------------------------


@contextmanager
def at_work(folder: Path) -> Generator[tuple[LeadingHost, str]]:
    """A session with a run of what waits: for a retry, for a pool, for a slot."""
    (folder / "assets.py").write_text(dedent(CODE))
    project = load_project("assets.py", folder)
    setup = setup_for("assets.py", folder, str(folder / ".servo"))
    assert told_limits(folder)
    with LeadingHost(setup, workers=2) as session:
        session.deploy("assets.py", declared(project))
        keys = [AssetKey(name) for name in ("flaky", "first", "second")]
        run_id = start_plan(session, plan_assets(project, keys), "one")
        assert start_plan(session, plan_assets(project, [AssetKey("fine")]), "two")
        try:
            yield session, run_id
        finally:
            (folder / "go").touch()


def told_limits(folder: Path) -> bool:
    (folder / ".servo").mkdir()
    limits = (["admin", "pool", "set", "db", "1"], ["admin", "quota", "--max-runs", "1"])
    return all(told(folder, *words).code == 0 for words in limits)


@pytest.mark.slow
def test_what_waits_says_for_what(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with at_work(tmp_path) as (_, run_id):
        eventually(lambda: "next attempt" in told(tmp_path, "why", "run", run_id).out)
        eventually(lambda: "for a slot" in told(tmp_path, "why-not", "second").out)
        lines = told(tmp_path, "why", "run", run_id).lines
        assert lines[0] == "◌ <run> runs: none of 3 tasks has finished"
        assert any("flaky failed at <time> (attempt 1 of 3): ConnectionE" in one for one in lines)
        again = re.compile(r"→ next attempt at <time>, in 1[45] min: attempt 2 of 3$")
        assert any(again.search(one) for one in lines)
        assert told(tmp_path, "why-not", "second").lines[1:4] == [
            "◌ second waits since <time> for a slot in the pool db: 1 of 1 taken, by first "
            "(in <run>)",
            "  → wait for one of those to finish, or raise the limit of the pool db",
            "    servo admin pool set db 2",
        ]
        assert told(tmp_path, "why", "fine").lines[1:5] == [
            "◌ fine is planned, and its run has not started (in <run>)",
            "├── ◌ <run> waits for a free run slot: 1 of 1 runs are active: <run>",
            "│     → it starts when enough of them have finished; or raise the limit",
            "│       servo admin quota --max-runs 2",
        ]
        assert told(tmp_path, "run", "cancel", run_id, "--reason", "enough").code == 0
        eventually(lambda: "cancelled" in told(tmp_path, "why", "flaky").out)
        stopped = re.compile(r"the run was cancelled by <user> at <time> \(enough\)")
        assert stopped.search(told(tmp_path, "why", "flaky").lines[1])


def test_a_run_that_everybody_has_left_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with at_work(tmp_path) as (_, run_id):
        eventually(lambda: "next attempt" in told(tmp_path, "why", "run", run_id).out)
    lines = told(tmp_path, "why", "run", run_id).lines
    assert lines[1:3] == [
        "  → no leader is running in this workspace: start a leader and its workers",
        "    servo resume",
    ]
    assert "    servo resume" in told(tmp_path, "why-not", "flaky").lines


# --- what only the ledger tells of ----------------------------------------------------------------


class Told(StoredStory):
    """A story in a folder, for the workspace that commands take by default."""

    def __init__(self, folder: Path) -> None:
        super().__init__(store_from_url(str(folder / ".servo"), clock=SystemClock()))


OPTIONS = ("--tenant", "acme", "--workspace", "prod")


def test_a_paused_schedule_is_why_nothing_ran(tmp_path: Path) -> None:
    story = Told(tmp_path)
    asset = AssetDefinition(asset_key="ns/a")
    story.tell(DefinitionsDeployed(deployment_id="d", location="shop.py", assets=(asset,)))
    schedule = ScheduleUpserted(
        schedule_id="nightly", cron_expressions=("0 0 * * *",), asset_selection=("ns/a",)
    )
    story.tell(schedule)
    story.wait(days=1)
    ticked = ScheduleTicked(
        schedule_id="nightly",
        tick_id="t1",
        scheduled_for=story.now,
        definition_version=1,
        status=TickStatus.SKIPPED,
        message="holiday",
    )
    story.tell(ticked)
    story.tell(SchedulePaused(schedule_id="nightly"))
    story.publish()
    said = told(tmp_path, "why-not", "ns.a", *OPTIONS)
    assert said.out.splitlines()[1:] == [
        "◌ the schedule nightly (0 0 * * * UTC) is paused since 2026-01-02 00:00:00Z  entry 4",
        "  → resume it",
        f"    servo schedule resume nightly --store {tmp_path}/.servo --tenant acme "
        "--workspace prod",
        '└── · its tick of 2026-01-02 00:00:00Z was skipped: "holiday"  entry 3',
    ]
    earlier = told(tmp_path, "why-not", "ns/a", "--as-of", "2", *OPTIONS).lines
    assert earlier[1:] == [
        "· the schedule nightly (0 0 * * * UTC) is active",
        "  → next tick <time>, in 24 h",
    ]


@pytest.mark.parametrize("value", ["2026-01-01T00:30:00", "a:b/c|d", "eu,=west"])
def test_a_partition_may_hold_what_separates_it(tmp_path: Path, value: str) -> None:
    story = Told(tmp_path)
    key = PartitionKey.single(value).canonical()
    name = task_key_text("ns/a", key, TaskOperation.MATERIALIZE)
    spec = TaskSpec(task_key=name, asset_key="ns/a", partition=key)
    source = ScheduleSource(schedule_id="nightly", tick_id="t9")
    request = RunRequested(run_id="run_1", run_key="k", request_fingerprint="f", source=source)
    story.tell(request, PlanCreated(run_id="run_1", fingerprint="p", tasks=(spec,)))
    story.tell(DefinitionsDeployed(deployment_id="d", assets=(AssetDefinition(asset_key="ns/a"),)))
    story.publish()
    expected = f"◌ ns/a:{value} has never been materialized"
    for words in ([f"ns.a:{value}"], ["ns/a", "--partition", value], [f"a:{key}"]):
        assert told(tmp_path, "why", *words, *OPTIONS).lines[0] == expected
    for words in ([f"ns/a:{value}"], ["a", "--partition", value]):
        said = told(tmp_path, "why", "task", "run_1", *words, *OPTIONS)
        assert said.lines[0].startswith(f"◌ ns/a:{value} waits since <time> for a free worker")
    wrong = told(tmp_path, "why", "task", "run_1", "ns/a:nope", *OPTIONS)
    assert "has 0 tasks for 'ns/a:nope'" in wrong.err


def test_tasks_that_a_name_does_not_tell_apart_are_listed(tmp_path: Path) -> None:
    story = Told(tmp_path)
    specs = [
        TaskSpec(task_key=task_key_text("ns/a", None, kind), asset_key="ns/a", operation=kind)
        for kind in (TaskOperation.MATERIALIZE, TaskOperation.CHECK)
    ]
    request = RunRequested(run_id="run_1", run_key="k", request_fingerprint="f")
    story.tell(request, PlanCreated(run_id="run_1", fingerprint="p", tasks=tuple(specs)))
    story.publish()
    said = told(tmp_path, "why", "task", "run_1", "a", *OPTIONS)
    assert said.code == 4
    assert "run_1 has 2 tasks for 'a': ns/a:check, ns/a:materialize; use the key" in said.err


def test_reports_about_a_run_that_nobody_asked_for(tmp_path: Path) -> None:
    story = Told(tmp_path)
    report = TaskFinished(
        run_id="run_early",
        task_key=task_key("a"),
        attempt_id="x",
        exec_id="y",
        outcome=TaskOutcome.SUCCEEDED,
    )
    story.tell(report, parkable=True)
    story.publish()
    lines = told(tmp_path, "why", "run", "run_early", *OPTIONS).lines
    assert lines[0] == "◌ run_early has not been requested yet, but reports about it have arrived"
    assert told(tmp_path, "why", "run", "run_earl", *OPTIONS).code == 3


def test_an_asset_that_is_called_run_or_task_can_be_asked_about(tmp_path: Path) -> None:
    story = Told(tmp_path)
    assets = tuple(AssetDefinition(asset_key=name) for name in ("run", "task"))
    story.tell(DefinitionsDeployed(deployment_id="d", assets=assets))
    story.publish()
    for name in ("run", "task"):
        assert (
            told(tmp_path, "why", name, *OPTIONS).lines[0]
            == f"◌ {name} has never been materialized"
        )


# --- the guide ------------------------------------------------------------------------------------


def test_the_guide_shows_what_its_example_prints(tmp_path: Path) -> None:
    example = DOCS / "snippets" / "why.py"
    done = subprocess.run(
        [sys.executable, str(example)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=True,
    )
    page = (DOCS / "how-to" / "why.md").read_text()
    shown = page.partition("<!-- output: why.py -->\n```text\n")[2].partition("```\n")[0]
    assert steady(done.stdout) == steady(shown)


def test_the_guide_explains_every_kind_of_finding() -> None:
    page = (DOCS / "how-to" / "why.md").read_text()
    table = page.partition("| what | it is about |")[2].partition("\n\n")[0]
    assert sorted(re.findall(r"`([a-z._]+)`", table)) == sorted(What)
