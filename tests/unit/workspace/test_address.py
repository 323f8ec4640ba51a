"""One workspace has one address, however its store is spelled."""

import re
from pathlib import Path
from urllib.parse import urlencode

import pytest

from servo.errors import Invalid, NotFound
from servo.workspace.address import Address, store_in
from servo.workspace.bucket_url import ENDPOINTS
from servo.workspace.composition import open_to_read


@pytest.fixture(autouse=True)
def no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ENDPOINTS:
        monkeypatch.delenv(name, raising=False)


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


@pytest.mark.parametrize(
    "spelling",
    [
        "s3://b//p?endpoint=http://h:9000&region=r&allow_http=true",
        "s3://b/%70/?endpoint=http://h:9000&region=r&allow_http=true",
        "s3://b/p?endpoint=http://h:9000/&region=r&allow_http=true",
        "s3://b/p?endpoint=HTTP://H:9000&region=r&allow_http=1",
        "s3://b/p?allow_http=true&region=r&endpoint=http%3A%2F%2Fh%3A9000",
        "s3://b/p?region=other&endpoint=http://h:9000&region=r&allow_http=true",
    ],
)
def test_a_bucket_on_a_server_has_one_spelling(spelling: str) -> None:
    plain = Address.of("s3://b/p?endpoint=http://h:9000&region=r&allow_http=true")
    assert Address.of(spelling) == plain == Address.of(plain.store)


def test_options_that_say_the_default_are_left_out() -> None:
    plain = Address.of("s3://b/p?endpoint=https://h")
    assert Address.of("s3://b/p?endpoint=https://h:443&allow_http=0") == plain
    assert Address.of("s3://b/p?endpoint=https://h:444") != plain
    assert Address.of("s3://b/p?endpoint=https://h/at") != plain


@pytest.mark.parametrize("endpoint", ["", "h", "http://[", "http://h:x", "http://user:word@h/"])
def test_an_endpoint_that_is_none_is_left_for_the_store_to_refuse(endpoint: str) -> None:
    address = Address.of(f"s3://b/p?{urlencode({'endpoint': endpoint})}")
    with pytest.raises(Invalid):
        _ = open_to_read(address.store)


def test_a_prefix_keeps_characters_that_a_url_escapes() -> None:
    assert Address.of("s3://b/a%3Fb%20%C3%BC").store == "s3://b/a%3Fb%20%C3%BC"
    assert Address.of("s3://b/a%3Fb ü") == Address.of("s3://b/a%3Fb%20%C3%BC")


def test_the_server_that_the_environment_names_is_part_of_the_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nameless = Address.of("s3://b/p?region=r")
    for name in ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):  # the last one counts
        monkeypatch.setenv(name, f"https://{name.lower()}/")
        address = Address.of("s3://b/p?region=r")
        assert address == Address.of(f"s3://b/p?region=r&endpoint=https://{name.lower()}")
        assert address.digest != nameless.digest
    chosen = Address.of("s3://b/p?endpoint=https://mine")
    assert chosen.store == "s3://b/p?endpoint=https%3A%2F%2Fmine"


def test_credentials_in_the_environment_never_become_part_of_an_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://user:secret@host")
    assert Address.of("s3://b/p").store == "s3://b/p"


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
