"""Jobs, and gathering what modules and packages define."""

import sys
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from servo import (
    AssetCheckKey,
    AssetCheckResult,
    AssetKey,
    AssetsDefinition,
    AssetSelection,
    AssetSpec,
    AutomationCondition,
    Definitions,
    FreshnessPolicy,
    SourceAsset,
    asset,
    asset_check,
    define_asset_job,
    external_asset_from_spec,
    external_assets_from_specs,
    load_asset_checks_from_current_module,
    load_asset_checks_from_package_name,
    load_assets_from_current_module,
    load_assets_from_modules,
    load_assets_from_package_module,
    load_assets_from_package_name,
)
from servo.code.loader import project_of
from servo.errors import Invalid, NotFound
from servo.sdk.definitions.gathering import load_asset_checks_from_package_module
from servo.sdk.definitions.jobs import AssetJob
from servo.sdk.definitions.project import Project
from servo.sdk.triggers.resolution import Resolved, resolve
from servo.sdk.triggers.targets import Target


@asset
def raw() -> int:
    return 1


@asset(group_name="marts")
def mart(raw: int) -> int:
    return raw


@asset_check(asset=raw)
def positive(raw: int) -> bool:
    return raw > 0


DEFS = Definitions(
    [raw, mart], jobs=[define_asset_job("nightly", "group:marts"), define_asset_job("all")]
)


def test_a_job_is_a_choice_of_assets_with_a_name() -> None:
    project = DEFS.project()
    assert project.job("nightly").keys(project) == [AssetKey("mart")]
    assert set(DEFS.get_job_def("all").keys(project)) == {AssetKey("raw"), AssetKey("mart")}
    with pytest.raises(NotFound, match="there is no job nihgtly; did you mean 'nightly'"):
        DEFS.get_job_def("nihgtly")


def test_jobs_that_make_no_sense_are_refused() -> None:
    for jobs, why in (
        ([define_asset_job("a"), define_asset_job("a")], "two jobs are called a"),
        ([define_asset_job("a", "group:nowhere")], "selects no executable asset"),
    ):
        with pytest.raises(Invalid, match=why):
            Definitions([raw], jobs=jobs).project()
    with pytest.raises(Invalid, match="invalid job name 'a b'"):
        define_asset_job("a b")
    with pytest.raises(Invalid):
        define_asset_job("a", "group:(")


def test_jobs_of_a_module_without_definitions_count() -> None:
    module = ModuleType("pipeline")
    vars(module).update(raw=raw, job=define_asset_job("j"))
    assert list(project_of(module).jobs) == ["j"]


def test_a_definition_is_found_by_its_key() -> None:
    assert DEFS.get_assets_def("mart") is mart
    assert [spec.key for spec in DEFS.get_all_asset_specs()] == [AssetKey("raw"), AssetKey("mart")]
    with pytest.raises(NotFound, match="these Definitions have no asset x"):
        DEFS.get_assets_def("x")


def test_the_calling_module_is_gathered() -> None:
    loaded = load_assets_from_current_module()
    assert [str(spec.key) for item in loaded for spec in _specs(item)] == ["raw", "mart"]
    assert load_asset_checks_from_current_module() == [positive]


def test_dependencies_go_with_a_prefix() -> None:
    module = ModuleType("some")
    late = asset(deps=["raw", "outside"], name="late")(lambda: None)
    vars(module).update(raw=raw, mart=mart, late=late)
    loaded = load_assets_from_modules([module], key_prefix="shop", group_name="g")
    project = Definitions(loaded).project()
    shop = {name: AssetKey(["shop", name]) for name in ("raw", "mart", "late")}
    assert project.upstream[shop["mart"]] == (shop["raw"],)
    assert project.upstream[shop["late"]] == (shop["raw"], AssetKey("outside"))
    assert {spec.group_name for spec in project.specs.values()} == {"g"}


def test_what_is_said_of_all_counts_for_those_that_do_not_say_it() -> None:
    module = ModuleType("some")
    own = asset(name="own", automation_condition=AutomationCondition.eager())(lambda: None)
    vars(module).update(own=own, other=raw, spec=AssetSpec("outside"))
    fresh = FreshnessPolicy.time_window(fail_window=timedelta(hours=1))
    loaded = load_assets_from_modules(
        [module],
        automation_condition=AutomationCondition.on_missing(),
        freshness_policy=fresh,
        source_key_prefix="ext",
        key_prefix="in",
    )
    specs = {s.key.canonical(): s for item in loaded for s in _specs(item)}
    assert set(specs) == {"in/own", "in/raw", "ext/outside"}
    assert specs["in/own"].automation_condition == AutomationCondition.eager()
    assert specs["in/raw"].automation_condition == AutomationCondition.on_missing()
    assert specs["in/raw"].freshness_policy == fresh
    with pytest.raises(Invalid, match="no option colour"):
        load_assets_from_modules([module], colour=1)


def _specs(item: AssetsDefinition | AssetSpec) -> tuple[AssetSpec, ...]:
    return (item,) if isinstance(item, AssetSpec) else item.specs


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    folder = tmp_path / "shop_package" / "inner"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("")
    (folder / "__init__.py").write_text("")
    (folder.parent / "first.py").write_text(
        "import servo\n@servo.asset\ndef one(): ...\n"
        "@servo.asset_check(asset=one)\ndef fine(): return True\n"
    )
    (folder / "second.py").write_text("import servo\n@servo.asset\ndef two(): ...\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield "shop_package"
    for name in [name for name in sys.modules if name.startswith("shop_package")]:
        del sys.modules[name]


def test_a_package_is_gathered_with_everything_in_it(package: str) -> None:
    loaded = load_assets_from_package_name(package, group_name="g")
    assert {str(spec.key) for item in loaded for spec in _specs(item)} == {"one", "two"}
    module = sys.modules[package]
    assert len(load_assets_from_package_module(module)) == 2
    assert [c.spec.name for c in load_asset_checks_from_package_name(package)] == ["fine"]
    assert len(load_asset_checks_from_package_module(module)) == 1


def test_what_is_no_package_is_told(package: str) -> None:
    del package
    with pytest.raises(NotFound, match="there is no package nowhere"):
        load_assets_from_package_name("nowhere")
    with pytest.raises(Invalid, match="a module, not a package"):
        load_assets_from_package_module(sys.modules[__name__])


def test_assets_that_others_make_are_specs() -> None:
    spec = AssetSpec("a")
    assert external_asset_from_spec(spec) is spec
    assert external_assets_from_specs([spec]) == [spec]
    made = SourceAsset("raw/feed", io_manager_key="warehouse", group_name="g")
    assert made.key == AssetKey(["raw", "feed"])
    assert made.metadata == {"dagster/io_manager_key": "warehouse"}


def test_a_key_may_be_written_with_slashes_or_with_dots() -> None:
    made = [asset(deps=[text], name="made")(lambda: None) for text in ("raw/feed", "raw.feed")]
    assert [item.specs[0].deps[0].asset_key for item in made] == [AssetKey(["raw", "feed"])] * 2


# --- checks that a job selects --------------------------------------------------------------------


def checked_project(selection: Any) -> tuple[Project, AssetJob]:
    @asset
    def orders() -> int:
        return 1

    @asset_check(asset=orders)
    def small(orders: int) -> AssetCheckResult:
        return AssetCheckResult(passed=orders < 3)

    @asset_check(asset=orders)
    def large(orders: int) -> AssetCheckResult:
        return AssetCheckResult(passed=orders > 3)

    job = define_asset_job("nightly", selection)
    made = Definitions([orders], asset_checks=[small, large], jobs=[job]).project()
    return made, made.job("nightly")


def test_a_job_can_check_and_make_nothing() -> None:
    project, job = checked_project(AssetSelection.checks_for_assets("orders"))
    assert (job.keys(project), len(job.checks(project) or ())) == ([], 2)
    made = resolve(project, Target(job=job), what="schedule s")
    assert [check.name for check in sorted(made.checks or (), key=str)] == ["large", "small"]


def test_a_job_can_leave_out_the_checks_of_its_assets() -> None:
    project, job = checked_project(AssetSelection.all() - AssetSelection.all_asset_checks())
    assert (job.keys(project), job.checks(project)) == ([AssetKey("orders")], frozenset())
    project, job = checked_project("orders")
    assert job.checks(project) is None


def test_what_is_narrowed_to_some_assets_has_their_checks_only() -> None:
    small = AssetCheckKey(AssetKey("orders"), "small")
    made = Resolved(keys=(AssetKey("orders"), AssetKey("b")), checks=frozenset({small}))
    assert made.only([AssetKey("b")]) == Resolved(keys=(AssetKey("b"),), checks=frozenset())
    assert made.only([AssetKey("orders")]).checks == {small}
