"""`servo.dagster`: what is there under Dagster's names, and what says why it is not."""

import logging
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import servo
import servo.dagster as dagster
from servo.dagster.names import ELSEWHERE, LOCAL, NOT_SUPPORTED, RENAMED, supported
from servo.dagster.unsupported import Unsupported
from servo.errors import Invalid, NotFound, ServoError

dg: Any = dagster
GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "coming-from-dagster.md"


@pytest.mark.parametrize("name", sorted(supported()))
def test_a_supported_name_can_be_loaded(name: str) -> None:
    assert not isinstance(getattr(dg, name), Unsupported)
    assert name in dir(dg)


def test_everything_that_servo_exports_is_there_as_it_is() -> None:
    wrapped = {"asset", "multi_asset"}
    for name in set(servo.__all__) - wrapped - {"__version__"}:
        assert getattr(dg, name) is getattr(servo, name)


class Instance:
    @staticmethod
    def ephemeral() -> "Instance":
        return Instance()


def test_what_servo_exports_later_is_there_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servo, "__all__", [*servo.__all__, "BrandNew", "ServoInstance"])
    monkeypatch.setattr(servo, "BrandNew", "new", raising=False)
    monkeypatch.setattr(servo, "ServoInstance", Instance, raising=False)
    monkeypatch.delitem(vars(dagster), "DagsterInstance", raising=False)
    assert dg.BrandNew == "new"
    assert dg.DagsterInstance is Instance
    with dg.instance_for_test() as instance:
        assert isinstance(instance, Instance)
    assert {"BrandNew", "DagsterInstance"} <= set(dg.__all__)
    for name in ("BrandNew", "DagsterInstance", "instance_for_test"):
        _ = dagster.__dict__.pop(name, None)


def test_no_name_is_both_there_and_not() -> None:
    against = {name for names in NOT_SUPPORTED.values() for name in names.split()}
    assert against & supported() == set()
    assert set(LOCAL) & set(RENAMED) & set(ELSEWHERE) == set()


def test_a_name_that_is_not_supported_can_be_mentioned_and_not_used() -> None:
    op = dg.op
    mentioned: list[Any] = [op | None, op[int]]
    assert mentioned == [op, op]
    for use in (op, lambda: op(name="x"), lambda: op.configured, lambda: _subclass(op)):
        with pytest.raises(Invalid, match=r"dagster.op is not supported; there are assets"):
            use()
    assert repr(op) == "<dagster.op, which is not supported>"
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        _ = dg.no_such_name


def _subclass(base: Any) -> Any:
    class Derived(base): ...

    return Derived


def test_errors_are_the_kinds_that_servo_raises() -> None:
    assert dg.DagsterError is ServoError
    with pytest.raises(dg.DagsterInvalidDefinitionError):
        dg.AssetKey([])
    with pytest.raises(dg.DagsterUnknownPartitionError) as told:
        dg.StaticPartitionsDefinition(["a"]).validate_partition_key("b")
    assert isinstance(told.value, NotFound)


def test_older_options_of_an_asset_are_understood() -> None:
    manager = dg.InMemoryIOManager()

    @dg.asset(
        compute_kind="pandas",
        non_argument_deps={"raw"},
        auto_materialize_policy=dg.AutoMaterializePolicy.eager(),
        io_manager_def=manager,
        ins={"other": dg.AssetIn(dagster_type=dg.Nothing)},
        dagster_type=dg.PythonObjectDagsterType(int),
    )
    def orders() -> int:
        return 1

    (spec,) = orders.specs
    assert spec.kinds == ("pandas",)
    assert {dep.asset_key.name for dep in spec.deps} == {"raw", "other"}
    assert spec.automation_condition == servo.AutomationCondition.eager()
    assert orders.behaviour.io_manager_key == "orders_io_manager"
    assert orders.behaviour.resource_defs == {"orders_io_manager": manager}
    with pytest.raises(Invalid, match="auto_materialize_policy is 'eager'"):
        dg.asset(auto_materialize_policy="eager")(orders.fn)


def test_specs_can_be_mapped() -> None:
    @dg.asset
    def orders() -> int:
        return 1

    def grouped(spec: servo.AssetSpec) -> servo.AssetSpec:
        return spec.replace_attributes(group_name="g")

    changed = dg.map_asset_specs(grouped, [orders, dg.AssetSpec("outside")])
    assert [spec.group_name for spec in (*changed[0].specs, changed[1])] == ["g", "g"]
    assert changed[0]() == 1


def test_policies_become_conditions() -> None:
    rule = dg.AutoMaterializeRule
    policy = dg.AutoMaterializePolicy.eager().with_rules(
        rule.skip_on_run_in_progress(), rule.materialize_on_cron("@daily")
    )
    condition = policy.to_automation_condition()
    assert str(condition) == (
        "((eager & ~run_in_progress())"
        " | cron_tick_passed(cron_schedule='@daily', cron_timezone='UTC').since(handled))"
    )
    spec = dg.AssetSpec("orders", automation_condition=policy)
    assert spec.automation_condition == condition
    left = policy.without_rules(rule.skip_on_run_in_progress())
    assert left == dg.AutoMaterializePolicy.eager().with_rules(rule.materialize_on_cron("@daily"))
    with pytest.raises(Invalid, match="the policy has no rule"):
        policy.without_rules(rule.skip_on_parent_missing())


def test_resources_can_come_with_assets() -> None:
    @dg.asset(required_resource_keys={"word"})
    def said(context: Any) -> str:
        return context.resources.word

    held = dg.with_resources([said], {"word": dg.ResourceDefinition.hardcoded_resource("hello")})
    assert dg.materialize(held).asset_value("said") == "hello"
    assert said.behaviour.resource_defs == {}
    other = dg.with_resources([said], {"word": dg.ResourceDefinition.hardcoded_resource("no")})
    renamed = [dg.asset(name="again", resource_defs=other[0].behaviour.resource_defs)(said.fn)]
    with pytest.raises(Invalid, match="redefines the resource 'word'"):
        dg.Definitions([*held, *renamed]).project()


@pytest.mark.parametrize(
    ("schema", "given", "read"),
    [
        ({"a": dg.Int, "b": dg.Field(dg.String, default_value="x")}, {"a": 1}, {"a": 1, "b": "x"}),
        ({"a": dg.Field(int, is_required=False)}, {}, {"a": None}),
        ({"a": dg.Noneable(int)}, {"a": None}, {"a": None}),
        ({"a": dg.Array(int), "b": [str]}, {"a": [1], "b": ["x"]}, {"a": [1], "b": ["x"]}),
        ({"a": dg.Map(str, int)}, {"a": {"x": 1}}, {"a": {"x": 1}}),
        ({"a": dg.Shape({"b": int})}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        ({"a": {"b": dg.Field(int, default_value=2)}}, {"a": {}}, {"a": {"b": 2}}),
        ({"a": dg.Permissive({"b": int})}, {"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 2}}),
        ({"a": dg.Enum("E", [dg.EnumValue("x"), dg.EnumValue("y")])}, {"a": "y"}, {"a": "y"}),
        ({"a": dg.ScalarUnion(int, {"b": int})}, {"a": 3}, {"a": 3}),
        ({"a": dg.Selector({"b": int, "c": str})}, {"a": {"c": "x"}}, {"a": {"c": "x"}}),
    ],
)
def test_config_schemas_are_read(schema: Any, given: Any, read: Any) -> None:
    @dg.asset(config_schema=schema)
    def told(context: Any) -> Any:
        return context.op_config

    done = dg.materialize([told], run_config={"ops": {"told": {"config": given}}})
    assert done.asset_value("told") == read


def test_a_wrong_config_is_told_by_its_field() -> None:
    schema = {
        "first": dg.Int,
        "second": dg.Enum("E", [dg.EnumValue("x")]),
        "third": dg.Selector({"a": int, "b": int}),
    }

    @dg.asset(config_schema=schema)
    def told(context: Any) -> Any:
        return context.op_config

    given = {"first": "one", "second": "z", "third": {"a": 1, "b": 2}}
    config = {"ops": {"told": {"config": given}}}
    done = dg.materialize([told], run_config=config, raise_on_error=False)
    (why,) = done.failures.values()
    assert not done.success
    assert [name for name in given if name not in why] == []
    assert "give exactly one of a, b" in why


def test_values_are_a_resource() -> None:
    @dg.asset(required_resource_keys={"values"})
    def limit(context: Any) -> int:
        return context.resources.values.limit

    values = dg.make_values_resource(limit=int).configured({"limit": 3})
    assert dg.materialize([limit], resources={"values": values}).asset_value("limit") == 3


def test_the_logger_is_the_one_of_the_assets(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "servo.asset"):
        dg.get_dagster_logger("mine").info("hello")
    assert [record.name for record in caplog.records] == ["servo.asset.mine"]


def test_a_definition_made_under_these_names_belongs_to_servo() -> None:
    days = dg.DailyPartitionsDefinition("2024-01-01")
    assert type(days).__module__.startswith("servo.sdk.")
    assert pickle.loads(pickle.dumps(days)) == days


def test_importing_it_loads_nothing_heavy() -> None:
    check = (
        "import servo.dagster, sys; "
        "print([m for m in ('pydantic', 'pyarrow', 'duckdb', 'obstore') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_client_of_ones_own_is_a_resource() -> None:
    class Client(dg.PipesClient):
        def run(self, *, context: Any, extras: Any = None, **options: Any) -> Any:
            return context.asset_key.name, extras, options

    @dg.asset
    def orders(context: Any, client: Client) -> str:
        return str(client.run(context=context, name="x"))

    done = dg.materialize([orders], resources={"client": Client()})
    assert done.asset_value("orders") == "('orders', None, {'name': 'x'})"


# --- the guide ------------------------------------------------------------------------------------


def blocks() -> dict[str, str]:
    """The blocks of names in the guide, by the line before each that says what they are."""
    found = re.findall(r"\n([^\n]+)\n\n```text\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)
    return {title.strip(): names for title, names in found}


def test_the_guide_lists_the_names_there_are_besides_those_of_servo() -> None:
    listed = dict(
        line.split(" = ") for line in blocks()["Under another name in Servo:"].splitlines()
    )
    assert listed == dict(RENAMED)
    local = blocks()["Only for compatibility with Dagster:"].split()
    assert local == sorted({*LOCAL, *ELSEWHERE})


@pytest.mark.parametrize("reason", NOT_SUPPORTED)
def test_the_guide_lists_the_names_there_are_not(reason: str) -> None:
    title = f"{reason[0].upper()}{reason[1:]}:"
    assert blocks()[title].split() == NOT_SUPPORTED[reason].split()


def missing_members() -> list[tuple[str, str]]:
    """Classes, each with a member that it does not have, as the guide says."""
    title = "These methods and attributes of supported classes are missing"
    after = GUIDE.read_text().partition(title)[2]
    found: list[tuple[str, str]] = []
    for block in re.findall(r"```text\n(.*?)```", after, flags=re.DOTALL):
        owner = ""
        for word in block.split():
            owner, is_owner = (word[:-1], True) if word.endswith(":") else (owner, False)
            if not is_owner:
                found.append((owner, word))
    return found


@pytest.mark.parametrize(("owner", "member"), missing_members())
def test_the_guide_names_no_member_that_there_is(owner: str, member: str) -> None:
    assert isinstance(getattr(dg, owner), type)
    assert not hasattr(getattr(dg, owner), member)


def test_the_guide_names_members_of_every_kind() -> None:
    assert {"DagsterInstance", "ExecuteInProcessResult"} <= {o for o, _ in missing_members()}
