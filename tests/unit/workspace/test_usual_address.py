"""Which workspace is meant where nobody names one: the same for commands, scripts and notebooks."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from servo import ServoInstance, asset, load_asset, materialize
from servo.cli.options.workspace import Where, at_a_workspace
from servo.errors import Invalid, NotFound
from servo.workspace.address import Address
from servo.workspace.usual_address import usual_address

OWN_STORE = 'store = "data"\ntenant = "acme"\nworkspace = "sales"\n'


@asset
def orders() -> int:
    return 3


def folder_of(root: Path, text: str | None) -> Path:
    """A subfolder of a project with this project file."""
    if text is not None:
        (root / "servo.toml").write_text(text)
    inner = root / "notebooks"
    inner.mkdir()
    return inner


def test_without_a_project_it_is_the_folder_itself(tmp_path: Path) -> None:
    assert usual_address(tmp_path, {}) == Address.of(str(tmp_path / ".servo"))


def test_a_project_names_store_tenant_and_workspace_for_its_subfolders(tmp_path: Path) -> None:
    inner = folder_of(tmp_path, OWN_STORE)
    assert usual_address(inner, {}) == Address.of(str(tmp_path / "data"), "acme", "sales")


def test_a_project_that_names_no_store_has_it_beside_its_file(tmp_path: Path) -> None:
    inner = folder_of(tmp_path, 'tenant = "acme"\n')
    assert usual_address(inner, {}) == Address.of(str(tmp_path / ".servo"), "acme")


def test_the_environment_wins_over_the_store_of_the_project(tmp_path: Path) -> None:
    inner = folder_of(tmp_path, OWN_STORE)
    found = usual_address(inner, {"SERVO_STORE": "elsewhere"})
    assert found == Address.of(str(inner / "elsewhere"), "acme", "sales")
    bucket = usual_address(inner, {"SERVO_STORE": "s3://bucket/shop"})
    assert bucket == Address.of("s3://bucket/shop", "acme", "sales")


@pytest.mark.parametrize("store", ["s3:/bucket", "s3//bucket", "~nosuchuser/x"])
def test_a_mistyped_store_of_the_environment_is_refused(tmp_path: Path, store: str) -> None:
    with pytest.raises(Invalid):
        usual_address(tmp_path, {"SERVO_STORE": store})


def test_what_is_given_wins_over_the_project(tmp_path: Path) -> None:
    inner = folder_of(tmp_path, OWN_STORE)
    found = usual_address(inner, {}, tenant="other", workspace="one")
    assert found == Address.of(str(tmp_path / "data"), "other", "one")


@pytest.mark.parametrize("text", [None, "", OWN_STORE, 'workspace = "sales"\n'])
@pytest.mark.parametrize("variable", ["", "elsewhere", "~/shop", "memory://shop"])
def test_commands_mean_the_same_workspace_as_scripts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, variable: str
) -> None:
    inner = folder_of(tmp_path, text)
    monkeypatch.chdir(inner)
    monkeypatch.setenv("SERVO_STORE", variable)
    seen: list[Address] = []

    @click.command()
    @at_a_workspace
    def command(where: Where) -> None:
        seen.append(where.address)

    assert CliRunner().invoke(command, []).exit_code == 0
    assert seen == [usual_address(inner, {"SERVO_STORE": variable})]


# --- in a program ---------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose workspace has an asset; we are in a subfolder of it."""
    monkeypatch.delenv("SERVO_STORE", raising=False)
    monkeypatch.chdir(folder_of(tmp_path, OWN_STORE))
    own = ServoInstance.of_store(str(tmp_path / "data"), tenant="acme", workspace="sales")
    assert materialize([orders], instance=own).success
    return tmp_path


def test_load_asset_reads_the_workspace_of_the_project(project: Path) -> None:
    assert load_asset("orders") == 3
    assert load_asset("orders", tenant="acme", workspace="sales") == 3
    with pytest.raises(NotFound, match="check the tenant and the workspace"):
        load_asset("orders", tenant="another")
    # Whoever names a store names the rest too, as `materialize(store=...)` does.
    _ = materialize([orders], store=str(project / "own"))
    assert load_asset("orders", store=str(project / "own")) == 3
    with pytest.raises(NotFound, match="check the tenant and the workspace"):
        load_asset("orders", store=str(project / "data"))


def test_load_asset_reads_the_store_of_the_environment_first(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVO_STORE", str(project / "elsewhere"))
    with pytest.raises(NotFound, match=r"there is no store in .*elsewhere"):
        load_asset("orders")
    assert not (project / "elsewhere").exists()


def test_the_instance_of_a_folder_is_that_of_its_project(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ServoInstance.get()
    assert found.address == Address.of(str(project / "data"), "acme", "sales")
    assert found.has_asset_key("orders")
    monkeypatch.setenv("SERVO_STORE", str(project / "elsewhere"))
    with pytest.raises(NotFound, match=r"there is no store in .*elsewhere"):
        ServoInstance.get()
