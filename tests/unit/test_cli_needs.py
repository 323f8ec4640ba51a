"""Commands that are told of what the code asks for, and of what is not there."""

import sys
from pathlib import Path

import pytest

from servo.cli.main import run

CODE = """
from servo import Config, ConfigurableResource, asset

class Warehouse(ConfigurableResource):
    url: str

class Limit(Config):
    most: int = 3

@asset
def orders(config: Limit, warehouse: Warehouse):
    return config.most
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "needs_a_warehouse.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


def test_check_names_a_resource_that_is_missing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["check"]) == 2
    place = f"asset orders ({folder / 'needs_a_warehouse.py'}:10)"
    assert f"there is no resource 'warehouse', which {place} needs" in capsys.readouterr().err


def test_configuration_for_what_is_not_there_begins_no_run(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["materialize", "--config", '{"ops": {"order": {"config": {"most": 1}}}}']) == 2
    told = "the configuration is for 'order', but the project has no such asset or check"
    assert capsys.readouterr().err == f"error: {told}; did you mean 'orders'?\n"
    assert not (folder / ".servo").exists()


def test_a_selection_of_nothing_begins_no_run(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["materialize", "needs_a_warehouse.py", "tag:nobody"]) == 3
    told = "no asset is selected by tag:nobody; see `servo list` for the assets of the project"
    assert capsys.readouterr().err == f"error: {told}\n"
    assert not (folder / ".servo").exists()


@pytest.mark.parametrize("command", [["check"], ["materialize", "--dry-run"]])
def test_a_dependency_that_may_be_misspelt_is_remarked(
    command: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = (
        "from servo import asset\n@asset\ndef orders(): ...\n@asset(deps=['ordrs'])\ndef b(): ...\n"
    )
    (tmp_path / f"typo_{command[0]}.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert run(command) == 0
    told = "depends on 'ordrs', which is not defined here; did you mean 'orders'?\n"
    assert f"typo_{command[0]}.py:4) {told}" in capsys.readouterr().err
