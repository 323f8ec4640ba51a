"""The rules that keep the code in its layers, and proof that each rule bites.

A rule nobody has seen refuse anything may not be switched on, so every contract and every ban is
also checked against a copy of the sources with one violation planted in it.
"""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path
from tokenize import COMMENT
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ("src", "tests", "benchmarks", "simulation")
MOST_LINES = 800
MOST_MODULES = 25
SUPPRESSION = re.compile(r"\b(noqa|(pyright|type): ?ignore|pragma: no cover)\b")
EXPLAINED = re.compile(r" - \S")

IMPURE = (
    "asyncio",
    "os",
    "pathlib",
    "socket",
    "subprocess",
    "threading",
    "time",
    "random",
    "uuid",
    "logging",
    "pyarrow",
    "obstore",
    "httpx",
)

CLOCK = "servo.ports.clock.Clock"
ENTROPY = "servo.ports.entropy.Entropy"
BANNED = {
    "from datetime import datetime; datetime.now()": CLOCK,
    "from datetime import datetime; datetime.utcnow()": CLOCK,
    "from datetime import datetime; datetime.today()": CLOCK,
    "from datetime import date; date.today()": CLOCK,
    "import time; time.time()": CLOCK,
    "import time; time.time_ns()": CLOCK,
    "import time; time.monotonic()": CLOCK,
    "import time; time.monotonic_ns()": CLOCK,
    "import time; time.perf_counter()": CLOCK,
    "import time; time.perf_counter_ns()": CLOCK,
    "import time; time.sleep(1)": CLOCK,
    "import uuid; uuid.uuid1()": ENTROPY,
    "import uuid; uuid.uuid4()": ENTROPY,
    "import random": ENTROPY,
    "import secrets": ENTROPY,
    "import os; os.urandom(1)": ENTROPY,
}


# --- the tools, and a copy of the sources to plant violations in ---------------------------------


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for folder in ("src", "simulation"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    return tmp_path


def plant(root: Path, path: str, text: str) -> None:
    target = root / "src" / "servo" / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


def run(root: Path, *command: str) -> subprocess.CompletedProcess[str]:
    # PYTHONPATH comes before the installed package, so the copy is what gets judged.
    env = os.environ | {"PYTHONPATH": str(root / "src"), "COLUMNS": "200"}
    tool = Path(sys.executable).with_name(command[0])
    return subprocess.run(
        [tool, *command[1:]], cwd=root, env=env, capture_output=True, text=True, check=False
    )


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    return run(root, "lint-imports", "--no-cache", "--no-logo")


def clock_and_entropy_calls(root: Path, path: str, *options: str) -> list[str]:
    """What the ban on clocks and randomness refuses below `path`, one message a finding."""
    select = ("--select", "TID251", "--output-format", "json", "--no-cache")
    done = run(root, "ruff", "check", *select, *options, path)
    assert done.returncode in {0, 1}, done.stderr
    return [finding["message"] for finding in json.loads(done.stdout)]


def settings(*names: str) -> Any:
    value: Any = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for name in names:
        value = value[name]
    return value


def contract(name: str) -> dict[str, Any]:
    found = settings("tool", "importlinter", "contracts")
    return next(one for one in found if one["id"] == name)


# --- layers and purity ----------------------------------------------------------------------------


def test_the_sources_keep_every_import_contract() -> None:
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 kept, 0 broken" in done.stdout


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("errors", "core"),
        ("core", "ports"),
        ("core", "ledger"),
        ("ports", "ledger"),
        ("controllers", "queues"),
        ("controllers", "ports"),
        ("ledger", "projection"),
        ("sdk", "planning"),
        ("projection", "storage"),
        ("storage", "leader"),
        ("leader", "workspace"),
        ("code", "execution"),
        ("execution", "code"),
        ("execution", "workers"),
        ("workers", "triggers"),
        ("triggers", "workers"),
        ("workers", "host"),
        ("leader", "cli"),
        ("cli", "testing"),
        ("testing", "cli"),
    ],
)
def test_an_import_upward_or_sideways_is_caught(copy: Path, importer: str, imported: str) -> None:
    place = "errors.py" if importer == "errors" else f"{importer}/planted.py"
    plant(copy, place, f"import servo.{imported}\n")
    done = lint_imports(copy)
    assert done.returncode == 1
    assert "Layers point downward BROKEN" in done.stdout
    assert f"servo.{importer} is not allowed to import servo.{imported}" in done.stdout


def test_a_new_package_without_a_layer_is_caught(copy: Path) -> None:
    plant(copy, "helpers/__init__.py", "")
    done = lint_imports(copy)
    assert done.returncode == 1
    assert "servo.helpers" in done.stdout


@pytest.mark.parametrize("package", ["core", "controllers"])
def test_an_impure_import_is_caught(copy: Path, package: str) -> None:
    plant(copy, f"{package}/planted.py", "".join(f"import {name}\n" for name in IMPURE))
    done = lint_imports(copy)
    assert done.returncode == 1
    missed = [name for name in IMPURE if f"servo.{package}.planted -> {name}" not in done.stdout]
    assert missed == []


def test_an_impure_import_by_way_of_the_errors_is_caught(copy: Path) -> None:
    plant(copy, "errors.py", "import os\n")
    done = lint_imports(copy)
    assert done.returncode == 1
    assert "servo.errors is not allowed to import os" in done.stdout


@pytest.mark.parametrize("adapter", ["storage", "queues"])
@pytest.mark.parametrize("hidden", ["ledger", "controllers"])
def test_an_adapter_that_looks_at_the_engine_is_caught(
    copy: Path, adapter: str, hidden: str
) -> None:
    plant(copy, f"{adapter}/planted.py", f"import servo.{hidden}\n")
    done = lint_imports(copy)
    assert done.returncode == 1
    assert f"servo.{adapter} is not allowed to import servo.{hidden}" in done.stdout


@pytest.mark.parametrize("hidden", ["projection", "ledger", "storage"])
def test_a_command_that_goes_around_the_operations_is_caught(copy: Path, hidden: str) -> None:
    plant(copy, "cli/planted.py", f"import servo.{hidden}\n")
    done = lint_imports(copy)
    assert done.returncode == 1
    assert f"servo.cli is not allowed to import servo.{hidden}" in done.stdout
    assert f"servo.cli.planted -> servo.{hidden}" in done.stdout


def test_no_command_is_an_exception_to_it() -> None:
    assert "ignore_imports" not in contract("faces")


@pytest.mark.parametrize(
    "adapter", ["storage.from_url", "storage.local", "queues", "workspace.system"]
)
@pytest.mark.parametrize("builder", ["workers", "host", "workspace"])
def test_an_adapter_that_is_built_outside_the_composition_root_is_caught(
    copy: Path, adapter: str, builder: str
) -> None:
    plant(copy, f"{builder}/planted.py", f"import servo.{adapter}\n")
    done = lint_imports(copy)
    assert done.returncode == 1
    assert "Only the composition root builds adapters BROKEN" in done.stdout
    assert f"servo.{builder}.planted -> servo.{adapter}" in done.stdout


def test_only_tests_build_adapters_besides_the_composition_root() -> None:
    allowed = contract("composition")["allowed_importers"]
    assert allowed == ["servo.workspace.composition", "servo.testing"]


@pytest.mark.parametrize("package", ["workers", "triggers"])
@pytest.mark.parametrize("hidden", ["service", "engine"])
def test_a_worker_or_trigger_that_asks_for_one_kind_of_leader_is_caught(
    copy: Path, package: str, hidden: str
) -> None:
    plant(copy, f"{package}/planted.py", f"import servo.leader.{hidden}\n")
    done = lint_imports(copy)
    assert done.returncode == 1
    assert f"servo.{package} is not allowed to import servo.leader.{hidden}" in done.stdout


def test_every_pure_package_that_exists_is_under_the_purity_contract() -> None:
    pure = {
        f"servo.{name}"
        for name in ("core", "controllers", "sdk", "planning")
        if (ROOT / "src" / "servo" / name).is_dir()
    }
    assert pure <= set(contract("purity")["source_modules"])


# --- clock and randomness -------------------------------------------------------------------------


@pytest.mark.parametrize(("statement", "port"), BANNED.items())
def test_a_clock_or_random_call_is_caught_and_its_port_named(
    copy: Path, statement: str, port: str
) -> None:
    plant(copy, "ledger/planted.py", statement + "\n")
    messages = clock_and_entropy_calls(copy, "src/servo/ledger/planted.py")
    assert len(messages) == 1
    assert port in messages[0]


def test_every_ban_has_a_planted_violation() -> None:
    banned = settings("tool", "ruff", "lint", "flake8-tidy-imports", "banned-api")
    assert len(banned) == len(BANNED)


def test_no_comment_in_the_sources_lifts_the_ban() -> None:
    assert clock_and_entropy_calls(ROOT, "src", "--ignore-noqa") == []


def test_only_the_system_module_and_seeded_testing_are_exempt() -> None:
    ignores = settings("tool", "ruff", "lint", "per-file-ignores")
    exempt = {
        path
        for path, rules in ignores.items()
        if "TID251" in rules and ("src/" in path or path.startswith("simulation"))
    }
    assert exempt == {
        "src/servo/workspace/system.py",
        "simulation/*.py",
        "src/servo/testing/{arbitrary,clock}.py",
    }


def calls_in_the_simulation(root: Path) -> list[str]:
    exempt_nothing = ("--ignore-noqa", "--config", "lint.per-file-ignores = {}")
    places = ("src/servo/testing", "simulation")
    found = [m for at in places for m in clock_and_entropy_calls(root, at, *exempt_nothing)]
    return [message for message in found if not message.startswith("`random` ")]


def test_the_simulation_uses_its_exemption_for_seeded_randomness_only() -> None:
    assert calls_in_the_simulation(ROOT) == []


def test_a_clock_in_the_simulation_is_caught_despite_its_exemption(copy: Path) -> None:
    text = "import random\nimport time\n\ntime.time()\n"
    (copy / "simulation" / "planted.py").write_text(text)
    assert clock_and_entropy_calls(copy, "simulation") == []
    (message,) = calls_in_the_simulation(copy)
    assert "`time.time` is banned" in message


# --- files ----------------------------------------------------------------------------------------


def python_files(root: Path) -> Iterator[Path]:
    for folder in SOURCES:
        yield from sorted((root / folder).rglob("*.py"))


def oversized(root: Path) -> list[str]:
    return [
        str(path.relative_to(root))
        for path in python_files(root)
        if len(path.read_text().splitlines()) > MOST_LINES
    ]


def relative_imports(root: Path) -> list[str]:
    return [
        f"{path.relative_to(root)}:{node.lineno}"
        for path in python_files(root)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.level > 0
    ]


PAUSING = {
    "tests/integration/test_interrupts.py": "Ctrl-C at a random moment",
    "tests/integration/test_kill_and_resume.py": "a kill at a random moment",
    "tests/integration/test_kill_commit_loop.py": "a request to retry later",
    "tests/integration/test_two_services.py": "a rival that returns at a random moment",
    "tests/unit/execution/test_check_limits.py": "a check that takes long",
    "tests/unit/test_cli_interrupts.py": "work that a signal interrupts",
    "tests/storm/storm.py": "signals at random moments",
    "tests/unit/triggers/test_triggers_sensors.py": "a thread that must not evaluate anything",
}
"""The tests that need a pause, and for what. Others wait with `servo.testing.eventually`."""

EVENTS = ("Event()", "threading.Event()")


def sleeping(root: Path) -> set[str]:
    """The tests that sleep themselves; the code that they write for workers may."""
    return {
        str(path.relative_to(root))
        for path in (root / "tests").rglob("*.py")
        if _sleeps(path.read_text())
    }


def _sleeps(text: str) -> bool:
    """Whether code calls `time.sleep`, or waits for an event that nothing in it sets."""
    tree = ast.parse(text)
    events = {name for name in _events(tree) if f"{name.removeprefix('self.')}.set" not in text}
    return any(
        ast.unparse(node.func) == "time.sleep"
        or (
            isinstance(node.func, ast.Attribute)
            and node.func.attr == "wait"
            and ast.unparse(node.func.value) in {*EVENTS, *events}
        )
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
    )


def _events(tree: ast.AST) -> set[str]:
    """The names that are assigned a new event."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                pairs = [(target, node.value)]
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    pairs = list(zip(target.elts, node.value.elts, strict=False))
                found |= {ast.unparse(to) for to, what in pairs if ast.unparse(what) in EVENTS}
    return found


def test_no_test_sleeps() -> None:
    assert sleeping(ROOT) == {*PAUSING}


@pytest.mark.parametrize(
    ("code", "caught"),
    [
        ("time.sleep(1)", True),
        ("Event().wait(1)", True),
        ("pause = threading.Event()\nwhile busy():\n    pause.wait(0.02)", True),
        ("pause, clock = Event(), SystemClock()\n_ = pause.wait(0.02)", True),
        ("done = Event()\nThread(target=done.set).start()\nassert done.wait(30)", False),
        ("process.wait(30)", False),
        ("code = 'Event().wait(1)'", False),
    ],
)
def test_a_test_that_sleeps_is_caught(tmp_path: Path, code: str, *, caught: bool) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text(code)
    assert sleeping(tmp_path) == ({"tests/test_it.py"} if caught else set())


def unexplained(root: Path) -> list[str]:
    """Comments that switch a check off without saying why."""
    found: list[str] = []
    for path in python_files(root):
        with path.open("rb") as file:
            comments = [one for one in tokenize.tokenize(file.readline) if one.type == COMMENT]
        found += [
            f"{path.relative_to(root)}:{comment.start[0]}"
            for comment in comments
            if SUPPRESSION.search(comment.string) and not EXPLAINED.search(comment.string)
        ]
    return found


def test_whatever_switches_a_check_off_says_why() -> None:
    assert unexplained(ROOT) == []


def test_a_check_switched_off_in_silence_is_caught(tmp_path: Path) -> None:
    silent = ("noqa: S101", "noqa", "pyright: ignore[reportAny]", "pragma: no cover")
    lines = [f"x = 1  # {one}\n" for one in silent]
    lines += ["x = 1  # noqa: S101 - in a test\n", 'x = "# noqa"\n']
    plant(tmp_path, "core/ids.py", "".join(lines))
    assert unexplained(tmp_path) == [f"src/servo/core/ids.py:{n}" for n in range(1, 5)]


def test_no_source_file_is_longer_than_800_lines() -> None:
    assert oversized(ROOT) == []


def test_a_file_one_line_too_long_is_caught(copy: Path) -> None:
    plant(copy, "core/fits.py", "\n" * MOST_LINES)
    plant(copy, "core/planted.py", "\n" * (MOST_LINES + 1))
    assert oversized(copy) == ["src/servo/core/planted.py"]


def test_no_source_file_imports_relatively() -> None:
    assert relative_imports(ROOT) == []


def test_a_relative_import_is_caught_here_and_by_the_linter(copy: Path) -> None:
    plant(copy, "core/planted.py", "from . import events\n")
    assert relative_imports(copy) == ["src/servo/core/planted.py:1"]
    done = run(copy, "ruff", "check", "--no-cache", "--select", "TID252", "src/servo/core")
    assert done.returncode == 1


# --- names and rooms ------------------------------------------------------------------------------


ALIAS = re.compile(r"[A-Z]\w*[a-z]\w*")


def type_names(root: Path) -> dict[str, list[str]]:
    """Where each class and each public type alias of the package is defined."""
    found: dict[str, list[str]] = {}
    for path in sorted((root / "src").rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            names = [node.name] if isinstance(node, ast.ClassDef) else []
            if isinstance(node, ast.Assign):
                aliases = (ast.unparse(target) for target in node.targets)
                names = [name for name in aliases if ALIAS.fullmatch(name)]
            for name in names:
                found.setdefault(name, []).append(str(path.relative_to(root)))
    return found


def ambiguous(root: Path) -> dict[str, list[str]]:
    return {name: places for name, places in type_names(root).items() if len(places) > 1}


def crowded(root: Path) -> list[str]:
    folders = {path.parent for path in (root / "src").rglob("*.py")}
    return [
        str(folder.relative_to(root))
        for folder in sorted(folders)
        if len([path for path in folder.glob("*.py") if path.stem != "__init__"]) > MOST_MODULES
    ]


READS_THE_ENGINE = re.compile(r"\.engine\b(?! import)")


def reads_of_the_engine(root: Path) -> list[str]:
    """Files outside the leader that reach into its engine, whose state may not be durable yet."""
    return [
        str(path.relative_to(root))
        for path in python_files(root)
        if path.is_relative_to(root / "src")
        and not path.is_relative_to(root / "src/servo/leader")
        and not path.is_relative_to(root / "src/servo/testing")
        and READS_THE_ENGINE.search(path.read_text())
    ]


def test_only_the_leader_looks_at_state_that_may_not_be_durable() -> None:
    assert reads_of_the_engine(ROOT) == []


def test_a_look_at_the_engine_is_caught(copy: Path) -> None:
    plant(copy, "host/planted.py", "rows = service.engine.state.runs.rows\n")
    assert reads_of_the_engine(copy) == ["src/servo/host/planted.py"]


TELLS_HOSTS_APART = re.compile(r"\bisinstance\([^)]*Host\b|\bAttachedHost\b")


def hosts_told_apart(root: Path) -> list[str]:
    """Commands that ask which host they have, and so would behave differently beside a leader."""
    return [
        str(path.relative_to(root))
        for path in sorted((root / "src/servo/cli").rglob("*.py"))
        if TELLS_HOSTS_APART.search(path.read_text())
    ]


def test_no_command_tells_hosts_apart() -> None:
    assert hosts_told_apart(ROOT) == []


@pytest.mark.parametrize("planted", ["isinstance(host, LeadingHost)", "AttachedHost(workspace)"])
def test_a_command_that_tells_hosts_apart_is_caught(copy: Path, planted: str) -> None:
    plant(copy, "cli/planted.py", f"found = {planted}\n")
    assert hosts_told_apart(copy) == ["src/servo/cli/planted.py"]


def test_the_name_of_a_class_or_an_alias_means_one_thing() -> None:
    assert ambiguous(ROOT) == {}


@pytest.mark.parametrize("planted", ["class LeaderLease: ...", "LeaderLease = int | str"])
def test_a_name_with_two_meanings_is_caught(copy: Path, planted: str) -> None:
    plant(copy, "core/planted.py", f"{planted}\n_Private = int\nCONSTANT = 1\n")
    places = ["src/servo/core/planted.py", "src/servo/leader/leases/lease.py"]
    assert ambiguous(copy) == {"LeaderLease": places}


def test_no_package_holds_more_than_25_modules() -> None:
    assert crowded(ROOT) == []


def test_a_package_with_26_modules_is_caught(copy: Path) -> None:
    for number in range(MOST_MODULES + 1):
        plant(copy, f"ports/crowd/planted_{number}.py", "")
    assert "src/servo/ports/crowd" in crowded(copy)
