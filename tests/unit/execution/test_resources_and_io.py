"""Resources, configuration and IO managers, in executions of the real engine."""

from typing import Any

import pytest

from servo import (
    AssetExecutionContext,
    Config,
    ConfigurableResource,
    EnvVar,
    InputContext,
    IOManager,
    OutputContext,
    RunConfig,
    asset,
    materialize,
)
from servo.host.materialize import MaterializationFailed


class Warehouse(ConfigurableResource):
    url: str
    token: str = ""

    def query(self) -> str:
        return f"rows of {self.url}"


class Window(Config):
    days: int = 7
    name: str = "all"


def test_a_resource_is_given_by_its_annotation() -> None:
    @asset
    def orders(warehouse: Warehouse) -> str:
        return warehouse.query()

    result = materialize([orders], resources={"warehouse": Warehouse(url="here")})
    assert result.asset_value("orders") == "rows of here"


def test_resources_can_be_required_by_name() -> None:
    @asset(required_resource_keys={"api"})
    def orders(context: AssetExecutionContext) -> int:
        return context.resources.api["n"]

    assert materialize([orders], resources={"api": {"n": 3}}).asset_value("orders") == 3


def test_a_resource_that_is_missing_is_told() -> None:
    @asset
    def orders(warehouse: Warehouse) -> str:
        return warehouse.query()

    with pytest.raises(MaterializationFailed, match="warehouse"):
        materialize([orders])


def test_a_secret_comes_from_the_environment_and_stays_out_of_the_store(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    canary = "canary-5f1e0c"
    monkeypatch.setenv("WAREHOUSE_TOKEN", canary)

    @asset
    def orders(context: AssetExecutionContext, warehouse: Warehouse) -> int:
        context.add_output_metadata({"used": repr(warehouse)})
        return len(warehouse.token)

    resources = {"warehouse": Warehouse(url="here", token=EnvVar("WAREHOUSE_TOKEN"))}
    result = materialize([orders], resources=resources, store=str(tmp_path))
    assert result.asset_value("orders") == len(canary)
    stored = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert stored
    assert not [path for path in stored if canary.encode() in path.read_bytes()]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, (7, "all")),
        ({"ops": {"report": {"config": {"days": 2}}}}, (2, "all")),
        (RunConfig(ops={"report": Window(days=1, name="x")}), (1, "x")),
    ],
)
def test_configuration_reaches_the_asset_it_is_for(given: Any, expected: Any) -> None:
    @asset
    def report(config: Window) -> Any:
        return (config.days, config.name)

    assert materialize([report], run_config=given).asset_value("report") == expected


def test_configuration_that_does_not_fit_is_told() -> None:
    @asset
    def report(config: Window) -> int:
        return config.days

    with pytest.raises(MaterializationFailed, match="days") as told:
        materialize([report], run_config={"ops": {"report": {"config": {"dayz": "x"}}}})
    assert "report" in str(told.value)


class Shelf(IOManager):
    """Keeps values in a dict, and notes what it was told."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, ...], Any] = {}
        self.asked: list[str] = []
        self.types: list[Any] = []

    def handle_output(self, context: OutputContext, obj: Any) -> None:
        self.types.append(context.type_hint)
        self.kept[tuple(context.asset_key.path)] = obj
        context.add_output_metadata({"shelf": True})

    def load_input(self, context: InputContext) -> Any:
        self.asked.append(context.name)
        return self.kept[tuple(context.asset_key.path)]


def test_an_io_manager_stores_and_loads() -> None:
    shelf = Shelf()

    @asset(io_manager_key="shelf")
    def numbers() -> list[int]:
        return [1, 2]

    @asset
    def total(numbers: list[int]) -> int:
        return sum(numbers)

    result = materialize([numbers, total], resources={"shelf": shelf})
    assert (result.asset_value("total"), shelf.asked) == (3, ["numbers"])
    assert shelf.kept == {("numbers",): [1, 2]}
    assert shelf.types == [list[int]]
    (made,) = [row for row in result.materializations if row.asset_key == "numbers"]
    assert "shelf" in made.metadata


def test_an_io_manager_for_everything_is_called_io_manager() -> None:
    shelf = Shelf()

    @asset
    def one() -> None:
        return None

    @asset
    def two(one: None) -> Any:
        return one

    materialize([one, two], resources={"io_manager": shelf})
    assert shelf.kept == {("one",): None, ("two",): None}


def test_an_io_manager_is_not_told_a_type_that_the_code_does_not_name() -> None:
    shelf = Shelf()

    @asset(io_manager_key="shelf")
    def untyped():
        return 1

    materialize([untyped], resources={"shelf": shelf})
    assert shelf.types == [Any]
