"""IO managers: what is stored under a name is loaded under it, and what is missing is told."""

import pickle
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servo.core.keys import AssetKey
from servo.errors import Invalid, NotFound
from servo.execution.outputs.filesystem_io import FilesystemIOManager, fs_io_manager
from servo.sdk.resources.config import EnvVar
from servo.sdk.resources.configurable import (
    ConfigurableIOManager,
    ConfigurableIOManagerFactory,
    ConfigurableResource,
)
from servo.sdk.resources.io_context import (
    InputContext,
    OutputContext,
    build_input_context,
    build_output_context,
)
from servo.sdk.resources.io_manager import (
    InMemoryIOManager,
    InputManager,
    IOManager,
    IOManagerDefinition,
    check_io_manager,
    io_manager,
    mem_io_manager,
)
from servo.sdk.resources.resources import InitResourceContext, open_resources


def stored(manager: IOManager, key: Any, value: Any, **options: Any) -> OutputContext:
    context = build_output_context(asset_key=key, **options)
    manager.handle_output(context, value)
    return context


def loaded(manager: IOManager, key: Any, **options: Any) -> Any:
    return manager.load_input(build_input_context(asset_key=key, **options))


class Notes(ConfigurableIOManager):
    """Keeps values under a prefix."""

    prefix: str

    def handle_output(self, context: OutputContext, obj: Any) -> None:
        shelf[f"{self.prefix}/{'/'.join(context.get_asset_identifier())}"] = obj

    def load_input(self, context: InputContext) -> Any:
        return shelf[f"{self.prefix}/{'/'.join(context.get_asset_identifier())}"]


shelf: dict[str, Any] = {}

# --- every kind of manager ------------------------------------------------------------------------

Make = Callable[[Path], IOManager]
MANAGERS: list[Make] = [
    lambda _: InMemoryIOManager(),
    lambda folder: FilesystemIOManager(base_dir=str(folder)),
]


@pytest.fixture(params=MANAGERS, ids=["memory", "files"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> IOManager:
    return request.param(tmp_path)


def test_what_was_stored_is_loaded(manager: IOManager) -> None:
    stored(manager, ["raw", "orders"], [1, 2])
    stored(manager, "other", None)
    assert loaded(manager, AssetKey(["raw", "orders"])) == [1, 2]
    assert loaded(manager, "other") is None


def test_the_last_value_is_the_one_that_counts(manager: IOManager) -> None:
    stored(manager, "orders", 1)
    stored(manager, "orders", 2)
    assert loaded(manager, "orders") == 2


def test_partitions_are_kept_apart_and_loaded_one_or_several(manager: IOManager) -> None:
    for day in ("2025-01-01", "2025-01-02"):
        stored(manager, "orders", day[-1], partition_key=day)
    assert loaded(manager, "orders", partition_key="2025-01-02") == "2"
    several = ["2025-01-01", "2025-01-02"]
    assert loaded(manager, "orders", partition_keys=several) == {
        "2025-01-01": "1",
        "2025-01-02": "2",
    }
    assert loaded(manager, "orders", partition_keys=[]) == {}


def test_a_value_that_was_never_stored_is_told(manager: IOManager) -> None:
    with pytest.raises(NotFound, match="raw/orders") as told:
        loaded(manager, ["raw", "orders"])
    assert "materialize it first" in told.value.remedy


def test_one_output_is_about_one_partition(manager: IOManager) -> None:
    with pytest.raises(Invalid, match="asset orders has 2 partitions here"):
        stored(manager, "orders", 1, partition_keys=["a", "b"])


def test_what_belongs_to_no_asset_is_kept_by_run_task_and_name(manager: IOManager) -> None:
    output = build_output_context(run_id="r", step_key="s", name="n")
    manager.handle_output(output, 5)
    assert manager.load_input(build_input_context(upstream_output=output)) == 5


# --- files ----------------------------------------------------------------------------------------


def test_a_file_lies_under_the_parts_of_the_key_and_the_partition(tmp_path: Path) -> None:
    manager = FilesystemIOManager(base_dir=str(tmp_path))
    context = stored(manager, ["raw", "orders"], {"a": 1}, partition_key="2025-01-01")
    path = tmp_path / "raw" / "orders" / "2025-01-01"
    assert pickle.loads(path.read_bytes()) == {"a": 1}
    assert context.output_metadata == {"path": path}


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound) as told:
        loaded(FilesystemIOManager(base_dir=str(tmp_path)), "orders")
    assert str(tmp_path / "orders") in told.value.message


def test_a_value_that_cannot_be_pickled_leaves_the_old_one(tmp_path: Path) -> None:
    manager = FilesystemIOManager(base_dir=str(tmp_path))
    stored(manager, "orders", 1)
    with pytest.raises(Invalid, match="asset orders>: a value of type function cannot be pickled"):
        stored(manager, "orders", lambda: 1)
    assert loaded(manager, "orders") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["orders"]


def test_an_asset_inside_another_is_told(tmp_path: Path) -> None:
    manager = FilesystemIOManager(base_dir=str(tmp_path))
    stored(manager, "orders", 1)
    with pytest.raises(Invalid, match="another asset has a file or a folder in its place"):
        stored(manager, ["orders", "new"], 1)
    stored(manager, ["users", "new"], 1)
    with pytest.raises(Invalid, match="another asset has a file or a folder in its place"):
        stored(manager, "users", 1)
    with pytest.raises(NotFound):
        loaded(manager, ["orders", "new"])
    assert not list(tmp_path.rglob(".writing-*"))


@given(st.lists(st.text(max_size=20), unique=True, max_size=3))
def test_no_partition_reaches_outside_its_folder_or_meets_another(keys: list[str]) -> None:
    with TemporaryDirectory() as folder:
        manager = FilesystemIOManager(base_dir=folder)
        for key in keys:
            stored(manager, "orders", key, partition_key=key)
        assert [loaded(manager, "orders", partition_key=key) for key in keys] == keys
        assert len(list(Path(folder).rglob("*"))) == len(keys) + bool(keys)


@pytest.mark.parametrize("key", ["../../etc/passwd", "..", ".", "", "a/b", "a\\b", "\0", "ünï"])
def test_any_partition_key_is_a_file_name(tmp_path: Path, key: str) -> None:
    manager = FilesystemIOManager(base_dir=str(tmp_path))
    stored(manager, "orders", key, partition_key=key)
    assert loaded(manager, "orders", partition_key=key) == key
    assert len(list((tmp_path / "orders").iterdir())) == 1


def test_the_folder_may_come_from_the_environment_or_be_spelled_the_old_way(tmp_path: Path) -> None:
    environ = {"FOLDER": str(tmp_path)}
    definitions = {
        "new": FilesystemIOManager(base_dir=EnvVar("FOLDER")),
        "old": fs_io_manager.configured({"base_dir": EnvVar("FOLDER")}),
    }
    with open_resources(definitions, definitions, environ) as resources:
        context = stored(resources.new, "orders", 1)
        assert loaded(resources.old, "orders") == 1
        with pytest.raises(NotFound) as told:
            loaded(resources.new, "other")
    assert (tmp_path / "orders").is_file()
    assert context.output_metadata == {"path": Path("EnvVar('FOLDER')/orders")}
    assert str(tmp_path) not in str(told.value)


# --- defining -------------------------------------------------------------------------------------


def test_an_io_manager_is_a_resource_with_fields() -> None:
    definitions = {"io_manager": Notes(prefix=EnvVar("PREFIX"))}
    with open_resources(definitions, ["io_manager"], {"PREFIX": "p"}) as resources:
        stored(resources.io_manager, ["a", "b"], 1, partition_key="x")
        assert shelf == {"p/a/b/x": 1}
        assert loaded(resources.io_manager, ["a", "b"], partition_key="x") == 1


def test_an_io_manager_has_to_store_and_to_load() -> None:
    class Half(ConfigurableIOManager):
        def load_input(self, context: InputContext) -> Any: ...

    class Loader(InputManager):
        def load_input(self, context: InputContext) -> Any:
            return context.name

    with pytest.raises(TypeError, match="abstract"):
        Half()  # pyright: ignore[reportAbstractUsage] - the mistake that is tested
    assert Loader().load_input(build_input_context("orders")) == "orders"


def test_a_factory_makes_an_io_manager_with_its_own_resources() -> None:
    class Connection(ConfigurableResource):
        name: str

    class Factory(ConfigurableIOManagerFactory):
        connection: Connection

        def create_io_manager(self, context: InitResourceContext) -> IOManager:
            del context
            return Notes(prefix=self.connection.name)

    definitions = {"io_manager": Factory(connection=Connection(name=EnvVar("NAME")))}
    with open_resources(definitions, ["io_manager"], {"NAME": "n"}) as resources:
        assert resources.io_manager == Notes(prefix="n")


def test_a_function_makes_an_io_manager() -> None:
    @io_manager(config_schema={"prefix": str}, output_config_schema={"table": str})
    def notes(context: InitResourceContext) -> Notes:
        return Notes(prefix=context.resource_config["prefix"])

    @io_manager
    def memory() -> InMemoryIOManager:
        return InMemoryIOManager()

    assert isinstance(notes, IOManagerDefinition)
    assert notes.output_config_schema is not None
    assert notes.input_config_schema is None
    definitions = {"notes": notes.configured({"prefix": "x"}), "memory": memory}
    with open_resources(definitions, definitions, {}) as resources:
        assert resources.notes.prefix == "x"
        assert isinstance(resources.memory, InMemoryIOManager)


def test_the_memory_of_a_process_outlives_an_execution() -> None:
    for value in (1, 2):
        with open_resources({"io_manager": mem_io_manager}, ["io_manager"], {}) as resources:
            if value == 1:
                stored(resources.io_manager, "kept", value)
            assert loaded(resources.io_manager, "kept") == 1


def test_a_resource_that_is_no_io_manager_is_told() -> None:
    memory = InMemoryIOManager()
    assert check_io_manager(memory, "io_manager") is memory
    with pytest.raises(
        Invalid, match="the resource 'io_manager' is int, which is not an IO manager"
    ):
        check_io_manager(3, "io_manager")


# --- contexts -------------------------------------------------------------------------------------


def test_an_output_is_known_by_its_asset_and_partition() -> None:
    context = build_output_context(
        step_key="orders:materialize",
        run_id="r",
        asset_key="raw/orders",
        partition_key="x",
        definition_metadata={"table": "t"},
        dagster_type=int,
        config={"mode": "append"},
        resource_config={"base_dir": "b"},
    )
    assert context.asset_key == AssetKey(["raw", "orders"])
    assert (context.has_asset_key, context.has_asset_partitions) == (True, True)
    assert context.has_partition_key
    assert (context.asset_partition_key, context.partition_key) == ("x", "x")
    assert context.asset_partition_keys == ("x",)
    assert context.get_asset_identifier() == ["raw", "orders", "x"]
    assert context.get_identifier() == ["raw", "orders", "x"]
    assert context.get_run_scoped_output_identifier() == ["r", "orders:materialize", "result"]
    assert context.metadata == context.definition_metadata == {"table": "t"}
    assert (context.dagster_type.typing_type, context.type_hint) == (int, int)
    assert context.dagster_type.display_name == "int"
    assert (context.config, context.resource_config) == ({"mode": "append"}, {"base_dir": "b"})
    assert repr(context) == "<OutputContext of asset raw.orders>"


def test_an_input_is_known_by_what_stored_it() -> None:
    output = build_output_context(asset_key="orders", definition_metadata={"table": "t"})
    context = build_input_context("orders", upstream_output=output)
    assert context.asset_key == AssetKey("orders")
    assert context.get_identifier() == output.get_identifier() == ["orders"]
    assert context.upstream_output is output
    assert context.metadata == {}
    assert context.type_hint is Any


def test_what_a_context_does_not_have_is_told() -> None:
    context = build_output_context()
    assert (context.has_asset_key, context.has_asset_partitions) == (False, False)
    with pytest.raises(Invalid, match="has no asset"):
        _ = context.asset_key
    with pytest.raises(Invalid, match="result has no partitions"):
        _ = context.asset_partition_keys
    with pytest.raises(Invalid, match="asset orders has no partitions"):
        _ = build_input_context(asset_key="orders").asset_partition_key


def test_metadata_of_an_output_is_said_once() -> None:
    context = build_output_context(asset_key="orders")
    context.add_output_metadata({"rows": 1})
    context.add_output_metadata({"size": 2})
    with pytest.raises(Invalid, match="asset orders: the metadata rows was already added"):
        context.add_output_metadata({"rows": 3})
    assert context.get_logged_metadata() == {"rows": 1, "size": 2}


def test_contexts_open_and_close_their_resources() -> None:
    closed: list[str] = []

    class Connection(ConfigurableResource):
        def teardown_after_execution(self, context: InitResourceContext) -> None:
            del context
            closed.append("closed")

    for build in (build_output_context, build_input_context):
        with build(resources={"db": Connection(), "n": 3}) as context:
            assert isinstance(context.resources.db, Connection)
            assert context.resources.n == 3
            context.log.info("stored")
    assert closed == ["closed", "closed"]
