"""Who works from here, as the operating system knows them."""

import getpass
import socket

import pytest

from servo.core.actors import ActorKind, parse_actor
from servo.workspace import identity
from servo.workspace.identity import this_process, user_at


def test_this_process_is_its_user_on_its_host() -> None:
    assert this_process() == user_at(getpass.getuser(), socket.gethostname())
    assert parse_actor(this_process()).kind == ActorKind.USER


@pytest.mark.parametrize(
    ("login", "host", "written"),
    [
        ("ada", "laptop", "user:ada@laptop"),
        ("CORP\\ada", "a b", "user:CORP-ada@a-b"),
        ("", "..", "user:unknown@unknown"),
    ],
)
def test_what_cannot_be_in_an_id_is_replaced(login: str, host: str, written: str) -> None:
    assert user_at(login, host) == written


def test_a_process_whose_user_has_no_name_has_an_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("no such user")

    monkeypatch.setattr(getpass, "getuser", nobody)
    identity.this_process.cache_clear()
    try:
        assert this_process().startswith("user:unknown@")
    finally:
        identity.this_process.cache_clear()
