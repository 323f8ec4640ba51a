"""One workspace has one address, however its store is spelled."""

import re
from pathlib import Path

import pytest

from servo.errors import Invalid, NotFound
from servo.workspace.address import Address, store_in


def test_a_path_a_file_url_and_a_symlink_are_one_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / ".servo"
    store.mkdir()
    (tmp_path / "link").symlink_to(store)
    monkeypatch.chdir(tmp_path)
    spellings = (
        ".servo",
        "./.servo/",
        str(store),
        f"file://{store}",
        f"file://localhost{store}/",
        "link",
        f"{tmp_path}/other/../.servo",
    )
    assert {Address.of(spelling) for spelling in spellings} == {Address(str(store.resolve()))}


def test_the_home_folder_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Address.of("~/shop").store == str(tmp_path.resolve() / "shop")


def test_a_percent_sign_in_a_file_url_is_read_once() -> None:
    assert Address.of("file:///data/100%25").store == "/data/100%"
    assert Address.of("/data/100%25").store == "/data/100%25"


def test_a_bucket_has_one_spelling() -> None:
    plain = Address.of("s3://bucket/prefix")
    assert Address.of("S3://bucket/prefix/") == plain
    assert Address.of("s3://bucket/prefix?region=a&endpoint=b") == Address.of(
        "s3://bucket/prefix/?endpoint=b&region=a"
    )


def test_addresses_tell_stores_tenants_and_workspaces_apart() -> None:
    addresses = [
        Address.of("/data"),
        Address.of("/data", "acme"),
        Address.of("/data", "default", "acme"),
        Address.of("/data/acme"),
        Address.of("s3://data"),
    ]
    assert len({address.digest for address in addresses}) == len(addresses)


@pytest.mark.parametrize(
    ("store", "local", "memory", "shared"),
    [
        ("/data", True, False, False),
        ("file:///data", True, False, False),
        ("memory://x", False, True, False),
        ("s3://bucket", False, False, True),
    ],
)
def test_an_address_knows_who_can_reach_it(
    store: str, local: bool, memory: bool, shared: bool
) -> None:
    address = Address.of(store)
    assert (address.is_local, address.is_in_memory, address.is_shared) == (local, memory, shared)


@pytest.mark.parametrize("name", ["..", "a/b", "", "a:b", "Ü", "a\0b"])
def test_a_tenant_or_workspace_that_cannot_be_part_of_a_path_is_refused(name: str) -> None:
    with pytest.raises(Invalid):
        Address.of("/data", name)
    with pytest.raises(Invalid):
        Address.of("/data", "default", name)


def test_a_folder_that_does_not_exist_is_told_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="materialize an asset to create it"):
        Address.of(str(tmp_path / "missing")).check_exists()
    Address.of(str(tmp_path)).check_exists()
    Address.of("s3://bucket").check_exists()


@pytest.mark.parametrize(
    ("store", "told"),
    [
        ("", "is empty"),
        ("a\0b", "null character"),
        ("s3:/bucket/prefix", "neither a path nor a URL"),
        ("s3:bucket", "neither a path nor a URL"),
        ("s3//bucket/prefix", "neither a path nor a URL"),
        ("http://host/x", "unknown kind of store: 'http'"),
        ("gopher://[", "the URL of the store is invalid"),
        ("s3://user:secret@bucket", "contains credentials"),
        ("file://host/x", "not a folder of this machine"),
        ("~nosuchuser/x", "the home folder in '~nosuchuser/x' is unknown"),
        ("x" * 5000, "File name too long"),
        ("a/" * 2500, "File name too long"),
        ("loop", "Too many levels of symbolic links"),
        ("loop/inner", "Too many levels of symbolic links"),
        ("\udcff", "is not valid UTF-8"),
    ],
)
def test_what_can_be_no_store_is_refused_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str, told: str
) -> None:
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Invalid, match=re.escape(told)) as refused:
        Address.of(store)
    assert refused.value.remedy


def test_a_folder_may_have_a_colon_in_its_name(tmp_path: Path) -> None:
    assert Address.of(f"{tmp_path}/s3:/a").store == str(tmp_path.resolve() / "s3:" / "a")
    assert Address.of("./s3:a").store == str(Path.cwd() / "s3:a")


def test_a_relative_store_begins_in_the_folder_of_whoever_wrote_it(tmp_path: Path) -> None:
    assert store_in(tmp_path, "data") == str(tmp_path / "data")
    assert store_in(tmp_path, "/data") == "/data"
    assert store_in(tmp_path, "s3://bucket/data") == "s3://bucket/data"
    with pytest.raises(Invalid, match="neither a path nor a URL"):
        store_in(tmp_path, "s3:/bucket/data")


def test_people_see_the_names_only_where_they_are_not_the_usual_ones() -> None:
    assert str(Address("/data")) == "/data"
    assert str(Address("/data", "acme", "prod")) == "/data (acme/prod)"
