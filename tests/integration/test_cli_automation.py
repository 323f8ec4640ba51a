"""`servo automation` on a real `servo dev`, and what commands tell of conditions and freshness."""

import json
from contextlib import redirect_stderr, redirect_stdout
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from servo.cli.main import run
from servo.core.declared import AUTOMATION_LABEL
from servo.core.events.assets import AssetDefinition, DefinitionsDeployed
from servo.core.events.freshness import FreshnessChanged
from servo.core.events.sensors import SensorUpserted
from servo.core.freshness import FreshnessState, MaxAge, policy_text
from servo.storage.from_url import store_from_url
from servo.testing.command_line import Dev, asked, listed, servo
from servo.testing.workspaces import StoredStory
from servo.workspace.system import SystemClock

SENSOR = "default_automation_condition_sensor"
CODE = """
from servo import AutomationCondition, asset

@asset
def raw():
    return 1

@asset(automation_condition=AutomationCondition.eager())
def total(raw):
    return raw

@asset(automation_condition=AutomationCondition.on_cron("0 0 1 1 *"))
def yearly(raw):
    return raw
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "assets.py").write_text(CODE)
    return tmp_path


def conditions(folder: Path) -> dict[str, dict[str, Any]]:
    """What is listed, by asset; nothing while there is no workspace."""
    done = servo(folder, "automation", "list", "--json")
    found: Any = json.loads(done.stdout or '{"items": []}')
    return {row["asset_key"]: row for row in found["items"]}


def requests(folder: Path) -> list[dict[str, Any]]:
    rows = listed(folder, "automation", "history", "total")
    return [row for row in rows if row["requested_count"]]


def files(folder: Path) -> dict[str, int]:
    store = folder / ".servo"
    return {str(path): path.stat().st_mtime_ns for path in store.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_what_conditions_ask_for_is_listed_explained_paused_and_tried(folder: Path) -> None:
    with Dev(folder) as dev:
        dev.until(lambda: conditions(folder).get("total", {}).get("evaluated_at"))
        assert servo(folder, "materialize", "raw").returncode == 0
        dev.until(lambda: requests(folder))
        dev.until(lambda: asked(folder, "automation", "show", "total")["lacking"])
        _explained(folder)
        assert servo(folder, "automation", "pause").returncode == 0
        dev.until(lambda: conditions(folder)["total"]["sensor_status"] == "PAUSED")
        again = servo(folder, "automation", "pause")
        assert (again.returncode, "already paused" in again.stderr) == (4, True)
        assert servo(folder, "materialize", "raw").returncode == 0
        told = servo(folder, "why-not", "total").stdout
        assert f"servo automation resume {SENSOR}" in told
        dev.stop()
    assert len(requests(folder)) == 1, "nobody evaluates what is paused"
    before = files(folder)
    [foreseen] = listed(folder, "automation", "evaluate", "assets.py", "total")
    assert (foreseen["sensor_id"], foreseen["requested"]) == (SENSOR, [""])
    assert foreseen["tree"]["label"] == "eager"
    shown = servo(folder, "automation", "evaluate").stdout
    assert "total: would be requested" in shown
    assert "yearly: would request nothing" in shown
    assert files(folder) == before, "a dry run writes nothing"
    assert servo(folder, "automation", "resume").returncode == 0
    with Dev(folder) as dev:
        dev.until(lambda: len(requests(folder)) == 2)
        dev.stop()


def _explained(folder: Path) -> None:
    """What was asked for, with its run and its tree."""
    known = conditions(folder)
    assert list(known) == ["total", "yearly"]
    assert (known["total"]["condition"], known["total"]["sensor_id"]) == ("eager", SENSOR)
    assert known["total"]["last_requested_at"] is not None
    assert known["yearly"]["last_requested_at"] is None
    [request] = requests(folder)
    shown = asked(folder, "automation", "show", "total", "--tick", str(request["tick"]))
    assert (shown["tree"]["true"], shown["tree"]["of"], shown["lacking"]) == (1, 1, [])
    newest = servo(folder, "automation", "show", "total").stdout
    assert "It will be requested when newly_missing or any_deps_updated becomes true." in newest
    assert "✘ eager of total  false" in newest
    assert "parts did not decide; show them with --all" in newest
    assert "✘ newly_updated_without_root" not in newest
    everything = servo(folder, "automation", "show", "total", "--all").stdout
    assert "did not decide it" not in everything
    assert "✘ newly_updated_without_root" in everything
    told = asked(folder, "why", "run", request["run_id"])["findings"][0]
    [origin] = [one for one in told["because"] if one["what"] == "asked.by_automation"]
    [evaluation] = origin["because"]
    assert (evaluation["what"], evaluation["subject"]) == ("condition.evaluation", "total")
    assert evaluation["because"][0]["text"] == "eager of total: true"
    every = asked(folder, "why", "run", request["run_id"], "--all")["findings"][0]
    assert len(str(every)) > len(str(told))
    never = servo(folder, "automation", "show", "total", "--tick", "1000")
    assert (never.returncode, "servo automation history total" in never.stderr) == (3, True)


def test_a_dry_run_where_there_is_nothing_yet_says_what_to_do_first(folder: Path) -> None:
    no_store = servo(folder, "automation", "evaluate")
    assert (no_store.returncode, "there is no store in" in no_store.stderr) == (3, True)
    (folder / ".servo").mkdir()
    no_workspace = servo(folder, "automation", "evaluate")
    assert no_workspace.returncode == 3
    assert "materialize something first with `servo materialize`" in no_workspace.stderr
    assert files(folder) == {}


# --- what only the ledger tells of ----------------------------------------------------------------


class Said(NamedTuple):
    code: int
    out: str
    err: str


def told(folder: Path, *arguments: str) -> Said:
    out, err = StringIO(), StringIO()
    place = ("--store", str(folder / ".servo"), "--tenant", "acme", "--workspace", "prod")
    with redirect_stdout(out), redirect_stderr(err):
        code = run([*arguments, *place])
    return Said(code, out.getvalue(), err.getvalue())


@pytest.fixture
def story(tmp_path: Path) -> StoredStory:
    return StoredStory(store_from_url(str(tmp_path / ".servo"), clock=SystemClock()))


def deploy(story: StoredStory, **fields: Any) -> None:
    asset = AssetDefinition(asset_key="ns/a", **fields)
    story.tell(DefinitionsDeployed(deployment_id="d", location="shop.py", assets=(asset,)))


def watch(story: StoredStory, *names: str) -> None:
    labels = {AUTOMATION_LABEL: "conditions"}
    for name in names:
        assert story.tell(SensorUpserted(sensor_id=name, labels=labels)).applied


def test_a_condition_that_nobody_evaluates_yet(tmp_path: Path, story: StoredStory) -> None:
    deploy(story, automation_condition="eager")
    story.publish()
    assert "none yet" in told(tmp_path, "automation", "list").out
    assert "not yet; `servo dev` evaluates it" in told(tmp_path, "automation", "show", "a").out
    assert "Not evaluated yet." in told(tmp_path, "automation", "history", "a").out


def test_a_workspace_without_conditions_says_so(tmp_path: Path, story: StoredStory) -> None:
    deploy(story)
    story.publish()
    assert "No asset has an automation condition" in told(tmp_path, "automation", "list").out
    shown = told(tmp_path, "automation", "show", "a")
    assert (shown.code, "ns/a has no automation condition" in shown.err) == (3, True)
    paused = told(tmp_path, "automation", "pause")
    assert (paused.code, "no sensor evaluates conditions" in paused.err) == (3, True)


def test_of_several_sensors_one_has_to_be_named(tmp_path: Path, story: StoredStory) -> None:
    watch(story, "early", "late")
    story.publish()
    which = told(tmp_path, "automation", "pause")
    assert (which.code, "choose one of: early, late" in which.err) == (4, True)
    unknown = told(tmp_path, "automation", "pause", "noon")
    assert (unknown.code, "no sensor noon evaluates conditions" in unknown.err) == (3, True)
    assert told(tmp_path, "automation", "resume", "early").code == 4
    assert told(tmp_path, "automation", "pause", "early").code == 0


@pytest.mark.parametrize("names", [("early",), (SENSOR, "early")])
def test_the_only_sensor_and_the_default_one_need_no_name(
    tmp_path: Path, story: StoredStory, names: tuple[str, ...]
) -> None:
    watch(story, *names)
    story.publish()
    assert told(tmp_path, "automation", "pause").out == f"Paused {names[0]}.\n"


def test_how_fresh_an_asset_is_and_was(tmp_path: Path, story: StoredStory) -> None:
    hour = round(timedelta(hours=1) / timedelta(milliseconds=1))
    deploy(story, freshness_policy=policy_text(MaxAge(fail_ms=hour)))
    story.publish()
    assert "UNKNOWN" in told(tmp_path, "asset", "show", "a").out
    assert (
        "has not been evaluated yet" in told(tmp_path, "asset", "history", "a", "--freshness").out
    )
    story.plan({"a": ()})
    story.execute("a")
    seq = story.state.assets.rows["ns/a"].last_materialization_seq
    for version, state in enumerate(
        (FreshnessState.PASS, FreshnessState.WARN, FreshnessState.FAIL)
    ):
        changed = FreshnessChanged(
            asset_key="ns/a",
            state=state,
            expected_version=version,
            materialization_seq=seq,
            changed_at=story.now,
        )
        assert story.tell(changed).applied
        story.publish()
        shown = json.loads(told(tmp_path, "asset", "show", "a", "--json").out)["freshness"]
        assert (shown["state"], shown["since"]) == (state.value, f"{story.now:%Y-%m-%dT%H:%M:%SZ}")
        named = json.loads(told(tmp_path, "status", "--json").out)["freshness"]
        assert named == {"FAIL": [], "WARN": []} | ({state.value: ["ns/a"]} if version else {})
        story.wait(hours=1)
    assert "FAIL since 2026-01-01 02:00:00Z" in told(tmp_path, "asset", "show", "a").out
    assert "freshness failed: ns/a" in told(tmp_path, "status").out
    rows = json.loads(told(tmp_path, "asset", "history", "a", "--freshness", "--json").out)["items"]
    assert [row["state"] for row in rows] == ["FAIL", "WARN", "PASS"]
    assert "WARN" in told(tmp_path, "asset", "history", "a", "--freshness", "--limit", "1").out


def test_a_history_of_freshness_where_there_is_no_policy(
    tmp_path: Path, story: StoredStory
) -> None:
    deploy(story)
    story.publish()
    history = told(tmp_path, "asset", "history", "a", "--freshness").out
    assert "ns/a has no freshness policy" in history
    assert "freshness" not in told(tmp_path, "asset", "show", "a").out
