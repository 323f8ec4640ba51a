"""`--json`: every command has it, and prints what the golden schema says."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest

from servo.cli.json_results import RESULTS, WITHOUT_JSON
from servo.cli.main import cli, run
from servo.operations.backfills import list_backfills
from servo.operations.interface.encoding import encode_result
from servo.operations.interface.listing import Page
from servo.operations.quarantine import list_quarantine
from servo.operations.runs import list_runs
from servo.storage.local import LocalStore
from servo.testing.command_line import servo
from servo.testing.shop import RUN, copy_objects, shop
from servo.workspace.workspace import Workspace

CODE = "from servo.testing.shop import DEFINITIONS\n"
FAILED = 1
"""The exit code of a command that prints a run that failed."""


def commands(group: click.Group, *names: str) -> Iterator[tuple[str, click.Command]]:
    """Every command below a group, by its whole name."""
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        if isinstance(found, click.Group):
            yield from commands(found, *names, name)
        elif found is not None:
            yield " ".join((*names, name)), found


def without_json(group: click.Group) -> list[str]:
    """The commands that have no `--json`."""
    return [
        name
        for name, found in commands(group)
        if not any("--json" in param.opts for param in found.params)
    ]


def test_every_command_has_json_or_a_reason_not_to() -> None:
    assert without_json(cli) == sorted(WITHOUT_JSON)


def test_a_command_without_json_is_caught() -> None:
    quiet, loud = click.Command("quiet"), click.Command("loud", params=[click.Option(["--json"])])
    planted = click.Group("planted", commands=[quiet, loud])
    assert without_json(click.Group("all", commands=[planted])) == ["planted quiet"]


def test_the_golden_schema_has_what_every_command_prints() -> None:
    assert sorted(RESULTS) == [name for name, _ in commands(cli) if name not in WITHOUT_JSON]


# --- what is printed ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def filled() -> Workspace:
    """The shop, which takes seconds to fill; only copies of it are changed."""
    return shop()


@pytest.fixture
def folder(filled: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose workspace has something of every kind."""
    (tmp_path / "shop.py").write_text(CODE)
    copy_objects(filled, LocalStore(tmp_path / ".servo"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def named(filled: Workspace, text: str) -> str:
    """An argument, or the id of what it describes in the shop."""
    page = Page(limit=10)
    if text == "<held>":
        return list_quarantine(filled, page).items[0].materialization_id
    rows = {row.state.value: row.backfill_id for row in list_backfills(filled, page).items}
    runs = {row.state.value: row.run_id for row in list_runs(filled, page).items}
    return {"<failed>": rows["FAILED"], "<open>": rows["RUNNING"], "<run>": runs["SUCCEEDED"]}.get(
        text, text
    )


# Commands that only need a workspace, called in this process. Those of a line come one after the
# other, each with its arguments.
HERE: list[tuple[str, ...]] = [
    ("admin dead-letters list", "admin dead-letters show inbox:junk"),
    ("admin gc",),
    ("admin inspect",),
    ("admin lane list",),
    ("admin lane set backfills 5", "admin lane reset backfills"),
    ("admin pool set api 1", "admin pool list", "admin pool remove api"),
    ("admin quota", "admin quota --max-runs 3"),
    ("admin rebuild --check", "admin rebuild --yes"),
    ("admin verify",),
    ("asset history numbers", "asset history numbers --freshness"),
    ("asset show numbers",),
    ("asset wipe numbers --yes",),
    ("automation history total", "automation list", "automation show total"),
    ("automation pause", "automation resume"),
    ("backfill list", "backfill show <failed>", "backfill retry-failed <failed>"),
    ("backfill pause <open>", "backfill resume <open>", "backfill cancel <open>"),
    ("init new",),
    ("logs <run>", "logs <run> --follow"),
    ("partitions add customers bob", "partitions delete customers bob"),
    ("partitions list letter", "partitions stale", "partitions status letter"),
    ("quarantine list", "quarantine approve <held>"),
    ("quarantine reject <held>",),
    (f"run show {RUN}", "run list", f"run cancel {RUN}"),
    ("schedule list", "schedule show hourly", "schedule ticks hourly", "schedule preview hourly"),
    ("schedule pause hourly", "schedule resume hourly"),
    ("sensor list", "sensor show files", "sensor history files"),
    ("sensor cursor files", "sensor cursor files --set 9"),
    ("sensor pause files", "sensor resume files"),
    ("sensor push told",),
    ("sql 'select 1'",),
    ("status",),
    ("why numbers", "why-not total"),
]

# Commands that import the code, or start processes that do.
ELSEWHERE: list[tuple[str, ...]] = [
    ("check shop.py", "list shop.py"),
    ("automation evaluate shop.py", "sensor evaluate files shop.py"),
    ("backfill preview shop.py letter --all", "backfill create shop.py letter --partition c"),
    ("backfill create shop.py letter --failed --from c",),
    ("backfill wait <open> shop.py", "backfill retry-failed <failed> shop.py --wait"),
    ("materialize shop.py total --dry-run", "materialize shop.py total"),
    (f"run retry {RUN} shop.py --all",),
    ("schedule trigger hourly shop.py --dry-run", "schedule trigger hourly shop.py"),
    ("resume shop.py", "tick shop.py"),
]


def name_of(line: str) -> str:
    """The command that a line calls."""
    return max((name for name in RESULTS if f"{line} ".startswith(f"{name} ")), key=len)


def test_every_command_with_json_is_called_below() -> None:
    lines = [line for group in (*HERE, *ELSEWHERE) for line in group]
    assert {name_of(line) for line in lines} == set(RESULTS)


def arguments(filled: Workspace, line: str) -> list[str]:
    words = [word.strip("'") for word in line.replace("select 1", "select_1").split()]
    return [named(filled, word).replace("select_1", "select 1") for word in words]


@pytest.mark.parametrize("lines", HERE, ids=" ".join)
def test_a_command_prints_what_the_golden_schema_says(
    lines: Sequence[str], folder: Path, filled: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    del folder
    for line in lines:
        code = run([*arguments(filled, line), "--json"])
        done = capsys.readouterr()
        assert code == 0, done.err
        check(name_of(line), done.out)


@pytest.mark.slow
@pytest.mark.parametrize("lines", ELSEWHERE, ids=" ".join)
def test_a_command_that_needs_code_prints_what_the_golden_schema_says(
    lines: Sequence[str], folder: Path, filled: Workspace
) -> None:
    for line in lines:
        done = servo(folder, *arguments(filled, line), "--json")
        assert done.returncode in (0, FAILED), done.stderr
        check(name_of(line), done.stdout)


def check(name: str, printed: str) -> None:
    """The output is one JSON value of a type that the command declares; of a stream, its items."""
    kinds = [_fits(kind, printed) for kind in RESULTS[name]]
    assert any(kinds), f"{name} printed something else than {RESULTS[name]}: {printed}"


def _fits(kind: Any, printed: str) -> bool:
    """Whether an output is a value of this type, with nothing left out and nothing besides."""
    try:
        found = msgspec.json.decode(printed, type=kind)
    except msgspec.DecodeError:
        return False
    return json.loads(encode_result(found)) == json.loads(printed)
