"""The command line: what it prints, where, and with which exit code it ends."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
import pytest
from msgspec.structs import replace

from servo import __version__
from servo.cli.main import COMMANDS, OTHERS, SECTIONS, cli, run
from servo.cli.rendering.output import EXIT_CODES, exit_code, plural, size
from servo.cli.rendering.replay_bar import PATIENCE
from servo.core.events.assets import AssetDefinition, DefinitionsDeployed
from servo.core.events.runs import PlanSegmentExpanded, RunCancelRequested
from servo.core.events.tasks import TaskOutcome
from servo.core.manifest import encode, next_claim
from servo.errors import Internal, Invalid, ServoError, Unavailable
from servo.execution.outputs.store import OutputStore
from servo.ledger.paths import Paths
from servo.ledger.reader import LedgerReader
from servo.operations.interface.moments import parse_moment
from servo.projection.upkeep.pins import Pin, pin
from servo.projection.upkeep.verify import verify
from servo.storage.local import LocalStore
from servo.testing.builders import START, specs
from servo.testing.stored_outputs import save_output
from servo.testing.workspaces import StoredStory
from servo.workers.local_pool.pool import GRACE
from servo.workspace.address import Address
from servo.workspace.composition import open_to_read
from servo.workspace.leader_lock import Leader
from servo.workspace.leading import try_to_lead
from servo.workspace.system import SystemClock

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def told(tmp_path: Path) -> StoredStory:
    """A workspace in a folder: runs that are over and one that is not."""
    story = StoredStory(LocalStore(tmp_path / "store"))
    for number in range(3):
        _ = story.plan({"a": [], "b": ["a"]}, run_id=f"run_{number}")
        _ = story.execute("a", run_id=f"run_{number}")
        _ = story.execute("b", run_id=f"run_{number}")
        story.wait(hours=1)
        _ = story.publish(close_after=timedelta(hours=1))
    digest = story.plan_by_digest(specs({"x": []}), run_id="big")
    _ = story.tell(PlanSegmentExpanded(run_id="big", index=0, digest=digest))
    _ = story.publish()
    return story


@pytest.fixture
def servo(told: StoredStory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Run:
    """Runs a command on that workspace: exit code, standard output, standard error."""
    monkeypatch.setenv("SERVO_STORE", str(tmp_path / "store"))
    where = ("--tenant", told.state.tenant, "--workspace", told.state.workspace)

    def call(*arguments: str) -> tuple[int, str, str]:
        code = run([*arguments, *where])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


# --- the frame ------------------------------------------------------------------------------------


def test_the_version_is_told_without_importing_anything_heavy() -> None:
    script = (
        "import sys; from servo.cli.main import run; code = run(['--version']); "
        "heavy = {'pyarrow', 'duckdb', 'obstore', 'rich', 'msgspec'} & set(sys.modules); "
        "sys.exit(f'imports {heavy}' if heavy else code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, f"servo {__version__}\n", "")


def test_help_names_every_command_without_importing_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {name} " in shown and words in shown for name, (_, words) in COMMANDS.items())
    names = [name for section in SECTIONS.values() for name in section]
    assert len(set(names)) == len(names)
    assert set(names) <= set(COMMANDS)
    assert all(f"\n{title}:\n" in shown for title in (*SECTIONS, OTHERS))
    assert shown.count("\n  run ") == 1
    assert "\n  completion " in shown.partition(f"{OTHERS}:")[2]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_can_be_loaded_and_explains_itself(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([name, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: servo {name} ")


def test_no_command_prints_help_and_an_unknown_one_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run([]) == 2
    assert "Materialization:" in capsys.readouterr().err
    assert run(["nonsense"]) == 2
    assert "No such command 'nonsense'" in capsys.readouterr().err
    assert run(["materialise"]) == 2
    told = "No such command 'materialise'. Did you mean 'materialize'?"
    assert told in capsys.readouterr().err


def test_every_kind_of_error_has_an_exit_code() -> None:
    codes = {kind.__name__: exit_code(kind("it broke")) for kind in ServoError.__subclasses__()}
    assert codes == {
        "Invalid": 2,
        "NotFound": 3,
        "Conflict": 4,
        "Fenced": 5,
        "Unavailable": 6,
        "Corrupt": 7,
        "NeedsUpgrade": 9,
        "Internal": 70,
    }
    assert set(EXIT_CODES) == set(ServoError.__subclasses__())


def test_an_error_of_a_derived_kind_has_the_code_of_its_kind() -> None:
    class Full(Unavailable):
        """No room."""

    assert exit_code(Full("full")) == 6
    assert exit_code(ServoError("what kind?")) == exit_code(Internal("a bug"))


def test_an_error_is_one_line_that_ends_with_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["admin", "inspect", "--store", str(tmp_path / "nowhere")]) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        f"error: there is no store in {tmp_path / 'nowhere'}; materialize an asset to "
        "create it, or use another store: --store, store=... in Python, or $SERVO_STORE\n"
    )
    assert not (tmp_path / "nowhere").exists()


def test_a_name_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["admin", "inspect", "--tenant", "../other"]) == 2
    assert "tenant" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["inspect", "verify", "rebuild", "gc"])
def test_a_workspace_that_is_not_there_is_not_found(
    servo: Run, command: str, told: StoredStory, tmp_path: Path
) -> None:
    del told
    code = run(["admin", command, "--store", str(tmp_path / "store"), "--workspace", "other"])
    assert code == 3
    assert servo("admin", "inspect")[0] == 0


# --- inspect --------------------------------------------------------------------------------------


def test_inspect_shows_where_the_workspace_stands(servo: Run, told: StoredStory) -> None:
    _ = told.plan({"a": []}, run_id="late")
    code, out, err = servo("admin", "inspect")
    assert (code, err) == (0, "")
    seq = told.manifest.applied_seq
    assert f"version {told.manifest.v} at entry {seq}, 1 entry behind the ledger" in out
    assert f"ledger      {seq + 1} entries, {seq + 1} hot" in out
    assert "run_key_index" in out


def test_inspect_prints_json(servo: Run, told: StoredStory) -> None:
    code, out, _ = servo("admin", "inspect", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["newest"]["v"] == told.manifest.v
    assert {table["table"] for table in found["tables"]} == set(told.manifest.tables)
    assert [kind["objects"] for kind in found["stored"] if kind["kind"] == "plans and lists"] == [1]


# --- verify ---------------------------------------------------------------------------------------


def test_verify_says_that_all_is_well(servo: Run) -> None:
    code, out, err = servo("admin", "verify")
    assert (code, err) == (0, "")
    assert out.endswith("no problems found\n")


def test_verify_names_every_problem_with_its_remedy(servo: Run, told: StoredStory) -> None:
    key = told.manifest.tables["runs"].files[0].key
    _ = told.store.put(key, b"nonsense")
    code, out, _ = servo("admin", "verify")
    assert code == 7
    assert "1 problem:" in out
    assert f"files: {key} is damaged" in out
    assert "remedy: rebuild the projection from the ledger" in out
    code, out, _ = servo("admin", "verify", "--json")
    assert code == 7
    assert [problem["part"] for problem in json.loads(out)["problems"]] == ["files"]


# --- rebuild --------------------------------------------------------------------------------------


def forge(told: StoredStory) -> None:
    """Publish a row that the ledger does not say."""
    told.state.runs.dirty["big"] = replace(told.run("big"), error="forged")
    _ = told.publish()


def test_a_check_of_a_sound_projection_finds_nothing(servo: Run, told: StoredStory) -> None:
    before = told.objects()
    code, out, _ = servo("admin", "rebuild", "--check")
    assert code == 0
    assert out.startswith("the published projection matches the ledger")
    assert told.objects() == before


def test_a_check_shows_the_rows_that_differ(servo: Run, told: StoredStory) -> None:
    forge(told)
    before = told.objects()
    code, out, _ = servo("admin", "rebuild", "--check")
    assert code == 7
    assert [line.split() for line in out.splitlines() if "forged" in line] == [
        ["runs", "big", "error", "forged"]
    ]
    assert "1 row differs from the ledger" in out
    code, out, _ = servo("admin", "rebuild", "--check", "--json")
    assert code == 7
    assert json.loads(out)["differences"][0]["columns"] == {"error": ["forged", ""]}
    assert told.objects() == before


def test_a_rebuild_publishes_what_the_ledger_says(servo: Run, told: StoredStory) -> None:
    forge(told)
    code, out, _ = servo("admin", "rebuild", "--yes")
    assert code == 0
    newest = told.manifests.latest()
    assert newest is not None
    assert newest.epoch == told.manifest.epoch + 1
    assert f"published the rebuilt projection (version {newest.v}" in out
    assert verify(told.store, told.paths).sound


def test_a_rebuild_never_replaces_a_healthy_leader(
    servo: Run, told: StoredStory, tmp_path: Path
) -> None:
    address = Address.of(str(tmp_path / "store"), told.state.tenant, told.state.workspace)
    dev = Leader(stays=True, command="dev")
    led = try_to_lead(address, open_to_read(address.store), leader=dev)
    assert led is not None
    with led:
        code, out, err = servo("admin", "rebuild", "--yes")
        assert (code, out) == (4, "")
        assert err == (
            f"error: `servo dev` (process {os.getpid()}) leads this workspace; wait until it "
            "exits, or stop it; its unfinished runs are then resumed\n"
        )
        assert led.service.leads
        assert servo("admin", "rebuild", "--check")[0] == 0
    assert servo("admin", "rebuild", "--yes")[0] == 0


def test_a_rebuild_asks_first(
    servo: Run, told: StoredStory, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = told.objects()
    monkeypatch.setattr("sys.stdin", _Typed("n\n"))
    code, _, err = servo("admin", "rebuild")
    assert code == 1
    assert err.endswith("Nothing was published.\n")
    monkeypatch.setattr("sys.stdin", _Typed(""))
    code, _, err = servo("admin", "rebuild")
    assert (code, "pass --yes" in err) == (2, True)
    assert servo("admin", "rebuild", "--json")[0] == 2
    assert told.objects() == before


class _Typed:
    """Somebody at the keyboard."""

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines(keepends=True)

    def readline(self) -> str:
        return self._lines.pop(0) if self._lines else ""

    def isatty(self) -> bool:
        return False


def test_a_rebuild_repairs_damaged_files(servo: Run, told: StoredStory) -> None:
    for held in told.manifest.tables.values():
        for file in held.files:
            _ = told.store.put(file.key, b"nonsense")
    code, out, _ = servo("admin", "rebuild", "--yes")
    assert code == 0
    assert "the published projection cannot be read" in out
    assert servo("admin", "rebuild", "--check")[0] == 0


def test_a_rebuild_steps_over_a_newest_manifest_that_is_damaged(
    servo: Run, told: StoredStory
) -> None:
    claim = next_claim(told.manifest, owner="other", nonce="other", ts=told.now)
    claim = next_claim(encode(claim)[1], owner="third", nonce="third", ts=told.now)
    for v in (claim.v - 1, claim.v):
        _ = told.store.create(told.paths.manifest(v), b"nonsense")
    code, _, err = servo("admin", "inspect")
    assert code == 7
    assert err.endswith("or rebuild the projection from the ledger\n")
    assert servo("admin", "rebuild", "--yes")[0] == 0
    assert servo("admin", "rebuild", "--check")[0] == 0
    newest = told.manifests.latest()
    assert newest is not None
    assert newest.v > claim.v
    assert newest.epoch > claim.epoch
    assert newest.identity == told.manifest.identity


def test_a_rebuild_needs_no_manifest_that_can_be_read(servo: Run, told: StoredStory) -> None:
    for key in told.objects(told.paths.manifest_prefix):
        _ = told.store.put(key, b"nonsense")
    assert servo("admin", "rebuild", "--yes")[0] == 0
    assert servo("admin", "rebuild", "--check")[0] == 0
    newest = told.manifests.latest()
    assert newest is not None
    assert newest.identity == told.manifest.identity


@pytest.mark.parametrize("also", [(), ("state/",)], ids=["manifests", "manifests-and-state"])
def test_a_workspace_without_manifests_is_rebuilt_and_never_begun_anew(
    servo: Run, told: StoredStory, also: tuple[str, ...]
) -> None:
    runs = ("sql", "select * from runs order by run_id", "--json")
    before = json.loads(servo(*runs)[1])["rows"]
    for folder in ("manifests/", *also):
        for key in told.objects(told.paths.root + folder):
            told.store.delete(key)
    remedy = "run `servo admin rebuild`: it writes them again from the ledger\n"
    for command in (["status"], ["sql", "select 1"], ["admin", "gc"]):
        code, _, err = servo(*command)
        assert (code, err.endswith(remedy)) == (7, True), (command, err)
    code, out, _ = servo("admin", "verify")
    assert (code, "the manifests of this workspace are missing" in out) == (7, True)
    assert servo("admin", "rebuild", "--check")[0] == 7
    code, out, _ = servo("admin", "rebuild", "--yes")
    assert code == 0, out
    newest = told.manifests.latest()
    assert newest is not None
    assert newest.identity == told.manifest.identity
    assert json.loads(servo(*runs)[1])["rows"] == before
    assert servo("admin", "verify")[0] == 0


def test_a_damaged_ledger_is_never_published(servo: Run, told: StoredStory) -> None:
    _ = told.store.put(told.paths.ledger_entry(3), b"nonsense")
    before = told.objects()
    code, _, err = servo("admin", "rebuild", "--yes")
    assert code == 7
    assert "ledger entry 3 is damaged" in err
    assert told.objects() == before


def test_a_new_fold_does_not_change_what_is_over(servo: Run, told: StoredStory) -> None:
    closed = told.manifests.latest()
    assert closed is not None
    key = ("run_2", "ns/a:materialize")
    told.state.tasks.dirty[key] = replace(told.task("a", "run_2"), attempt=9)
    _ = told.publish()
    other = replace(
        told.manifest,
        v=told.manifest.v + 1,
        nonce="n",
        fold_version=0,
        prev_hash=told.manifest.sha256,
    )
    _ = told.manifests.create(encode(other)[1])
    before = told.objects()
    code, _, err = servo("admin", "rebuild", "--yes")
    assert code == 4
    assert "rows of runs that have finished" in err
    assert told.objects() == before


# --- gc -------------------------------------------------------------------------------------------


def test_gc_says_what_it_would_delete_and_what_it_deleted(servo: Run, told: StoredStory) -> None:
    code, out, _ = servo("admin", "gc", "--dry-run")
    assert (code, out) == (0, "would delete 0 manifests, 0 files (0 B)\n")
    code, out, _ = servo("admin", "gc", "--json", "--plans")
    assert code == 0
    assert json.loads(out)["report"]["files"] == 0
    assert verify(told.store, told.paths).sound


def age(folder: Path, days: int) -> None:
    """Make everything that is stored look as if it had been written long ago."""
    for file in folder.rglob("*"):
        if file.is_file():
            then = file.stat().st_mtime - days * 86_400
            os.utime(file, (then, then))


def test_gc_clears_up_an_old_workspace(servo: Run, told: StoredStory, tmp_path: Path) -> None:
    for number in range(12):
        _ = told.plan({"a": []}, run_id=f"more_{number}")
        _ = told.publish()
        _ = told.merge()
    _ = told.store.put(told.paths.plan("ab" * 32), b"{}")
    age(tmp_path / "store", days=400)
    code, out, _ = servo("admin", "gc", "--plans")
    assert code == 0
    lines = out.splitlines()
    assert sum(line.startswith("  acme/prod/") for line in lines) == 20
    assert re.fullmatch(r"  and \d+ more", lines[20])
    kept = f"{told.manifest.v - 2} manifests"
    assert re.fullmatch(rf"deleted {kept}, \d+ files, 1 plan \([0-9.]+ [kM]B\)", lines[21])
    seq = told.state.seq
    assert lines[22] == f"archived {seq} entries, deleted {seq} hot copies"
    assert servo("admin", "verify")[0] == 0
    assert f"{seq} entries, 0 hot" in servo("admin", "inspect")[1]


def test_gc_announces_what_is_no_longer_kept_and_deletes_it_when_the_ledger_knows(
    servo: Run, told: StoredStory, tmp_path: Path
) -> None:
    asset = AssetDefinition(asset_key="ns/kept", retention_versions=1)
    _ = told.tell(DefinitionsDeployed(deployment_id="d", assets=(asset,)))
    outputs = OutputStore(told.store, told.paths)
    for name in ("k1", "k2", "left-behind"):
        _ = told.plan({"kept": []}, run_id=name)
        _ = told.start("kept", name, name)
        output = save_output(outputs, "ns/kept", name, name)
        outcome = TaskOutcome.SKIPPED if name == "left-behind" else TaskOutcome.SUCCEEDED
        _ = told.finish("kept", outcome, name, output=output)
    _ = told.publish()
    age(tmp_path / "store", days=2)
    said = servo("admin", "gc", "--dry-run")[1]
    assert "would delete 4 manifests, 0 files, 1 output" in said
    assert "1 output would expire" in said
    assert kept_of(told) == ["k1", "k2", "left-behind"]
    code, out, _ = servo("admin", "gc")
    assert code == 0
    assert "deleted 4 manifests, 0 files, 1 output" in out
    assert "1 output expired; a later collection deletes the data" in out
    assert kept_of(told) == ["k1", "k2"]
    report = json.loads(servo("admin", "gc", "--json")[1])["report"]
    assert (report["outputs"], report["expired"]) == (1, [])
    assert kept_of(told) == ["k2"]


def kept_of(story: StoredStory) -> list[str]:
    return [key.split("/")[-2] for key in story.objects(story.paths.assets_prefix)]


def test_inspect_shows_pins(servo: Run, told: StoredStory) -> None:
    pin(told.store, told.paths, Pin(id="audit", v=2, expires=START))
    assert "audit holds version 2 until 2026-01-01 00:00:00Z" in servo("admin", "inspect")[1]


def test_gc_ends_with_a_code_when_something_cannot_be_read(servo: Run, told: StoredStory) -> None:
    _ = told.store.put(told.paths.pin("mine"), b"{")
    code, out, _ = servo("admin", "gc")
    assert code == 7
    assert "problem: the pin" in out


# --- sql ------------------------------------------------------------------------------------------


def test_sql_prints_a_table_and_where_it_stands(servo: Run, told: StoredStory) -> None:
    code, out, err = servo("sql", "select state, count(*) as n from runs group by 1 order by 1")
    assert code == 0
    rows = [line.split() for line in out.splitlines()]
    assert rows[0] == ["state", "n"]
    assert rows[2:] == [["RUNNING", "1"], ["SUCCEEDED", "3"]]
    assert err == f"2 rows · entry {told.state.seq}, 2026-01-01 03:00:00Z\n"


def test_sql_prints_csv(servo: Run) -> None:
    query = "select run_id, error, cancel_requested_at, labels from runs where run_id = 'big'"
    assert servo("sql", query, "--format", "csv") == (
        0,
        "run_id,error,cancel_requested_at,labels\nbig,,,{}\n",
        "",
    )


def test_sql_prints_json(servo: Run, told: StoredStory) -> None:
    query = "select run_id, created_at, sum(1) as n, null as nothing from runs group by 1, 2"
    query = f"{query} order by 1 limit 1"
    code, out, err = servo("sql", query, "--format", "json")
    assert (code, err) == (0, "")
    assert json.loads(out) == [
        {"run_id": "big", "created_at": "2026-01-01T03:00:00Z", "n": 1, "nothing": None}
    ]
    assert json.loads(servo("sql", query, "--json")[1]) == {
        "columns": ["run_id", "created_at", "n", "nothing"],
        "rows": [["big", "2026-01-01T03:00:00Z", 1, None]],
        "applied_seq": told.state.seq,
        "as_of": "2026-01-01T03:00:00.000001Z",
    }


def test_sql_asks_the_past(servo: Run) -> None:
    query = "select count(*) as n from runs"
    assert json.loads(servo("sql", query, "--json", "--as-of", "1")[1])["rows"] == [[1]]
    late = servo("sql", query, "--json", "--as-of", "2026-01-01T02:30:00Z")[1]
    assert json.loads(late)["rows"] == [[3]]


def test_sql_reads_a_statement_from_standard_input(
    servo: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "query.sql"
    _ = file.write_text("select 5 as five")
    with file.open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert servo("sql", "-", "--format", "csv")[1] == "five\n5\n"


def test_a_row_too_wide_for_the_terminal_is_printed_column_by_column(
    servo: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("NO_COLOR", "1")
    query = "select run_id, state, created_at, timed_out, labels, error, run_key from runs"
    code, out, _ = servo("sql", f"{query} where run_id = 'big'")
    assert code == 0
    assert [line.split() for line in _plain(out).splitlines()] == [
        ["──", "1"],
        ["run_id", "big"],
        ["state", "RUNNING"],
        ["created_at", "2026-01-01", "03:00:00Z"],
        ["timed_out", "false"],
        ["labels", "{}"],
        ["error"],
        ["run_key", "key-big"],
    ]


def _plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)


def test_somebody_who_looks_sees_how_far_it_is(servo: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    code, _, err = servo("admin", "verify")
    assert code == 0
    assert "projection" in _plain(err)
    assert servo("admin", "verify", "--json")[2] == ""


def readers(group: click.Group, *path: str) -> Iterator[tuple[str, ...]]:
    """The commands that look at the past and need no argument."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from readers(command, *path, name)
        elif command is not None:
            names = {parameter.name for parameter in command.params}
            required = any(parameter.required for parameter in command.params)
            if "as_of" in names and not required:
                yield (*path, name)


@pytest.mark.slow
def test_every_command_that_replays_a_long_ledger_shows_a_bar(
    told: StoredStory, servo: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(PATIENCE):
        _ = told.request(f"later_{number}")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    commands = [*readers(cli), ("sql", "select 1"), ("run", "show", "run_0")]
    long, short = ("--as-of", str(told.state.seq)), ("--as-of", str(told.state.seq - 1))

    def with_bar(*options: str) -> list[tuple[str, ...]]:
        errors = {command: servo(*command, *options)[2] for command in commands}
        return [command for command, err in errors.items() if "replaying" in _plain(err)]

    assert ("run", "list") in commands
    assert with_bar(*long) == commands
    assert with_bar(*long, "--json") == with_bar(*short) == []
    monkeypatch.setenv("TTY_COMPATIBLE", "0")
    assert with_bar(*long) == []


class _Failing:
    """A standard input that cannot be read."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def read(self) -> str:
        raise self._error


def test_what_nobody_foresaw_is_called_a_bug(servo: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", _Failing(RuntimeError("what?")))
    assert servo("sql", "-") == (
        70,
        "",
        "error: RuntimeError: what?; this is a bug: report it with SERVO_DEBUG=1 set\n",
    )
    monkeypatch.setenv("SERVO_DEBUG", "1")
    with pytest.raises(RuntimeError, match=r"what\?"):
        _ = servo("sql", "-")


def begin_now(told: StoredStory) -> None:
    """Have a run that has not taken too long yet when somebody leads the workspace."""
    told.now = SystemClock().now()
    _ = told.plan({"z": []}, run_id="fresh")
    _ = told.publish()


def test_a_run_can_be_cancelled_while_nobody_leads(servo: Run, told: StoredStory) -> None:
    begin_now(told)
    assert servo("run", "cancel", "fresh") == (0, "Cancelling fresh.\n", "")


def test_a_run_can_be_ended_by_force(servo: Run, told: StoredStory) -> None:
    begin_now(told)
    assert servo("run", "cancel", "fresh", "--force")[0] == 0
    paths = Paths(told.state.tenant, told.state.workspace)
    requested = [
        event.force
        for entry, _ in LedgerReader(told.store, paths).forward(0)
        for batch in entry.batches
        for event in batch.events
        if isinstance(event, RunCancelRequested)
    ]
    assert requested == [True]


def test_an_interrupted_command_says_so(servo: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", _Failing(KeyboardInterrupt()))
    assert servo("sql", "-") == (130, "", "error: interrupted\n")


def test_a_reader_that_has_seen_enough_is_no_error(told: StoredStory, tmp_path: Path) -> None:
    del told
    command = Path(sys.executable).with_name("servo")
    query = "select i from range(300000) t(i)"
    where = ("--store", str(tmp_path / "store"), "--tenant", "acme", "--workspace", "prod")
    with subprocess.Popen(
        [command, "sql", query, "--format", "csv", *where],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "i\n"
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait() == 0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("select * from nope",), 2, "nope does not exist"),
        (("drop view runs",), 2, "the tables are read only"),
        (("select 1", "--as-of", "99999"), 3, "has no entry 99999"),
        (
            ("select 1", "--as-of", "yesterday"),
            2,
            "neither the number of a ledger entry nor a time",
        ),
    ],
)
def test_sql_refuses_with_a_code(
    servo: Run, arguments: tuple[str, ...], code: int, words: str
) -> None:
    found, out, err = servo("sql", *arguments)
    assert (found, out) == (code, "")
    assert words in err
    assert err.count("\n") == 1


# --- words ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1.0 kB"),
        (1_234_567, "1.2 MB"),
        (5 * 10**12, "5.0 TB"),
        (5 * 10**15, "5000.0 TB"),
    ],
)
def test_sizes_are_written_for_people(count: int, text: str) -> None:
    assert size(count) == text


def test_counts_agree_with_their_nouns() -> None:
    assert [plural(n, "entry", "entries") for n in (0, 1, 1_234)] == [
        "0 entries",
        "1 entry",
        "1,234 entries",
    ]


def test_moments_are_entries_or_instants() -> None:
    assert parse_moment("1234") == 1234
    assert parse_moment("2026-01-01") == START
    assert parse_moment("2026-01-01T01:00:00+01:00") == START
    with pytest.raises(Invalid):
        _ = parse_moment("-3")


@pytest.mark.parametrize("noun", ["run", "backfill"])
def test_help_says_how_long_cancelled_tasks_may_clean_up(servo: Run, noun: str) -> None:
    code, out, _ = servo(noun, "cancel", "--help")
    assert (code, f"{GRACE.total_seconds():.0f} seconds to clean up" in out) == (0, True)
