"""Two definitions of one name in one file, of which Python keeps only the second."""

import sys
from pathlib import Path
from textwrap import dedent

import pytest

from servo import load_assets_from_modules
from servo.code.loader import load_module, load_project
from servo.errors import Invalid

HEAD = "import servo as dg\nfrom servo import Definitions, asset, asset_check\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


def written(folder: Path, name: str, code: str) -> str:
    (folder / f"{name}.py").write_text(HEAD + dedent(code))
    return f"{name}.py"


@pytest.mark.parametrize(
    ("name", "code", "lines"),
    [
        ("plain", "@asset\ndef a(): ...\n@asset\ndef a(): ...\n", (3, 5)),
        (
            "between",
            "@asset\ndef a(): ...\n@asset(deps=[a])\ndef b(): ...\n@asset\ndef a(): ...",
            (3, 7),
        ),
        ("dotted", "@dg.asset(name='x')\nasync def a(): ...\n@asset()\ndef a(): ...\n", (3, 5)),
        (
            "check",
            "@asset\ndef a(): ...\n@asset_check(asset=a)\ndef c(): ...\n@dg.asset_check(asset=a)\n"
            "def c(): ...\n",
            (5, 7),
        ),
        (
            "defined",
            "@asset\ndef a(): ...\n@asset\ndef a(): ...\ndefs = Definitions(assets=[a])\n",
            (3, 5),
        ),
    ],
)
def test_both_places_are_told(folder: Path, name: str, code: str, lines: tuple[int, int]) -> None:
    target = written(folder, f"twice_{name}", code)
    with pytest.raises(Invalid) as refused:
        load_project(target, folder)
    places = " and ".join(f"{folder / target}:{line}" for line in lines)
    assert f"is defined twice: {places}, and the second replaces the first" in str(refused.value)


def test_of_gathered_modules_as_well(folder: Path) -> None:
    code = "@asset\ndef a(): ...\n@asset\ndef a(): ...\n"
    module = load_module(written(folder, "twice_gathered", code), folder)
    with pytest.raises(Invalid, match="a is defined twice"):
        load_assets_from_modules([module])


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("alias", "@asset\ndef a(): ...\nfirst = a\n@asset(name='b')\ndef a(): ...\n"),
        ("list", "@asset\ndef a(): ...\nall_ = [a]\n@asset(name='b')\ndef a(): ...\n"),
        ("helper", "def a(): ...\n@asset\ndef a(): ...\n@asset\ndef b(): ...\n"),
        ("text", '@asset\ndef a(): ...\n@asset\ndef b(): ...\ntext = """\ndef a(): ...\n"""\n'),
        ("deleted", "@asset\ndef a(): ...\n@asset\ndef b(): ...\ndel a\n@asset\ndef a(): ...\n"),
    ],
)
def test_what_was_kept_or_is_no_definition_is_let_be(folder: Path, name: str, code: str) -> None:
    assert len(load_project(written(folder, f"once_{name}", code), folder).specs) == 2
