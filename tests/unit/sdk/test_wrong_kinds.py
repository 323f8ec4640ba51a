"""What is of another kind than it should be: refused where it is written, with what to write."""
# What is wrong is meant here.
# pyright: reportArgumentType=false

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from servo import (
    AssetCheckResult,
    AssetCheckSeverity,
    AssetCheckSpec,
    AssetIn,
    AssetKey,
    AssetMaterialization,
    AssetOut,
    AssetSpec,
    Definitions,
    Failure,
    MaterializeResult,
    MetadataValue,
    ObserveResult,
    Output,
    RetryPolicy,
    RunConfig,
    ScheduleDefinition,
    TableSchema,
    asset,
    asset_check,
    define_asset_job,
    in_process_executor,
    materialize,
    materialize_to_memory,
    multi_asset,
    multiprocess_executor,
)
from servo.errors import Invalid
from servo.workers.parallelism import parallelism


def plain() -> None: ...


@asset
def orders() -> int:
    return 1


def told(**options: Any) -> Callable[[], Any]:
    return lambda: asset(**options)(plain)


def several(**options: Any) -> Callable[[], Any]:
    return lambda: multi_asset(**options)(plain)


A_LIST, A_DICT = r"write a list: \[\.\.\.\]", r'write a dict: \{"name": \.\.\.\}'
SPECS = [AssetSpec("x")]

WRONG: Mapping[str, tuple[Callable[[], Any], str]] = {
    # of assets
    "prefix": (told(key_prefix=3), "key_prefix is 3; use a string, or"),
    "prefix of numbers": (told(key_prefix=[3]), "invalid asset key part 3; use strings"),
    "name": (told(name=3), "invalid asset key part 3; use strings"),
    "ins": (told(ins=[1]), rf"asset plain: ins is \[1\]; {A_DICT}"),
    "one of ins": (told(ins={"a": "b"}), r"ins of a is 'b'; use AssetIn\(key=\.\.\.\)"),
    "names of ins": (told(ins={1: AssetIn()}), "ins has the key 1; use strings as keys"),
    "deps": (told(deps=3), f"asset plain: deps is 3; {A_LIST}"),
    "tags": (told(tags=3), "asset plain: tags is 3; use"),
    "kinds": (told(kinds=3), f"asset plain: kinds is 3; {A_LIST}"),
    "op_tags": (told(op_tags=3), f"asset plain: op_tags is 3; {A_DICT}"),
    "hooks": (told(hooks=3), f"asset plain: hooks is 3; {A_LIST}"),
    "resource keys": (told(required_resource_keys=3), f"required_resource_keys is 3; {A_LIST}"),
    "resources": (told(resource_defs=3), f"asset plain: resource_defs is 3; {A_DICT}"),
    "check_specs": (told(check_specs=3), f"asset plain: check_specs is 3; {A_LIST}"),
    "owners": (told(owners=3), f"asset plain: owners is 3; {A_LIST}"),
    # of several assets
    "outs": (several(outs=[1]), rf"multi_asset: outs is \[1\]; {A_DICT}"),
    "one of outs": (several(outs={"a": 3}), r"one of outs is 3; use AssetOut\(\)"),
    "specs": (several(specs=3), f"multi_asset: specs is 3; {A_LIST}"),
    "one of specs": (several(specs=["a"]), r"one of specs is 'a'; use AssetSpec\(\"name\"\)"),
    "their ins": (several(specs=SPECS, ins=[1]), f"ins is .*; {A_DICT}"),
    "their op_tags": (several(specs=SPECS, op_tags=3), f"op_tags is 3; {A_DICT}"),
    "their resources": (several(specs=SPECS, resource_defs=3), f"resource_defs is 3; {A_DICT}"),
    "their checks": (several(specs=SPECS, check_specs=3), f"check_specs is 3; {A_LIST}"),
    # of keys and checks
    "key": (lambda: AssetKey(3), r'invalid asset key part 3; use strings: AssetKey\("orders"\)'),
    "no key": (lambda: AssetKey(None), "invalid asset key part None"),
    "part": (lambda: AssetKey(["a", 3]), "invalid asset key part 3"),
    "check": (lambda: AssetCheckSpec(3, asset="a"), "the name of a check is 3; use a string"),
    "check ins": (lambda: asset_check(asset="a", additional_ins=3)(plain), f"ins is 3; {A_DICT}"),
    "check keys": (
        lambda: asset_check(asset="a", required_resource_keys="db")(plain),
        r"required_resource_keys is a single string; write \['db'\]",
    ),
    # of projects and runs
    "assets": (lambda: Definitions(3), f"the list of assets is 3; {A_LIST}"),
    "resources here": (lambda: Definitions(resources=3), f"resources is 3; {A_DICT}"),
    "jobs": (lambda: Definitions(jobs=3), f"Definitions: jobs is 3; {A_LIST}"),
    "checks": (lambda: Definitions(asset_checks=3), f"Definitions: checks is 3; {A_LIST}"),
    "schedules": (lambda: Definitions(schedules=3), f"schedules is 3; {A_LIST}"),
    "sensors": (lambda: Definitions(sensors=3), f"Definitions: sensors is 3; {A_LIST}"),
    "loggers": (lambda: Definitions(loggers=3), f"Definitions: loggers is 3; {A_DICT}"),
    "what to make": (lambda: materialize(3), f"the list of assets is 3; {A_LIST}"),
    "one of it": (lambda: materialize([3]), "3 is not an asset; decorate a function with @asset"),
    "in memory": (lambda: materialize_to_memory(3), f"the list of assets is 3; {A_LIST}"),
    "its resources": (lambda: materialize([orders], resources=3), f"resources is 3; {A_DICT}"),
    "resources in memory": (
        lambda: materialize_to_memory([orders], resources=3),
        f"resources is 3; {A_DICT}",
    ),
    "its tags": (lambda: materialize([orders], tags=3), f"tags is 3; {A_DICT}"),
    "ops": (lambda: RunConfig(ops=3), f"a run config: ops is 3; {A_DICT}"),
    "their config": (lambda: RunConfig(resources=3), f"resources is 3; {A_DICT}"),
    "logging": (lambda: RunConfig(loggers=3), f"loggers is 3; {A_DICT}"),
    "execution": (lambda: RunConfig(execution=3), f"execution is 3; {A_DICT}"),
    "job": (lambda: define_asset_job(3), "the name of a job is 3; use a string"),
    "job tags": (lambda: define_asset_job("j", tags=3), f"job j: tags is 3; {A_DICT}"),
    "job run tags": (lambda: define_asset_job("j", run_tags=3), f"run_tags is 3; {A_DICT}"),
    "job metadata": (lambda: define_asset_job("j", metadata=3), f"metadata is 3; {A_DICT}"),
    "job config": (lambda: define_asset_job("j", config=3), r"invalid run config 3; use RunConfig"),
    "cron": (
        lambda: ScheduleDefinition(name="s", target="*", cron_schedule=3),
        'cron_schedule is 3; use a string like "0 2',
    ),
    # of retries
    "retries": (lambda: RetryPolicy(max_retries="3"), "max_retries is '3'; use a whole number"),
    "delay": (lambda: RetryPolicy(delay="3"), "delay is '3'; use seconds"),
    "max delay": (lambda: RetryPolicy(max_delay="3"), "max_delay is '3'; use seconds"),
    # of what is said
    "instant": (lambda: MetadataValue.timestamp("x"), "timestamp got a str; pass a num"),
    "module": (lambda: MetadataValue.python_artifact(math), "got a module; pass a class or"),
    "path": (lambda: MetadataValue.path(3), "the path 3 is not a string; pass a string or a Path"),
    "records": (lambda: MetadataValue.table(3), f"MetadataValue.table: records is 3; {A_LIST}"),
    "record": (lambda: MetadataValue.table([{"a": 1}]), "a record is .*; use TableRecord"),
    "columns": (lambda: TableSchema(3), f"TableSchema: columns is 3; {A_LIST}"),
    "column": (lambda: TableSchema(["a"]), "a column is 'a'; use TableColumn"),
    "passed": (lambda: AssetCheckResult(passed="x"), "passed is 'x'; use True or False"),
    "found": (lambda: AssetCheckResult(passed=True, metadata=3), "metadata is 3; use"),
    "severity": (lambda: AssetCheckResult(passed=True, severity="x"), "no severity 'x'; use one"),
    "said": (lambda: MaterializeResult(metadata=3), "MaterializeResult: metadata is 3; use"),
    "said checks": (lambda: MaterializeResult(check_results=3), f"check_results is 3; {A_LIST}"),
    "version": (lambda: MaterializeResult(data_version="1"), "data_version is '1'; use DataVers"),
    "said tags": (lambda: MaterializeResult(tags=3), "MaterializeResult: tags is 3; use"),
    "seen": (lambda: ObserveResult(metadata=3), "ObserveResult: metadata is 3; use"),
    "seen checks": (lambda: ObserveResult(check_results=3), f"check_results is 3; {A_LIST}"),
    "output": (lambda: Output(1, metadata=3), "Output: metadata is 3; use"),
    "made": (lambda: AssetMaterialization("a", metadata=3), "AssetMaterialization: metadata is 3"),
    "failure": (lambda: Failure("no", metadata=3), f"Failure: metadata is 3; {A_DICT}"),
    # of executors
    "executor": (
        lambda: multiprocess_executor.configured({"max_concurent": 3}),
        "the executor multiprocess has no option 'max_concurent'; did you mean 'max_concurrent'",
    ),
    "executor by name": (
        lambda: in_process_executor.configured({"multiprocess": {"x": 3}}),
        "has no option 'x'; use max_concurrent",
    ),
    "executor of a run": (
        lambda: parallelism({"execution": {"config": {"max_concurent": 3}}}, 2),
        "the configuration of the execution has no option 'max_concurent'; did you mean",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_of_another_kind_is_refused_with_what_to_write(name: str) -> None:
    wrong, message = WRONG[name]
    with pytest.raises(Invalid, match=message):
        _ = wrong()


@pytest.mark.parametrize("owner", ["bob", "", "team:", "team: ", "a b@x.org", "@x.org", 3])
def test_an_owner_is_an_address_or_a_team(owner: Any) -> None:
    with pytest.raises(Invalid, match=r'use "team:name" for a team, or the e-mail address'):
        _ = AssetSpec("orders", owners=[owner])
    with pytest.raises(Invalid, match="invalid owner"):
        _ = AssetOut(owners=[owner]).spec("orders")


def test_owners_are_people_and_teams() -> None:
    owners = ("ann@x.org", "team:data-eng", "team:data eng", "root@localhost")
    assert AssetSpec("orders", owners=owners).owners == owners


def test_a_check_may_tell_what_numpy_found() -> None:
    found = AssetCheckResult(passed=np.bool_(False), severity="WARN")
    assert (found.passed, found.severity) == (False, AssetCheckSeverity.WARN)
    assert type(found.passed) is bool


def test_what_executors_know_besides_their_limit_is_taken() -> None:
    config: dict[str, Any] = {
        "max_concurrent": 3,
        "retries": {"enabled": {}},
        "start_method": {"spawn": {}},
    }
    assert multiprocess_executor.configured(config).max_concurrent == 3


def test_paths_and_classes_are_told() -> None:
    assert MetadataValue.path(Path("a") / "b").path == "a/b"
    assert MetadataValue.python_artifact(Path).name == "Path"
