"""Secrets in files, as containers mount them."""

from pathlib import Path

import pytest

from servo.errors import Invalid
from servo.execution.secret_files import FileSecrets


def test_a_folder_has_a_file_for_each(tmp_path: Path) -> None:
    (tmp_path / "..data").mkdir()
    (tmp_path / "..data" / "token").write_text("canary\n")
    (tmp_path / "token").symlink_to("..data/token")  # as Kubernetes does
    (tmp_path / "db").mkdir()
    (tmp_path / "db" / "password").write_bytes(b"line\r\nline\r\n")
    secrets = FileSecrets(tmp_path)
    assert secrets.get("token") == "canary"
    assert secrets.get("db/password") == "line\r\nline".replace("\r\n", "\n")
    assert secrets.get("db") is None
    assert secrets.get("other") is None


def test_a_file_that_was_replaced_is_taken(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("old")
    secrets = FileSecrets(str(tmp_path))
    assert secrets.get("token") == "old"
    (tmp_path / "token").write_text("new")
    assert secrets.get("token") == "new"


@pytest.mark.parametrize("name", ["../other", "/etc/passwd", "a/../../b", "a\0b"])
def test_nothing_outside_of_the_folder_is_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(Invalid, match="outside of"):
        FileSecrets(tmp_path).get(name)


def test_a_json_file_has_all_of_them(tmp_path: Path) -> None:
    path = tmp_path / "secrets.json"
    path.write_text('{"token": "canary", "port": 5432, "nested": {"a": [1]}}')
    secrets = FileSecrets(path)
    assert [secrets.get(name) for name in ("token", "port", "nested", "other")] == [
        "canary",
        "5432",
        '{"a":[1]}',
        None,
    ]


def test_an_env_file_has_all_of_them(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text(
        "# COMMENT=no\n"
        "PLAIN = a b#c # and a comment\n"
        "export EXPORTED='single \\n # quoted'\n"
        'DOUBLE="two\\nlines \\"quoted\\"" # why\n'
        'SEVERAL="first\nsecond"\n'
        "EMPTY=\n"
        "no line\n"
        "LAST=x=y"
    )
    secrets = FileSecrets(path)
    assert secrets.get("PLAIN") == "a b#c"
    assert secrets.get("EXPORTED") == "single \\n # quoted"
    assert secrets.get("DOUBLE") == 'two\nlines "quoted"'
    assert secrets.get("SEVERAL") == "first\nsecond"
    assert secrets.get("EMPTY") == ""
    assert secrets.get("LAST") == "x=y"
    assert secrets.get("COMMENT") is None


@pytest.mark.parametrize("content", [b'{"token": "canary"', b"{canary}", b"\xffcanary"])
def test_a_broken_file_is_told_without_what_stands_in_it(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "secrets"
    path.write_bytes(content)
    with pytest.raises(Invalid) as told:
        FileSecrets(path).get("token")
    assert "canary" not in str(told.value)
    assert told.value.__context__ is None


def test_a_path_that_is_not_there_has_none(tmp_path: Path) -> None:
    assert FileSecrets(tmp_path / "none").get("token") is None
