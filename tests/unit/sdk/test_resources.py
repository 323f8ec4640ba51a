"""Resources: made once and in order, torn down whatever happens, and never shown with secrets."""

import copy
import traceback
from collections.abc import Generator, Iterator
from contextlib import (
    AbstractContextManager,
    ContextDecorator,
    closing,
    contextmanager,
    nullcontext,
)
from io import StringIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import PrivateAttr, ValidationError

from servo.errors import Invalid
from servo.sdk.assets.signature import read_signature
from servo.sdk.resources.config import Config, EnvVar, RunConfig, set_environment
from servo.sdk.resources.configurable import (
    ConfigurableResource,
    ConfigurableResourceFactory,
    ResourceDependency,
)
from servo.sdk.resources.resources import (
    InitResourceContext,
    ResourceDefinition,
    ResourceParam,
    Resources,
    build_init_resource_context,
    build_resources,
    open_resources,
    resource,
)

SECRET = "hunter2-canary"
ENVIRON = {"TOKEN": SECRET, "PORT": "5432"}


class Diary(ConfigurableResource):
    """Writes down what happens to it, and fails where it is told to."""

    name: str = "diary"
    fails: str = ""
    inner: ConfigurableResource | None = None
    other: ConfigurableResource | None = None
    _state: dict[str, int] = PrivateAttr(default_factory=dict[str, int])

    def setup_for_execution(self, context: InitResourceContext) -> None:
        del context
        self._write("setup")
        self._state["uses"] = self._state.get("uses", 0) + 1

    def teardown_after_execution(self, context: InitResourceContext) -> None:
        del context
        self._write("teardown")

    def _write(self, what: str) -> None:
        pages.append(f"{what} {self.name}")
        if self.fails == what:
            raise OSError(f"{what} of {self.name}")

    @property
    def uses(self) -> int:
        return self._state["uses"]


pages: list[str] = []


@pytest.fixture(autouse=True)
def _empty_pages() -> Iterator[None]:
    pages.clear()
    yield
    set_environment({})


class Client:
    def __init__(self, token: str) -> None:
        self.token = token


class ClientFactory(ConfigurableResourceFactory[Client]):
    token: str

    def create_resource(self, context: InitResourceContext) -> Client:
        del context
        pages.append("client")
        return Client(self.token)


def client(token: str = "t") -> Any:  # noqa: S107 - no password
    """What makes a client, for fields that will hold one."""
    return ClientFactory(token=token)


class Shop(ConfigurableResource):
    client: ResourceDependency[Client]
    port: int = 80


def opened(definitions: dict[str, Any], *needed: str, **options: Any) -> Any:
    return open_resources(definitions, needed or definitions, ENVIRON, **options)


# --- making ---------------------------------------------------------------------------------------


def test_code_gets_the_values_and_the_definition_keeps_the_names() -> None:
    definition = Shop(client=client(EnvVar("TOKEN")), port=EnvVar.int("PORT"))
    with opened({"shop": definition}) as resources:
        assert (resources.shop.client.token, resources.shop.port) == (SECRET, 5432)
        assert isinstance(resources.shop, Shop)
    assert repr(definition.port) == "EnvVar.int('PORT')"


def test_only_what_is_needed_is_made() -> None:
    inner = Diary(name="inner")
    definitions = {"a": Diary(name="a", inner=inner), "b": Diary(name="b"), "inner": inner}
    with opened(definitions, "a") as resources:
        assert list(resources) == ["a"]
    assert pages == ["setup inner", "setup a", "teardown a", "teardown inner"]


def test_a_resource_inside_several_is_made_once() -> None:
    shared = Diary(name="shared")
    definitions = {
        "a": Diary(name="a", inner=shared, other=shared),
        "b": Diary(name="b", inner=Diary(name="middle", inner=shared)),
        "shared": shared,
    }
    with opened(definitions) as resources:
        assert resources.a.inner is resources.a.other is resources.b.inner.inner
        assert resources.a.inner is resources.shared
        assert resources.shared.uses == 1
    ups = ["setup shared", "setup a", "setup middle", "setup b"]
    downs = ["teardown b", "teardown middle", "teardown a", "teardown shared"]
    assert pages == ups + downs


def test_equal_resources_that_are_two_are_made_twice() -> None:
    with opened({"a": Diary(name="x"), "b": Diary(name="x")}) as resources:
        assert resources.a is not resources.b
    assert len(pages) == 4


def test_nothing_is_left_of_one_execution_in_the_next() -> None:
    definitions = {"a": Diary()}
    for _ in range(2):
        with opened(definitions) as resources:
            assert resources.a.uses == 1


def test_a_factory_is_made_once_for_all_that_name_it() -> None:
    factory = client()
    definitions = {"a": Shop(client=factory), "b": Shop(client=factory), "client": factory}
    with opened(definitions) as resources:
        assert resources.a.client is resources.b.client is resources.client
    assert pages == ["client"]


def test_plain_objects_are_left_as_they_are() -> None:
    thing = StringIO()
    with opened({"thing": thing, "shop": Shop(client=Client("x"))}) as resources:
        assert resources.thing is thing
        assert resources.shop.client.token == "x"
    assert not thing.closed


def test_a_resource_says_all_of_its_life_in_one_place() -> None:
    class Connection(ConfigurableResource):
        _open: bool = PrivateAttr(default=False)

        @contextmanager
        def yield_for_execution(self, context: InitResourceContext) -> Generator[Any]:
            context.log.info("opening")
            with closing(StringIO()) as file:
                self._open = not file.closed
                yield self
            pages.append("closed")

        @property
        def is_open(self) -> bool:
            return self._open

    with opened({"connection": Connection()}) as resources:
        assert resources.connection.is_open
    assert pages == ["closed"]


def test_a_resource_knows_the_context_it_was_made_for() -> None:
    told = InitResourceContext(run_id="r1")
    with opened({"a": Diary(name=EnvVar("TOKEN"))}, context=told) as resources:
        context = resources.a.get_resource_context()
    assert context.run_id == "r1"
    assert context.resource_config["name"] == SECRET
    assert SECRET not in repr(context.resource_config)
    with pytest.raises(Invalid, match="was not initialized for an execution"):
        Diary().get_resource_context()


# --- configuration at launch ----------------------------------------------------------------------


def test_a_run_can_give_the_fields_that_are_left_open() -> None:
    definitions = {"client": ClientFactory.configure_at_launch()}
    config = RunConfig(resources={"client": {"token": EnvVar("TOKEN")}}).for_resources()
    with opened(definitions, config=config) as resources:
        assert resources.client.token == SECRET


def test_a_run_can_replace_fields_and_gives_them_to_all_that_use_the_resource() -> None:
    inner = Diary(name="inner")
    definitions = {"a": Diary(name="a", inner=inner), "inner": inner}
    with opened(definitions, "a", config={"inner": Diary(name="new")}) as resources:
        assert resources.a.inner.name == "new"
        assert "new" in repr(resources.a.inner)


def test_a_field_that_nobody_gave_is_told() -> None:
    definitions = {"client": ClientFactory.configure_at_launch()}
    with (
        pytest.raises(Invalid, match="resource client: the field token is missing"),
        opened(definitions),
    ):
        pass


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"a": {"nam": "x"}}, "resource a: there is no field nam (did you mean name?)"),
        ({"a": 3}, "resource a: the run config is 3"),
        ({"a": {"name": EnvVar("NOPE")}}, "resource a: name is EnvVar('NOPE')"),
    ],
)
def test_wrong_fields_from_a_run_are_told(config: Any, why: str) -> None:
    with pytest.raises(Invalid) as told, opened({"a": Diary()}, config=config):
        pass
    assert why in str(told.value)
    assert told.value.remedy


# --- teardown -------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [KeyError("body"), KeyboardInterrupt(), SystemExit(3)])
def test_all_is_torn_down_in_the_opposite_order_when_the_body_raises(error: BaseException) -> None:
    definitions = {"a": Diary(name="a", inner=Diary(name="inner")), "b": Diary(name="b")}
    with pytest.raises(type(error)) as told, opened(definitions):
        raise error
    assert told.value is error
    assert pages[3:] == ["teardown b", "teardown a", "teardown inner"]


def test_a_failed_teardown_never_hides_the_error_of_the_body() -> None:
    definitions = {
        "a": Diary(name="a", fails="teardown"),
        "b": Diary(name="b", fails="teardown"),
        "c": Diary(name="c"),
    }
    with pytest.raises(KeyError) as told, opened(definitions):
        raise KeyError("body")
    assert told.value.__notes__ == [
        "tearing down the resource b failed too: OSError: teardown of b",
        "tearing down the resource a failed too: OSError: teardown of a",
    ]
    assert pages[3:] == ["teardown c", "teardown b", "teardown a"]


def test_a_failed_teardown_is_the_error_when_the_body_has_none() -> None:
    definitions = {
        "a": Diary(name="a", fails="teardown"),
        "b": Diary(name="b", fails="teardown"),
    }
    with pytest.raises(OSError, match="teardown of b") as told, opened(definitions):
        pass
    assert told.value.__notes__ == [
        "tearing down the resource a failed too: OSError: teardown of a"
    ]


def test_what_was_made_is_torn_down_when_the_next_cannot_be_made() -> None:
    definitions = {"a": Diary(name="a"), "b": Diary(name="b", fails="setup")}
    with pytest.raises(OSError, match="setup of b") as told, opened(definitions):
        pass
    assert told.value.__notes__ == ["while making the resource b"]
    assert pages == ["setup a", "setup b", "teardown a"]


def test_a_resource_cannot_swallow_the_error_of_the_body() -> None:
    class Quiet(ConfigurableResource):
        @contextmanager
        def yield_for_execution(self, context: InitResourceContext) -> Generator[Any]:
            del context
            try:
                yield self
            except KeyError:
                pages.append("rolled back")

    with pytest.raises(KeyError), opened({"quiet": Quiet()}):
        raise KeyError("body")
    assert pages == ["rolled back"]


def test_an_error_that_a_teardown_raises_again_is_not_told_twice() -> None:
    class Around(ContextDecorator, AbstractContextManager[int]):
        def __enter__(self) -> int:
            return 1

        def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
            if error is not None:
                raise error

    with (
        pytest.raises(KeyError) as told,
        opened({"around": ResourceDefinition(Around), "diary": Diary()}),
    ):
        raise KeyError("body")
    assert not hasattr(told.value, "__notes__")
    assert pages == ["setup diary", "teardown diary"]


@given(st.sets(st.sampled_from("abcde")), st.booleans())
def test_what_went_up_comes_down_in_the_opposite_order(failing: set[str], fails: bool) -> None:
    pages.clear()
    definitions = {name: Diary(name=name, fails="teardown" * (name in failing)) for name in "abcde"}
    expected = pytest.raises(KeyError) if fails else pytest.raises(OSError, match="teardown")
    with expected if fails or failing else nullcontext(), opened(definitions):
        if fails:
            raise KeyError("body")
    up = [page.removeprefix("setup ") for page in pages if page.startswith("setup")]
    down = [page.removeprefix("teardown ") for page in pages if page.startswith("teardown")]
    assert up == list("abcde")
    assert down == up[::-1]


# --- functions ------------------------------------------------------------------------------------


def test_a_function_makes_a_resource_of_its_config_and_of_others() -> None:
    @resource(config_schema={"size": int}, required_resource_keys={"client"})
    def shop(context: InitResourceContext) -> tuple[str, int]:
        return context.resources.client.token, context.resource_config["size"]

    definitions = {
        "shop": shop.configured({"size": EnvVar("PORT")}),
        "client": client(),
    }
    with opened(definitions, "shop") as resources:
        assert resources.shop == ("t", 5432)
    with opened(definitions, "shop", config={"shop": {"size": 1}}) as resources:
        assert resources.shop == ("t", 1)
    with (
        pytest.raises(Invalid, match="resource shop: the field size is 'x'"),
        opened(definitions, "shop", config={"shop": {"size": "x"}}),
    ):
        pass


def test_a_function_without_a_parameter_makes_a_resource_too() -> None:
    @resource
    def number() -> int:
        """Some number."""
        return 3

    assert number.description == "Some number."
    assert number() == 3
    with opened({"n": number, "none": ResourceDefinition.none_resource()}) as resources:
        assert (resources.n, resources.none) == (3, None)


def test_config_may_be_a_function_of_what_the_run_gives() -> None:
    @resource(config_schema=Diary)
    def name(context: InitResourceContext) -> str:
        return context.resource_config["name"]

    def twice(given: dict[str, str]) -> dict[str, str]:
        return {"name": given["short"] * 2}

    definition = name.configured(twice)
    with opened({"name": definition}, config={"name": {"short": "x"}}) as resources:
        assert resources.name == "xx"


def test_a_generator_is_resumed_also_when_the_body_raises() -> None:
    @resource
    def bare() -> Iterator[int]:
        yield 1
        pages.append("resumed")

    with opened({"bare": bare}) as resources:
        assert resources.bare == 1
    with pytest.raises(KeyError), opened({"bare": bare}):
        raise KeyError("body")
    assert pages == ["resumed", "resumed"]


def test_a_generator_that_yields_nothing_is_told() -> None:
    @resource
    def nothing() -> Iterator[int]:
        yield from ()

    with pytest.raises(Invalid, match="nothing yields nothing"), opened({"a": nothing}):
        pass


def test_a_function_may_return_a_context_manager_that_it_was_decorated_as() -> None:
    @resource
    @contextmanager
    def around() -> Generator[int]:
        yield 1
        pages.append("left")

    file = StringIO()
    hardcoded = ResourceDefinition.hardcoded_resource(file)
    with opened({"around": around, "file": hardcoded}) as resources:
        assert resources.around == 1
        assert resources.file is file
    assert pages == ["left"]
    assert not file.closed


def test_functions_that_need_each_other_are_told() -> None:
    @resource(required_resource_keys={"b"})
    def a() -> int:
        return 1

    @resource(required_resource_keys={"a"})
    def b() -> int:
        return 1

    with pytest.raises(Invalid, match="a → b → a"), opened({"a": a, "b": b}):
        pass


# --- names ----------------------------------------------------------------------------------------


def test_a_resource_that_is_not_there_is_told_with_those_that_are() -> None:
    resources = Resources({"warehouse": SECRET, "client": 2})
    assert repr(resources) == "<resources warehouse, client>"
    with pytest.raises(Invalid) as told:
        _ = resources.warehose
    assert "available: client, warehouse" in told.value.message
    assert "did you mean 'warehouse'?" in told.value.remedy
    assert not hasattr(resources, "other")
    assert ("client" in resources, "other" in resources) == (True, False)
    assert list(copy.copy(resources)) == ["warehouse", "client"]


def test_a_needed_resource_that_is_not_defined_is_told() -> None:
    @resource(required_resource_keys={"db"})
    def shop() -> int:
        return 1

    with pytest.raises(Invalid) as told, opened({"shop": shop}):
        pass
    assert "there is no resource 'db', which resource shop needs" in told.value.message
    assert 'resources={"db": ...}' in told.value.remedy
    with pytest.raises(Invalid, match="none are defined"), opened({}, "db"):
        pass


def test_parameters_are_resources_by_their_annotation() -> None:
    def asset(shop: Shop, client: ResourceParam[Client], other: int) -> None:
        del shop, client, other

    signature = read_signature(asset)
    assert (set(signature.resources), signature.inputs) == ({"shop", "client"}, ("other",))
    assert signature.config == ""


# --- mistakes and secrets -------------------------------------------------------------------------


def test_a_resource_of_the_wrong_type_is_refused_where_it_is_written() -> None:
    class Outer(ConfigurableResource):
        inner: Diary

    with pytest.raises(ValidationError):
        Outer(inner=Shop(client=Client("")))  # pyright: ignore[reportArgumentType] - the mistake


def test_a_made_object_of_the_wrong_type_is_told() -> None:
    class Outer(ConfigurableResource):
        inner: Diary

    factory = client()
    with (
        pytest.raises(Invalid, match="resource outer: the field inner is <"),
        opened({"outer": Outer(inner=factory)}),
    ):
        pass


def test_a_factory_has_to_say_what_it_makes() -> None:
    class Empty(ConfigurableResourceFactory[int]):
        pass

    with (
        pytest.raises(Invalid, match="Empty does not implement create_resource"),
        opened({"e": Empty()}),
    ):
        pass


def test_an_error_where_a_resource_is_written_does_not_quote_what_was_given() -> None:
    with pytest.raises(ValidationError) as told:
        Shop(port=SECRET)  # pyright: ignore[reportCallIssue] - the mistakes
    assert SECRET not in str(told.value)


def test_a_secret_shows_nowhere() -> None:
    factory = client(EnvVar("TOKEN"))
    inner = Diary(name=EnvVar("TOKEN"))
    definitions = {"a": Diary(name="a", inner=inner), "shop": Shop(client=factory, port=3)}
    context = build_init_resource_context()
    with opened(definitions, context=context) as resources:
        assert resources.a.inner.name == SECRET
        shown = [
            f"{made} {made!r} {made.model_dump()}"
            for made in (resources.a, resources.a.inner, resources.shop)
        ]
        shown.append(f"{resources!r} {resources.a.model_dump_json()}")
        again = resources.a.inner.with_replaced_resource_context(context)
        shown.append(repr(again))
        assert again.name == SECRET
    assert SECRET not in " ".join(shown)
    assert repr(ClientFactory.configure_at_launch(token=SECRET)) == (
        "ClientFactory.configure_at_launch(token)"
    )


def test_a_refused_secret_shows_in_no_error() -> None:
    shop = Shop(client=Client(""), port=EnvVar("TOKEN"))  # pyright: ignore[reportArgumentType] - may be a string
    with pytest.raises(Invalid) as told, opened({"shop": shop}):
        pass
    assert SECRET not in "".join(traceback.format_exception(told.value))
    assert "resource shop: the field port (int) rejects the value of EnvVar('TOKEN')" in str(
        told.value
    )


# --- in tests of users ----------------------------------------------------------------------------


def test_resources_can_be_built_for_a_test() -> None:
    config = {"client": {"config": {"token": "new"}}}
    definitions = {"client": client(), "diary": Diary()}
    with build_resources(definitions, resource_config=config) as resources:
        assert resources.client.token == "new"
    assert pages == ["client", "setup diary", "teardown diary"]
    with build_resources({"c": ClientFactory(token=EnvVar("TOKEN"))}, environ=ENVIRON) as resources:
        assert resources.c.token == SECRET


def test_a_context_can_be_built_for_a_test() -> None:
    with build_init_resource_context({"a": 1}, {"diary": Diary()}) as context:
        assert context.resource_config == {"a": 1}
        assert context.resources.diary.name == "diary"
        context.log.warning("%s", "nobody reads this")
    assert pages == ["setup diary", "teardown diary"]


def test_a_resource_can_be_made_from_a_context() -> None:
    set_environment(ENVIRON)
    context = build_init_resource_context({"token": {"env": "TOKEN"}})
    assert ClientFactory.from_resource_context(context).token == SECRET
    with Diary.from_resource_context_cm(context.replace_config({"name": "x"})) as diary:
        assert diary.name == "x"
    assert pages == ["client", "setup x", "teardown x"]


def test_a_resource_is_usable_as_it_is_written() -> None:
    class Settings(Config):
        size: int

    class Sized(ConfigurableResource):
        settings: Settings
        diary: Diary

        def area(self) -> int:
            return self.settings.size**2

    assert Sized(settings=Settings(size=3), diary=Diary(name="x")).area() == 9
