"""Configuration: what is given is checked, and what comes from the environment never shows."""

import copy
import pickle
import traceback
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ConfigDict, Field, ValidationError, field_validator, model_validator

from servo.errors import Invalid
from servo.sdk.assets.signature import read_signature
from servo.sdk.resources.config import Config, PermissiveConfig, build_config, schema_model
from servo.sdk.resources.environment import EnvVar, set_environment
from servo.sdk.resources.references import env_vars_in, resolve_env
from servo.sdk.resources.run_config import RunConfig
from servo.sdk.resources.secrets import Secret

SECRET = "hunter2-canary"
ENVIRON = {"TOKEN": SECRET, "PORT": "5432", "URL": "https://shop"}


class Window(Config):
    start: int = 0
    env: str = "test"


class Orders(Config):
    limit: int
    colour: Literal["red", "blue"] = "red"
    window: Window = Window()


class Tree(Config):
    token: str
    left: "Tree | None" = None


class Client(Config):
    token: str
    port: int = 80
    headers: dict[str, str] = Field(default_factory=dict)
    hosts: list[str] = Field(default_factory=list)
    ports: list[int] = Field(default_factory=list)
    windows: list[Window] = Field(default_factory=list)

    @field_validator("port")
    @classmethod
    def is_possible(cls, port: int) -> int:
        if port > 65_535:
            raise ValueError(f"{port} is no port")
        return port


def refused(values: Any, model: Any = Orders, environ: dict[str, str] | None = None) -> Invalid:
    with pytest.raises(Invalid) as told:
        build_config(model, values, where="asset orders", environ=environ or ENVIRON)
    return told.value


# --- building -------------------------------------------------------------------------------------


def test_a_mapping_becomes_the_model_with_its_defaults() -> None:
    made = build_config(Orders, {"limit": "5", "window": {"start": 2}}, where="asset orders")
    assert made == Orders(limit=5, window=Window(start=2))


def test_a_model_is_taken_as_it_is() -> None:
    given_model = Orders(limit=5)
    assert build_config(Orders, given_model, where="asset orders") is given_model


def test_without_a_model_the_values_are_a_plain_dict() -> None:
    made = build_config(None, {"a": [EnvVar("TOKEN")]}, where="asset orders", environ=ENVIRON)
    assert made == {"a": [SECRET]}
    assert build_config(dict, None, where="asset orders") == {}


def test_every_mistake_is_told_with_what_was_given_and_what_is_expected() -> None:
    told = refused({"colour": "green", "limt": 5, "window": {"start": "soon", "strat": 1}})
    assert told.message.startswith("asset orders: ")
    assert "the field limit is missing" in told.message
    assert "the field colour is 'green', but should be 'red' or 'blue'" in told.message
    assert "there is no field limt (did you mean limit?)" in told.message
    assert "the field window.start is 'soon', but should be a valid integer" in told.message
    assert "there is no field window.strat (did you mean start?)" in told.message
    assert "limit: int" in told.remedy
    assert "colour: Literal['red', 'blue'] = 'red'" in told.remedy


def test_what_was_meant_is_told_inside_of_lists_too() -> None:
    told = refused({"token": "", "windows": [{"start": 1}, {"strat": 1}]}, Client)
    assert "there is no field windows.1.strat (did you mean start?)" in told.message


def test_a_model_of_another_class_is_read_by_its_fields() -> None:
    assert build_config(Window, Window(start=1), where="a") == Window(start=1)
    assert "there is no field start" in refused(Window(start=1)).message


def test_a_model_may_hold_others_of_its_own_kind() -> None:
    made = build_config(
        Tree, {"token": "a", "left": Tree(token=EnvVar("TOKEN"))}, where="asset a", environ=ENVIRON
    )
    assert made.left is not None
    assert made.left.token == SECRET
    assert SECRET not in repr(made)


def test_a_long_value_is_cut_in_the_error() -> None:
    assert len(str(refused({"limit": "x" * 10_000}))) < 500


def test_the_words_of_a_validator_are_told() -> None:
    told = refused({"token": "t", "port": 70_000}, Client)
    assert "the field port is 70000, but 70000 is no port" in told.message


def test_the_words_of_a_models_own_check_are_told() -> None:
    class Range(Config):
        low: int
        high: int

        @model_validator(mode="after")
        def is_ordered(self) -> "Range":
            if self.low > self.high:
                raise ValueError("low is above high")
            return self

    assert "asset orders: low is above high" in str(refused({"low": 2, "high": 1}, Range))


@pytest.mark.parametrize("values", [3, "limit=5", [("limit", 5)]])
def test_a_config_that_is_no_mapping_is_refused(values: Any) -> None:
    told = refused(values)
    assert "the config is" in told.message
    assert told.remedy


def test_a_model_without_fields_says_so() -> None:
    assert refused({"a": 1}, Config).remedy == "leave it out: there are no fields"


def test_a_config_cannot_be_changed_and_refuses_unknown_fields_at_once() -> None:
    config = Orders(limit=1)
    with pytest.raises(ValidationError):
        config.limit = 2
    with pytest.raises(ValidationError):
        Orders(limit=1, size=2)  # pyright: ignore[reportCallIssue] - the mistake that is tested


def test_a_permissive_config_keeps_what_it_does_not_know() -> None:
    class Loose(PermissiveConfig):
        limit: int = 1

    made = build_config(Loose, {"size": EnvVar("TOKEN")}, where="asset a", environ=ENVIRON)
    assert made.model_extra == {"size": SECRET}
    assert SECRET not in f"{made} {made!r} {made.model_dump()} {made.model_dump_json()}"
    assert build_config(Loose, {"size": 3}, where="asset a").model_dump() == {"limit": 1, "size": 3}


def test_a_field_is_given_by_its_alias_or_its_name() -> None:
    class Table(Config):
        schema_: str = Field(alias="schema")

    for values in ({"schema": EnvVar("TOKEN")}, {"schema_": EnvVar("TOKEN")}):
        made = build_config(Table, values, where="asset a", environ=ENVIRON)
        assert made.schema_ == SECRET


def test_a_parameter_annotated_with_a_config_is_the_config() -> None:
    def orders(settings: Orders) -> None:
        del settings

    assert read_signature(orders).config == "settings"


# --- the environment ------------------------------------------------------------------------------


def test_a_variable_is_replaced_only_where_the_config_is_built() -> None:
    written = Client(
        token=EnvVar("TOKEN"),
        port=EnvVar.int("PORT"),
        hosts=[EnvVar("URL")],
        ports=[EnvVar.int("PORT"), 1],
    )
    assert repr(written.token) == "EnvVar('TOKEN')"
    made = build_config(Client, written, where="asset a", environ=ENVIRON)
    assert (made.token, made.port, made.hosts) == (SECRET, 5432, ["https://shop"])
    assert made.ports == [5432, 1]
    assert build_config(
        Client, {"token": "", "ports": [{"env": "PORT"}]}, where="a", environ=ENVIRON
    ).ports == [5432]
    assert type(made.token) is str
    assert written.token == "TOKEN"


def test_a_variable_may_be_a_default() -> None:
    class Shop(Config):
        token: str = EnvVar("TOKEN")

    assert build_config(Shop, {}, where="asset a", environ=ENVIRON).token == SECRET


def test_a_variable_in_a_file_is_spelled_env() -> None:
    values = {
        "token": {"env": "TOKEN"},
        "port": {"env": "PORT"},
        "headers": {"auth": {"env": "TOKEN"}},
    }
    made = build_config(Client, values, where="asset a", environ=ENVIRON)
    assert (made.token, made.port, made.headers) == (SECRET, 5432, {"auth": SECRET})


def test_a_field_that_takes_a_mapping_may_have_a_field_called_env() -> None:
    made = build_config(
        Orders, {"limit": 1, "window": {"env": "TOKEN"}}, where="a", environ=ENVIRON
    )
    assert made.window.env == "TOKEN"


def test_validators_see_the_value_and_never_the_name() -> None:
    seen: list[str] = []

    class Shop(Config):
        url: str

        @field_validator("url", mode="before")
        @classmethod
        def strip(cls, url: str) -> str:
            seen.append(url)
            return url.strip()

        @field_validator("url")
        @classmethod
        def is_safe(cls, url: str) -> str:
            if not url.startswith("https"):
                raise ValueError("not https")
            return url

    class Special(Shop):
        @field_validator("url")
        @classmethod
        def with_slash(cls, url: str) -> str:
            return f"{url}/"

    made = build_config(Special, Special(url=EnvVar("URL")), where="asset a", environ=ENVIRON)
    assert made.url == "https://shop/"
    assert seen == ["https://shop"]


def test_a_variable_that_is_not_set_is_told_with_the_field() -> None:
    told = refused(Client(token="", headers={"auth": EnvVar("NOPE")}), Client)
    assert told.message == (
        "asset orders: headers.auth is EnvVar('NOPE'), but the environment variable NOPE is not set"
    )
    assert told.remedy == "set NOPE where the code runs"


def test_a_variable_that_is_no_number_is_told_without_its_value() -> None:
    told = refused({"token": "", "port": EnvVar.int("TOKEN")}, Client)
    assert "port is EnvVar.int('TOKEN')" in told.message
    assert SECRET not in str(told)


@pytest.mark.parametrize(
    "values",
    [
        {"token": "", "port": EnvVar("TOKEN")},
        {"token": "", "port": {"env": "TOKEN"}},
        {"token": "", "hosts": EnvVar("TOKEN")},
        {"token": "", "port": EnvVar("BIG")},
    ],
)
def test_a_refused_value_from_the_environment_is_told_by_its_name(values: Any) -> None:
    told = refused(values, Client, {**ENVIRON, "BIG": "987654"})
    assert "rejects the value of EnvVar('" in told.message
    whole = "".join(traceback.format_exception(told)) + repr(told.__context__)
    assert SECRET not in whole
    assert "987654" not in whole


def test_a_refused_value_is_hidden_under_an_alias_too() -> None:
    class Table(Config):
        size_: int = Field(alias="size")

    told = refused({"size": EnvVar("TOKEN")}, Table)
    assert "rejects the value of EnvVar('TOKEN')" in told.message
    assert SECRET not in str(told)


def test_a_models_own_check_does_not_quote_the_environment() -> None:
    class Login(Config):
        token: str

        @model_validator(mode="after")
        def is_long(self) -> "Login":
            if self.token != "TOKEN":
                raise ValueError(f"{self.token} is too short")
            return self

    told = refused({"token": EnvVar("TOKEN")}, Login)
    assert "a check of Login rejects the value of EnvVar('TOKEN')" in told.message
    assert SECRET not in str(told)


class Nested(Config):
    name: str
    number: int
    inner: Client
    several: list[Client]
    mixed: dict[str, list[str]]


@given(secret=st.text(min_size=1).map("canary-{}".format), number=st.integers(10**9, 10**12))
def test_a_value_from_the_environment_shows_nowhere(secret: str, number: int) -> None:
    environ = {"TOKEN": secret, "NUMBER": str(number), "PORT": "1"}
    client = Client(token=EnvVar("TOKEN"), headers={"a": EnvVar("TOKEN")})
    written = Nested(
        name=EnvVar("TOKEN"),
        number=EnvVar.int("NUMBER"),
        inner=client,
        several=[client],
        mixed={"x": ["plain", EnvVar("TOKEN")]},
    )
    made = build_config(Nested, written, where="asset a", environ=environ)
    assert (made.name, made.number, made.inner.headers) == (secret, number, {"a": secret})
    assert (made.several[0].token, made.mixed) == (secret, {"x": ["plain", secret]})
    copied = made.model_copy(update={"mixed": {}})
    for model in (written, made, copied, made.model_copy(deep=True)):
        shown = f"{model} {model!r} {model.model_dump()} {model.model_dump_json()}"
        assert "canary" not in shown
        assert str(number) not in shown


def test_a_dump_can_be_used_although_it_does_not_show() -> None:
    values = {"token": EnvVar("TOKEN"), "port": EnvVar("PORT")}
    dumped = build_config(Client, values, where="asset a", environ=ENVIRON).model_dump()
    assert dumped["token"] == SECRET
    assert f"Bearer {dumped['token']}" == f"Bearer {SECRET}"
    assert dumped["port"] == 5432
    again = pickle.loads(pickle.dumps(dumped))
    assert again == dumped
    assert repr(again) == repr(dumped)


def test_a_dump_as_json_builds_the_same_config_again() -> None:
    made = build_config(Client, {"token": EnvVar("TOKEN")}, where="asset a", environ=ENVIRON)
    again = build_config(Client, made.model_dump(mode="json"), where="asset a", environ=ENVIRON)
    assert again == made


def test_a_changed_copy_is_what_gets_resolved() -> None:
    written = Client(token=EnvVar("TOKEN")).model_copy(update={"port": 7})
    assert build_config(Client, written, where="asset a", environ=ENVIRON).port == 7


def test_a_variable_is_a_text_of_its_name_and_survives_copies() -> None:
    for variable in (EnvVar("A"), EnvVar.int("A")):
        for other in (copy.deepcopy(variable), pickle.loads(pickle.dumps(variable))):
            assert (repr(other), str(other), f"{other}") == (repr(variable),) * 3
            assert other.env_var_name == "A"


def test_a_variable_can_be_asked_for_its_value() -> None:
    set_environment({"A": "1"})
    try:
        assert EnvVar("A").get_value() == "1"
        assert EnvVar.int("A").get_value() == 1
        assert EnvVar("B").get_value() is None
        assert EnvVar("B").get_value("x") == "x"
        assert EnvVar.int("B").get_value(3) == 3
    finally:
        set_environment({})


def test_plain_values_are_resolved_in_place_and_others_left_alone() -> None:
    something = object()
    assert resolve_env((something, {"a": EnvVar("URL")}), ENVIRON) == (
        something,
        {"a": "https://shop"},
    )
    untouched = [1, 2]
    assert resolve_env(untouched, ENVIRON) is untouched


def test_the_variables_in_a_value_can_be_listed() -> None:
    value = [Client(token=EnvVar("A"), port=EnvVar.int("B")), {"x": (Secret("C"),)}]
    told = ["EnvVar('A')", "EnvVar.int('B')", "Secret('C')"]
    assert [repr(reference) for reference in env_vars_in(value)] == told


# --- whole runs -----------------------------------------------------------------------------------


def test_the_config_level_may_be_left_out() -> None:
    plain = {"limit": 1}
    for spelled in (Config(), plain, {"config": plain}):
        whole = RunConfig(ops={"a": spelled}, resources={"r": spelled})
        values = {} if isinstance(spelled, Config) else plain
        assert whole.to_config_dict() == {
            "loggers": {},
            "execution": {},
            "ops": {"a": {"config": values}},
            "resources": {"r": {"config": values}},
        }


def test_a_run_config_is_the_same_after_a_trip_as_a_dict() -> None:
    whole = RunConfig(
        ops={"orders": Orders(limit=1), "b": {"config": Client(token=EnvVar("TOKEN"))}},
        resources={"r": {"hosts": [EnvVar("URL")]}},
    )
    again = RunConfig.of(whole.to_config_dict())
    assert again == whole
    assert SECRET not in repr(whole)
    made = build_config(Client, again.for_op("a/b", "b"), where="asset b", environ=ENVIRON)
    assert made.token == SECRET
    assert again.for_op("c") is None
    assert again.for_resources() == {"r": {"hosts": [{"env": "URL"}]}}
    assert RunConfig.of(None) == RunConfig()
    assert RunConfig.of(whole) is whole
    assert whole != {}


@pytest.mark.parametrize(("name", "meant"), [("op", "'ops'"), ("colours", "ops and resources")])
def test_an_unknown_section_is_told(name: str, meant: str) -> None:
    with pytest.raises(Invalid, match="no section") as told:
        RunConfig.of({name: {}})
    assert meant in told.value.remedy


def test_what_cannot_be_sent_is_told() -> None:
    class Odd(Config):
        thing: Any

    with pytest.raises(Invalid, match="Odd cannot be sent"):
        RunConfig(ops={"a": Odd(thing=object())}).to_config_dict()


def test_a_field_that_a_model_allows_besides_is_hidden_too() -> None:
    class Open(Config):
        model_config = ConfigDict(extra="allow")

    made = build_config(Open, {"token": EnvVar("TOKEN")}, where="asset a", environ=ENVIRON)
    assert SECRET not in f"{made} {made.model_dump()} {made.model_dump_json()}"


def test_an_old_style_schema_is_a_model() -> None:
    model = schema_model({"n": int, "deep": {"names": [str]}}, "resource a")
    assert model is not None
    made = build_config(model, {"n": "3", "deep": {"names": ["x"]}}, where="resource a")
    assert made.model_dump() == {"n": 3, "deep": {"names": ["x"]}}
    assert schema_model(Orders, "resource a") is Orders
    with pytest.raises(Invalid, match="resource a: n: 3 is not a config schema"):
        schema_model({"n": 3}, "resource a")
    with pytest.raises(Invalid, match="is not a config schema"):
        schema_model(str, "resource a")
