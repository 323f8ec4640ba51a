"""Secrets have a name where they are written and a value where the code runs."""

from collections.abc import Generator

import pytest
from pydantic import Field

from servo.errors import Invalid
from servo.sdk.definitions.definitions import Definitions
from servo.sdk.resources.config import Config, build_config
from servo.sdk.resources.configurable import ConfigurableResource
from servo.sdk.resources.environment import EnvVar, set_environment
from servo.sdk.resources.redaction import hidden
from servo.sdk.resources.resources import build_resources
from servo.sdk.resources.run_config import RunConfig
from servo.sdk.resources.secrets import EnvSecrets, Secret, providing

VALUE = "canary-of-a-vault"


class Vault:
    def __init__(self, **kept: str) -> None:
        self._kept = kept

    def get(self, name: str) -> str | None:
        return self._kept.get(name)


class Warehouse(ConfigurableResource):
    password: str
    port: int = 1


class Wanted(Config):
    token: str
    more: dict[str, str] = Field(default_factory=dict)


@pytest.fixture(autouse=True)
def _nothing_is_known() -> Generator[None]:
    hidden().clear()
    set_environment({"SHOP_TOKEN": VALUE, "SHOP_PORT": "54321", "PATH": "/bin"})
    yield
    hidden().clear()
    set_environment({})


def test_a_secret_is_resolved_in_a_resource_and_does_not_show() -> None:
    written = Warehouse(password=Secret("password"), port=Secret("port"))  # pyright: ignore[reportArgumentType] - as people write it
    assert "Secret('password')" in repr(written)
    vault = Vault(password=VALUE, port="54321")
    with build_resources({"warehouse": written}, secrets=[vault]) as resources:
        made = resources.warehouse
        assert (made.password, made.port) == (VALUE, 54321)
        assert VALUE not in repr(made)
        assert VALUE not in str(made.model_dump_json())
    assert hidden().text(f"{VALUE} 54321") == "*** ***"


def test_a_secret_is_resolved_in_a_config_and_sent_by_name() -> None:
    sent = RunConfig(ops={"orders": Wanted(token=Secret("token"), more={"a": Secret("other")})})
    assert sent.to_config_dict()["ops"]["orders"]["config"] == {
        "token": {"secret": "token"},
        "more": {"a": {"secret": "other"}},
    }
    given = RunConfig.of(sent.to_config_dict()).for_op("orders")
    with providing([Vault(token=VALUE, other="another")]):
        made = build_config(Wanted, given, where="asset orders")
    assert (made.token, made.more) == (VALUE, {"a": "another"})


def test_providers_are_asked_in_their_order() -> None:
    with providing([Vault(a="first"), Vault(a="second", b="last")]):
        assert Secret("a").get_value() == "first"
        assert Secret("b").get_value() == "last"
        assert Secret("c").get_value("otherwise") == "otherwise"


def test_the_environment_gives_only_what_has_the_prefix() -> None:
    provider = EnvSecrets(prefix="SHOP_")
    assert provider.get("token") == VALUE
    assert provider.get("SHOP_TOKEN") == VALUE
    assert provider.get("PATH") is None
    assert provider.get("to-ken") is None


@pytest.mark.parametrize("prefix", ["", "9", "A B", "*"])
def test_a_prefix_is_demanded(prefix: str) -> None:
    with pytest.raises(Invalid, match="prefix"):
        EnvSecrets(prefix=prefix)


def test_what_is_read_from_a_variable_is_hidden_too() -> None:
    assert EnvVar("SHOP_TOKEN").get_value() == VALUE
    assert EnvVar.int("SHOP_PORT").get_value() == 54321
    assert hidden().text(f"{VALUE}:54321") == "***:***"


def test_a_secret_that_nobody_has_is_told_with_who_was_asked() -> None:
    class Other(Vault):
        def __repr__(self) -> str:
            return VALUE

    asked = [EnvSecrets(prefix="SHOP_"), Other()]
    with providing(asked), pytest.raises(Invalid) as told:
        build_config(Wanted, {"token": Secret("tokn")}, where="asset orders")
    assert str(told.value) == (
        "asset orders: token is Secret('tokn'), which none of EnvSecrets(prefix='SHOP_'), Other"
        " provides; add it there, or fix its name"
    )
    with pytest.raises(Invalid, match="no secrets provider is configured"):
        build_config(Wanted, {"token": Secret("token")}, where="asset orders")


def test_what_a_provider_raises_says_who_was_asked() -> None:
    class Closed(Vault):
        def get(self, name: str) -> str | None:
            raise OSError(f"sealed: {name}")

    with providing([Closed()]), pytest.raises(OSError, match="sealed") as told:
        Secret("a").get_value()
    assert told.value.__notes__ == ["while asking Closed for the secret 'a'"]


def test_a_provider_has_to_return_a_text() -> None:
    class Odd:
        def get(self, name: str) -> str | None:
            return len(name)  # pyright: ignore[reportReturnType] - the mistake

    with providing([Odd()]), pytest.raises(Invalid, match="Odd returned int for 'a'"):
        Secret("a").get_value()


@pytest.mark.parametrize("wrong", ["a string", EnvSecrets, 3])
def test_what_provides_nothing_is_refused_where_it_is_written(wrong: object) -> None:
    with pytest.raises(Invalid, match="which is not a secrets provider"):
        Definitions(secrets=[wrong])  # pyright: ignore[reportArgumentType] - the mistake


def test_definitions_that_are_merged_ask_each_provider_once() -> None:
    vault, other = Vault(), Vault()
    merged = Definitions.merge(
        Definitions(secrets=[vault]), Definitions(secrets=[other, vault]), Definitions()
    )
    assert list(merged.secrets) == [vault, other]
    assert merged.project().secrets == [vault, other]


def test_a_secret_without_a_name_is_refused() -> None:
    with pytest.raises(Invalid, match="needs a name"):
        Secret(" ")
