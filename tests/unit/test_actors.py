"""Actors: how they are written and read."""

import pytest

from servo.core.actors import Actor, ActorKind, actor, is_actor, parse_actor
from servo.errors import Invalid


def test_an_actor_is_a_kind_and_a_name() -> None:
    assert actor(ActorKind.USER, "ada@laptop") == "user:ada@laptop"
    assert parse_actor("user:ada@laptop") == Actor("user", "ada@laptop")


def test_a_name_may_hold_colons() -> None:
    assert parse_actor("backfill:a:b") == Actor("backfill", "a:b")


def test_a_kind_of_a_later_version_is_read() -> None:
    assert parse_actor("token:ci") == Actor("token", "ci")


@pytest.mark.parametrize("text", ["", "user", "user:", ":ada", "User:ada", "1:ada", "user:a\nb"])
def test_anything_else_is_no_actor(text: str) -> None:
    assert not is_actor(text)
    with pytest.raises(Invalid):
        parse_actor(text)


def test_whoever_leaves_out_the_kind_is_told_how_to_write_it() -> None:
    with pytest.raises(Invalid, match="write KIND:NAME, such as user:ada@laptop"):
        parse_actor("ada")


def test_a_name_has_an_end() -> None:
    assert is_actor("user:" + "a" * 507)
    assert not is_actor("user:" + "a" * 508)
