"""Bad arguments, files and settings: one line with the remedy, and the exit code of its kind."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from servo.cli.main import MAX_MESSAGE, run
from servo.workspace.registry import made_registry_folder

INVALID, NOT_FOUND, CORRUPT = 2, 3, 7
CODE = "from servo import asset\n\n@asset\ndef one():\n    return 1\n"
LONG = "x" * 5000
SURROGATE = '{"ops": {"one": {"config": {"x": "\\ud800"}}}}'
DEEP = '{"a":' * 60_000

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def servo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Run:
    """Runs a command in a project of its own: exit code, output, errors."""
    (tmp_path / "assets.py").write_text(CODE)
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / ".servo").mkdir()
    (tmp_path / "latin.json").write_bytes(b'{"a": "\xe9"}')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.delenv("SERVO_STORE", raising=False)
    monkeypatch.setenv("SERVO_DEBUG", "1")  # a bug raises, and fails the test with its traceback

    def call(*arguments: str) -> tuple[int, str, str]:
        code = run([*arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def refused(servo: Run, arguments: list[str], told: str, code: int = INVALID) -> None:
    """The command is refused in one line, and its standard output stays empty with `--json`."""
    found, out, err = servo(*arguments)
    assert (found, out) == (code, ""), err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert told in err
    assert "; " in err, "there is a remedy"
    assert len(err) < MAX_MESSAGE + 100


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "show", "\udcff"],
        ["backfill", "cancel", "\udcff"],
        ["sql", "\udcff"],
        ["materialize", "assets.py", "--store", "\udcff"],
        ["materialize", "assets.py", "--tag", "a=\udcff"],
        ["\udcff"],
    ],
    ids=repr,
)
def test_an_argument_that_is_not_utf_8(servo: Run, arguments: list[str]) -> None:
    # Python puts a surrogate into `sys.argv` for each byte that it cannot decode.
    refused(servo, [*arguments, "--json"], "\\xff'; use UTF-8")


@pytest.mark.parametrize("command", [["status"], ["materialize", "assets.py"]], ids=" ".join)
@pytest.mark.parametrize(
    ("store", "told"),
    [
        ("gopher://[", "the URL of the store is invalid"),
        (LONG, "the path of the store is invalid: File name too long"),
        ("~nosuchuser/x", "the home folder in '~nosuchuser/x' is unknown"),
        ("loop", "Too many levels of symbolic links"),
        ("s3:/x", "'s3:/x' is neither a path nor a URL"),
    ],
    ids=["url", "long", "home", "loop", "typo"],
)
def test_a_store_that_can_be_none(servo: Run, command: list[str], store: str, told: str) -> None:
    refused(servo, [*command, "--json", "--store", store], told)


@pytest.mark.parametrize("command", ["check", "status", "materialize"])
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('store = "s3:/bucket/prefix"', "store: 's3:/bucket/prefix' is neither a path nor a URL"),
        ('tenant = "../x"', "tenant '../x' is not a valid name"),
        ('[[locations]]\nfile = "assets.py"\nname = "a/../b"', "contains a relative path step"),
    ],
    ids=["store", "tenant", "location"],
)
def test_every_command_refuses_the_same_project_file(
    servo: Run, tmp_path: Path, command: str, text: str, told: str
) -> None:
    (tmp_path / "servo.toml").write_text(text)
    refused(servo, [command, "--json"], f"{tmp_path / 'servo.toml'}: ")
    refused(servo, [command, "--json"], told)
    assert not (tmp_path / "s3:").exists()


@pytest.mark.parametrize("moment", ["9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00"])
def test_a_moment_that_an_offset_moves_out_of_the_calendar(servo: Run, moment: str) -> None:
    refused(servo, ["run", "list", "--json", "--as-of", moment], "nor a time; use 1234, 2026")


@pytest.mark.parametrize(
    ("config", "told", "code"),
    [
        (SURROGATE, "invalid JSON in --config: '\\ud800' is half of a character", INVALID),
        (DEEP, "the JSON in --config is nested too deeply", INVALID),
        ("[" * 60_000, "the JSON in --config is nested too deeply", INVALID),
        ("latin.json", "latin.json is not UTF-8", INVALID),
        (LONG, "there is no file xxx", NOT_FOUND),
        (LONG * 20, "there is no file xxx", NOT_FOUND),
    ],
    ids=["surrogate", "deep", "deep list", "not UTF-8", "long", "very long"],
)
def test_a_configuration_that_can_be_none(servo: Run, config: str, told: str, code: int) -> None:
    refused(servo, ["materialize", "assets.py", "--json", "--config", config], told, code)


@pytest.mark.parametrize("command", ["check", "list", "materialize"])
@pytest.mark.parametrize(
    ("name", "told", "code"),
    [
        (f"{LONG}.py", "is longer than 1024 bytes", INVALID),
        (f"{'x' * 300}.py", "there is no file xxx", NOT_FOUND),
        (f"{'x' * 300}/a.py", "there is no file xxx", NOT_FOUND),
        ("a\nb.py", "contains U+000A", INVALID),
    ],
    ids=["long", "too long for a file", "too long for a folder", "control character"],
)
def test_code_that_can_be_none(servo: Run, command: str, name: str, told: str, code: int) -> None:
    refused(servo, [command, name, "--json"], told, code)


def test_code_is_found_however_its_path_is_written(
    servo: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "below").mkdir()
    dry = ("materialize", "--dry-run")
    assert servo(*dry, "./assets.py")[0] == 0
    assert servo(*dry, "below/../assets.py")[0] == 0
    monkeypatch.chdir(tmp_path / "below")
    assert servo(*dry, "../assets.py")[0] == 0


@pytest.mark.parametrize("limit", ["0", str(10**30)])
def test_a_limit_that_is_out_of_range(servo: Run, limit: str) -> None:
    code, out, err = servo("run", "list", "--json", "--limit", limit)
    assert (code, out) == (INVALID, "")
    assert f"{limit} is not in the range" in err


def test_an_empty_request_id(servo: Run) -> None:
    (Path.cwd() / "assets.py").write_text(
        CODE.replace("import asset", "import StaticPartitionsDefinition, asset").replace(
            "@asset", '@asset(partitions_def=StaticPartitionsDefinition(["a"]))'
        )
    )
    create = ["backfill", "create", "assets.py", "one", "--all", "--json"]
    refused(servo, [*create, "--request-id", ""], "request id is empty")


@pytest.mark.parametrize("content", [b"\xff", b""])
def test_a_damaged_machine_id(servo: Run, content: bytes) -> None:
    (made_registry_folder() / "machine").write_bytes(content)
    refused(servo, ["admin", "pool", "set", "p", "1", "--json"], "delete it", CORRUPT)


def test_a_registry_that_cannot_be_a_folder(servo: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/dev/null")
    command = ["admin", "pool", "set", "p", "1", "--json"]
    refused(servo, command, "/dev/null/servo-")
    refused(servo, command, "set $XDG_RUNTIME_DIR to a folder that this user can write to")


def test_standard_input_that_is_not_utf_8(servo: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    typed = io.TextIOWrapper(io.BytesIO(b"\xff"), encoding="utf-8")
    monkeypatch.setattr("sys.stdin", typed)
    refused(servo, ["sensor", "push", "s", "--payload", "-"], "standard input is not UTF-8")
