"""The project file: found from any subfolder, read strictly, and with paths that are its own."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from servo.core.retry import BackoffCurve, JitterSpread, RetryRules
from servo.errors import Invalid
from servo.workspace.code_location import CodeLocation
from servo.workspace.project_file import find_project

WHOLE = """
store = "data/servo"
tenant = "acme"
workspace = "sales"
workers = 3
tags = { team = "data" }

[[locations]]
file = "shop/assets.py"

[[locations]]
name = "reports"
module = "reports.assets"
folder = "other"
as_dagster = true
"""


def written(folder: Path, text: str, name: str = "servo.toml") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "other").mkdir(exist_ok=True)
    (folder / name).write_text(text)
    return folder


def refusal(folder: Path) -> str:
    with pytest.raises(Invalid) as refused:
        find_project(folder)
    return str(refused.value)


def test_everything_it_says_is_found_from_any_subfolder(tmp_path: Path) -> None:
    root = written(tmp_path / "project", WHOLE)
    below = root / "shop" / "deep"
    below.mkdir(parents=True)
    found = find_project(below)
    assert found is not None
    assert found == find_project(root)
    assert (found.tenant, found.workspace, found.workers) == ("acme", "sales", 3)
    assert (found.store, found.tags) == (str(root / "data/servo"), {"team": "data"})
    assert found.locations == (
        CodeLocation(name="shop/assets.py", code="shop/assets.py", folder=str(root)),
        CodeLocation(
            name="reports", code="reports.assets", folder=str(root / "other"), as_dagster=True
        ),
    )


def test_a_section_of_pyproject_says_the_same(tmp_path: Path) -> None:
    text = WHOLE.replace("[[locations]]", "[[tool.servo.locations]]")
    one = written(tmp_path / "a", WHOLE)
    other = written(tmp_path / "b", f"[tool.servo]{text}", "pyproject.toml")
    by_file, by_section = find_project(one), find_project(other)
    assert by_file is not None
    assert by_section is not None
    assert by_file.tags == by_section.tags
    assert [found.name for found in by_file.locations] == [
        found.name for found in by_section.locations
    ]


def test_a_pyproject_of_somebody_else_is_passed_over(tmp_path: Path) -> None:
    root = written(tmp_path, 'workspace = "above"')
    others = {
        "plain": b"[project]\nname='x'",
        "broken": b"[[",
        "tools": b"tool = 3 # servo",
        "latin": b"[project]\nname='caf\xe9'\ndependencies=['servo']",
        "deep": b"a = " + b"[" * 4000,
    }
    for name, data in others.items():
        below = root / name
        below.mkdir()
        (below / "pyproject.toml").write_bytes(data)
        found = find_project(below)
        assert found is not None
        assert found.workspace == "above"


def test_without_one_there_is_none(tmp_path: Path) -> None:
    assert find_project(tmp_path) is None


def test_a_location_is_meant_by_its_name_its_file_or_its_module(tmp_path: Path) -> None:
    root = written(tmp_path, WHOLE)
    (root / "shop").mkdir()
    found = find_project(root)
    assert found is not None
    shop, reports = found.locations
    assert found.named("shop/assets.py", root) == shop
    assert found.named("assets.py", root / "shop") == shop
    assert found.named(str(root / "shop/assets.py"), tmp_path) == shop
    assert found.named("reports", root) == reports
    assert found.named("reports.assets", root / "shop") == reports
    assert found.named("assets.py", root) is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('stoer = "x"', "unknown key stoer; write store"),
        ("colour = 1", "unknown key colour; use one of store, tenant"),
        ("workers = 0", "workers: expected `int` >= 1"),
        ('workers = "2"', "workers: expected `int | null`, got `str`"),
        ("tags = { a = 1 }", "tags: expected `str`, got `int`"),
        ('tenant = ""', "tenant: expected `str` of length >= 1"),
        ("locations = 3", "locations: expected `array`, got `int`"),
        ('[[locations]]\nfiel = "a.py"', "unknown key locations[0].fiel; write file"),
        ("[[locations]]\nfile = 3", "locations[0].file: expected `str | null`, got `int`"),
        ('[[locations]]\nname = "a"', "locations[0] has neither a file nor a module"),
        ('[[locations]]\nfile = "a.py"\nmodule = "a"', "locations[0] has a file and a module"),
        ('[[locations]]\nfile = "a.py"\nfolder = "no"', "locations[0].folder: there is no folder"),
        (
            '[[locations]]\nfile = "a.py"\n[[locations]]\nfile = "a.py"',
            "two locations are named a.py",
        ),
        ("defaults = 3", "defaults: expected `object`, got `int`"),
        ("[defaults]\nretries = 3", "unknown key defaults.retries; use one of retry_policy"),
        (
            "[defaults.retry_policy]\nretries = 3",
            "unknown key defaults.retry_policy.retries; write max_retries",
        ),
        (
            "[defaults.retry_policy]\nmax_retries = -1",
            "defaults.retry_policy.max_retries: expected `int` >= 0",
        ),
        (
            '[defaults.retry_policy]\nbackoff = "cubic"',
            "defaults.retry_policy.backoff: invalid enum value 'cubic'",
        ),
        (
            "[defaults.retry_policy]\nmax_retries = 100000000",
            "defaults.retry_policy: retry policy: max_attempts is 100000001; use a number from 1",
        ),
        ("store = ", "is not valid TOML"),
        (f"tags = {'[' * 4000}{']' * 4000}", "is nested too deeply"),
        ('store = "s3:/bucket/prefix"', "store: 's3:/bucket/prefix' is neither a path nor a URL"),
        ('store = "s3//bucket"', "store: 's3//bucket' is neither a path nor a URL"),
        ('store = "http://host"', "store: unknown kind of store: 'http'"),
        ('store = "~nosuchuser/x"', "store: the home folder in '~nosuchuser/x' is unknown"),
        ('store = "a\\u0000b"', "store: the path of the store is empty or contains a null"),
        (f'store = "{"x" * 5000}"', "store: the path of the store is invalid: File name too long"),
        ('tenant = "../x"', "tenant '../x' is not a valid name"),
        ('workspace = "A b"', "workspace 'A b' is not a valid name"),
        ("[defaults.retry_policy]\ndelay = inf", "defaults.retry_policy: delay is inf"),
        ("[defaults.retry_policy]\nmax_delay = inf", "defaults.retry_policy: max_delay is inf"),
        (
            '[[locations]]\nfile = "a.py"\nname = "a\\nb"',
            "locations[0]: name 'a\\nb' contains U+000A",
        ),
        (
            '[[locations]]\nfile = "a.py"\nname = "a/../b"',
            "locations[0]: name 'a/../b' contains a relative path step",
        ),
        (
            f'[[locations]]\nfile = "a.py"\nname = "{"n" * 2000}"',
            "locations[0]: name is longer than 1024 bytes",
        ),
        (
            '[[locations]]\nfile = "../a.py"',
            "locations[0]: a file outside of the folder of the project file needs a name; add one",
        ),
        (
            f'[[locations]]\nfile = "a.py"\nfolder = "{"n" * 2000}"',
            "locations[0].folder: there is no folder",
        ),
    ],
)
def test_what_it_does_not_know_is_refused_with_the_file_and_the_key(
    tmp_path: Path, text: str, told: str
) -> None:
    root = written(tmp_path, text)
    assert told in refusal(root)
    assert str(root / "servo.toml") in refusal(root)


def test_the_name_of_a_location_is_its_file_without_steps(tmp_path: Path) -> None:
    found = find_project(written(tmp_path, '[[locations]]\nfile = "./shop/../assets.py"'))
    assert found is not None
    assert [one.name for one in found.locations] == ["assets.py"]


NOT_UTF_8 = b'# caf\xe9\n[tool.servo]\nstore = "data"\n'


@pytest.mark.parametrize("name", ["servo.toml", "pyproject.toml"])
@pytest.mark.parametrize("data", [NOT_UTF_8, NOT_UTF_8.decode("latin-1").encode("utf-16")])
def test_a_file_that_is_not_utf_8_is_refused(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    told = refusal(tmp_path)
    assert told == f"{tmp_path / name} is not UTF-8 (line 1); save it as UTF-8"


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "servo.toml").write_bytes(b"\xef\xbb\xbfworkers = 3\n")
    found = find_project(tmp_path)
    assert found is not None
    assert found.workers == 3


def link_to_itself(path: Path) -> None:
    path.symlink_to(path.name)


def link_to_nothing(path: Path) -> None:
    path.symlink_to("nowhere")


@pytest.mark.parametrize("name", ["servo.toml", "pyproject.toml"])
@pytest.mark.parametrize(
    ("make", "told"),
    [
        (Path.mkdir, "is not a regular file; rename or delete it"),
        (os.mkfifo, "is not a regular file; rename or delete it"),
        (link_to_itself, "cannot be read: Too many levels"),
        (link_to_nothing, "links to no file; correct or delete the link"),
    ],
    ids=["folder", "pipe", "loop", "dangling"],
)
def test_what_is_no_file_is_refused(
    tmp_path: Path, name: str, make: Callable[[Path], object], told: str
) -> None:
    _ = make(tmp_path / name)
    assert f"{tmp_path / name} {told}" in refusal(tmp_path)


@pytest.mark.parametrize("text", ["[tool]\nservo = 3", '[[tool.servo]]\nstore = "x"'])
def test_a_section_of_pyproject_that_is_no_table_is_refused(tmp_path: Path, text: str) -> None:
    root = written(tmp_path, text, "pyproject.toml")
    assert "pyproject.toml: tool.servo is not a table; write [tool.servo]" in refusal(root)


def test_every_location_has_the_retry_policy_of_the_project(tmp_path: Path) -> None:
    policy = """
[defaults.retry_policy]
max_retries = 2
delay = 1.5
backoff = "EXPONENTIAL"
jitter = "FULL"
max_delay = 60
retry_on = ["ConnectionError"]
no_retry_on = ["KeyError"]
"""
    found = find_project(written(tmp_path, WHOLE + policy))
    expected = RetryRules(
        max_attempts=3,
        delay_ms=1500,
        backoff=BackoffCurve.EXPONENTIAL,
        jitter=JitterSpread.FULL,
        retry_on=("ConnectionError",),
        no_retry_on=("KeyError",),
        cap_ms=60_000,
    )
    assert found is not None
    assert [found.retry, *(one.retry for one in found.locations)] == [expected] * 3


def test_in_pyproject_the_key_is_named_with_its_section(tmp_path: Path) -> None:
    root = written(tmp_path, "[tool.servo]\nworkers = 0", "pyproject.toml")
    assert f"{root / 'pyproject.toml'}: tool.servo.workers: expected" in refusal(root)
    written(tmp_path, "[tool.servo\n", "pyproject.toml")
    assert "is not valid TOML" in refusal(root)


def test_two_of_them_in_one_folder_are_refused(tmp_path: Path) -> None:
    root = written(tmp_path, "[tool.servo]\n", "pyproject.toml")
    written(tmp_path, "")
    assert "keep one of the two" in refusal(root)


def test_a_store_elsewhere_is_left_as_it_is(tmp_path: Path) -> None:
    found = find_project(written(tmp_path, 'store = "s3://bucket/prefix"'))
    assert found is not None
    assert found.store == "s3://bucket/prefix"
