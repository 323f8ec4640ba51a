"""Plans of partitions: which are made, in which order, and what cannot be."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pytest

import servo
from servo.core.keys import AssetKey
from servo.core.plan import Plan
from servo.errors import Invalid, NotFound
from servo.planning.assets import plan_assets, plan_partitions
from servo.planning.planned_tasks import MOST_LISTED
from servo.sdk.definitions.project import Project
from servo.sdk.partitions.definition import PartitionKeyRange
from servo.sdk.partitions.mapping_resolution import WHOLE

NOW = datetime(2024, 2, 1, tzinfo=UTC)
REGIONS = servo.StaticPartitionsDefinition(["eu", "us", "as"])
DAYS = servo.DailyPartitionsDefinition("2024-01-01")
HOURS = servo.HourlyPartitionsDefinition("2024-01-01-00:00")
BOTH = servo.MultiPartitionsDefinition({"day": DAYS, "region": REGIONS})
CUSTOMERS = servo.DynamicPartitionsDefinition(name="customers")


class Store:
    def get_dynamic_partitions(self, partitions_def_name: str) -> list[str]:
        return {"customers": ["acme", "umbrella"]}.get(partitions_def_name, [])


def made(name: str, partitions: Any = None, **deps: Any) -> servo.AssetsDefinition:
    """An asset that is made from others, by the mappings that are given."""
    given = [servo.AssetDep(up, partition_mapping=mapping) for up, mapping in deps.items()]

    @servo.asset(name=name, partitions_def=partitions, deps=given)
    def fn() -> None: ...

    return fn


def planned(assets: Iterable[Any], *keys: Any, select: Iterable[str] = ()) -> dict[str, list[str]]:
    """The tasks of a plan, each with what it waits for, without what they all have in common."""
    plan = plan_of(assets, *keys, select=select)
    return {_short(task.task_key): sorted(map(_short, task.upstream)) for task in plan.tasks}


def plan_of(assets: Iterable[Any], *keys: Any, select: Iterable[str] = ()) -> Plan:
    project = Project(assets)
    chosen = [AssetKey(name) for name in select] or project.order
    return plan_assets(project, chosen, partition_keys=keys, now=NOW, dynamic_partitions=Store())


def _short(key: str) -> str:
    return key.removesuffix(":materialize").replace("partition=", "").replace(".000000Z", "Z")


def test_every_partition_is_a_task_after_those_of_the_same_key() -> None:
    assets = [made("raw", DAYS), made("clean", DAYS, raw=None), made("report", None, clean=None)]
    assert planned(assets, "2024-01-03", "2024-01-02") == {
        "raw[d:2024-01-02]": [],
        "raw[d:2024-01-03]": [],
        "clean[d:2024-01-02]": ["raw[d:2024-01-02]"],
        "clean[d:2024-01-03]": ["raw[d:2024-01-03]"],
        "report": ["clean[d:2024-01-02]", "clean[d:2024-01-03]"],
    }


def test_what_is_divided_otherwise_is_made_for_what_belongs_to_the_keys() -> None:
    shifted = servo.TimeWindowPartitionMapping(start_offset=-1)
    assets = [made("hours", HOURS), made("days", DAYS, hours=None), made("two", DAYS, days=shifted)]
    down = planned(assets, "2024-01-05-07:00")
    assert set(down) == {"hours[t:2024-01-05T07:00:00Z]", "days[d:2024-01-05]"} | {
        "two[d:2024-01-05]",
        "two[d:2024-01-06]",
    }
    assert down["two[d:2024-01-06]"] == ["days[d:2024-01-05]"]
    up = planned(assets, "2024-01-05")
    assert len(up) == 26
    assert len(up["days[d:2024-01-05]"]) == 24
    assert up["two[d:2024-01-05]"] == ["days[d:2024-01-05]"]


def test_a_range_is_named_by_its_ends_and_keys_may_be_written_with_names() -> None:
    found = planned([made("raw", DAYS)], PartitionKeyRange("2024-01-03", "2024-01-05"))
    assert list(found) == [f"raw[d:2024-01-0{n}]" for n in (3, 4, 5)]
    both = [made("sales", BOTH)]
    assert set(planned(both, "2024-01-03|eu", "day=2024-01-03,region=us")) == {
        "sales[day=d:2024-01-03,region=s:ZXU]",
        "sales[day=d:2024-01-03,region=s:dXM]",
    }
    stored = "day=d:2024-01-03,region=s:ZXU"
    assert planned(both, stored) == planned(both, "2024-01-03|eu")
    assert set(planned([made("c", CUSTOMERS)], "acme")) == {"c[s:YWNtZQ]"}


def test_an_asset_can_be_made_from_earlier_partitions_of_itself() -> None:
    before = servo.TimeWindowPartitionMapping(-1, -1, allow_nonexistent_upstream_partitions=True)
    found = planned(
        [made("balance", DAYS, balance=before)], PartitionKeyRange("2024-01-01", "2024-01-03")
    )
    assert found == {
        "balance[d:2024-01-01]": [],
        "balance[d:2024-01-02]": ["balance[d:2024-01-01]"],
        "balance[d:2024-01-03]": ["balance[d:2024-01-02]"],
    }
    with pytest.raises(Invalid, match="balance → balance"):
        _ = Project([made("balance", DAYS, balance=None)])


def test_mappings_of_ones_own_decide() -> None:
    class Pairs(servo.PartitionMapping, frozen=True):
        """Europe from everywhere, the others from themselves."""

        def upstream_keys(self, key: str, upstream: Any, downstream: Any) -> list[str]:
            del downstream
            return upstream.get_partition_keys() if key == "eu" else [key]

    assets = [made("raw", REGIONS), made("sum", REGIONS, raw=Pairs())]
    assert planned(assets, "eu", "us")["sum[s:ZXU]"] == ["raw[s:ZXU]", "raw[s:dXM]"]


def test_assets_of_one_function_are_made_together_for_each_partition() -> None:
    @servo.multi_asset(
        outs={"one": servo.AssetOut(), "two": servo.AssetOut()}, partitions_def=REGIONS
    )
    def split() -> None: ...

    (task,) = plan_of([split], "eu").tasks
    assert (task.asset_key, task.also_makes, task.partition) == (
        "one",
        ("two",),
        "partition=s:ZXU",
    )


@pytest.mark.parametrize(
    ("assets", "keys", "wrong", "remedy"),
    [
        (
            [made("raw", DAYS)],
            (),
            "no partition was given: raw",
            "pass a partition (such as '2024-01-31')",
        ),
        ([made("raw", DAYS)], ("2024-02-01",), "raw has no partition '2024-02-01'", "'2024-01-31'"),
        ([made("raw", DAYS)], ("x", "y"), "no partition 'x' and 1 others", "'2024-01-01' to"),
        (
            [made("raw", DAYS)],
            (PartitionKeyRange("2024-01-09", "2024-01-08"),),
            "'2024-01-09' comes after '2024-01-08'",
            "swap",
        ),
        ([made("plain")], ("eu",), "'eu' was given, but plain has no partitions", "leave"),
        (
            [made("a", REGIONS), made("b", DAYS)],
            ("eu",),
            "b has other partitions",
            "materialize b separately",
        ),
        (
            [
                made("raw", DAYS),
                made("two", DAYS, raw=servo.TimeWindowPartitionMapping(start_offset=-1)),
            ],
            ("2024-01-01",),
            "two '2024-01-01' depends on raw '2023-12-31', which does not exist",
            "allow_nonexistent_upstream_partitions",
        ),
        (
            [made("raw", REGIONS), made("b", DAYS, raw=servo.TimeWindowPartitionMapping())],
            ("eu",),
            "b depends on raw: TimeWindowPartitionMapping cannot map",
            "between time-based partitions",
        ),
        (
            [made("raw", DAYS), made("all", None, raw=servo.IdentityPartitionMapping())],
            ("2024-01-01",),
            "all depends on raw: IdentityPartitionMapping maps to an asset without",
            "AllPartitionMapping",
        ),
        (
            [made("raw", REGIONS), made("b", CUSTOMERS, raw=servo.IdentityPartitionMapping())],
            ("acme",),
            "b 'acme' depends on raw 'acme', which does not exist",
            "with another partition_mapping",
        ),
        ([made("c", CUSTOMERS)], ("nobody",), "c has no partition 'nobody'", "'acme' to"),
        (
            [made("both", BOTH)],
            ("2024-01-03|mars",),
            "both has no partition",
            "2024-01-31|as",
        ),
    ],
)
def test_what_cannot_be_planned_is_told_with_a_remedy(
    assets: list[Any], keys: tuple[Any, ...], wrong: str, remedy: str
) -> None:
    with pytest.raises((Invalid, NotFound)) as told:
        _ = planned(assets, *keys)
    assert wrong in told.value.message
    assert remedy in told.value.remedy


def test_a_missing_upstream_partition_counts_also_if_it_is_not_selected() -> None:
    short = servo.DailyPartitionsDefinition("2024-01-10")
    assets = [made("raw", short), made("b", DAYS, raw=None)]
    with pytest.raises(Invalid, match="b '2024-01-02' depends on raw '2024-01-02', which does"):
        _ = planned(assets, "2024-01-02", select=["b"])
    allowed = servo.TimeWindowPartitionMapping(allow_nonexistent_upstream_partitions=True)
    assets = [made("raw", short), made("b", DAYS, raw=allowed)]
    assert planned(assets, "2024-01-02", select=["b"]) == {"b[d:2024-01-02]": []}


def test_a_task_is_told_which_partitions_it_loads_unless_they_are_too_many() -> None:
    @servo.asset(partitions_def=DAYS)
    def raw() -> int: ...

    @servo.asset(partitions_def=DAYS)
    def same(raw: int) -> int: ...

    @servo.asset(partitions_def=servo.WeeklyPartitionsDefinition("2024-01-07"))
    def weeks(raw: Any) -> int: ...

    @servo.asset
    def everything(raw: Any) -> int: ...

    tag = "servo/input_partitions"
    tasks = {
        task.asset_key: task.tags.get(tag)
        for task in plan_of([raw, same, weeks, everything], "2024-01-20").tasks
    }
    days = ",".join(f'"partition=d:2024-01-{day}"' for day in range(14, 21))
    assert tasks["same"] is None
    assert tasks["weeks"] == f'{{"raw":[{days}]}}'
    assert tasks["everything"] is not None
    assert tasks["everything"].count("partition=") == 31
    long = servo.DailyPartitionsDefinition("2023-01-01", end_date="2023-12-31")
    assert long.get_num_partitions(NOW) > MOST_LISTED

    @servo.asset(partitions_def=long)
    def year() -> int: ...

    @servo.asset
    def all_of_it(year: Any) -> int: ...

    (task,) = plan_of([year, all_of_it], select=["all_of_it"]).tasks
    assert task.tags == {tag: '{"year":null}'}


def test_partitions_can_be_planned_one_by_one() -> None:
    project = Project([made("raw", REGIONS), made("clean", REGIONS, raw=None), made("plain")])
    wanted = {AssetKey("clean"): ["us"], AssetKey("raw"): ["eu", "us"], AssetKey("plain"): [WHOLE]}
    plan = plan_partitions(project, wanted, now=NOW)
    found = {_short(task.task_key): [_short(up) for up in task.upstream] for task in plan.tasks}
    assert found == {
        "plain": [],
        "raw[s:ZXU]": [],
        "raw[s:dXM]": [],
        "clean[s:dXM]": ["raw[s:dXM]"],
    }
    with pytest.raises(NotFound, match="there is no partition 'mars'"):
        _ = plan_partitions(project, {AssetKey("raw"): ["mars"]}, now=NOW)


def test_checks_that_run_alone_look_at_a_partition() -> None:
    @servo.asset(partitions_def=REGIONS)
    def raw() -> int: ...

    @servo.asset_check(asset=raw)
    def fine(raw: int) -> bool: ...

    project = Project([raw], checks=[fine])
    wanted = {fine.spec.key}
    (task,) = plan_assets(project, [], checks=wanted, partition_keys=["eu"], now=NOW).tasks
    assert task.task_key == "raw[partition=s:ZXU]:check"
    with pytest.raises(Invalid, match="no partition was given: raw"):
        _ = plan_assets(project, [], checks=wanted, now=NOW)


def test_a_million_partitions_are_planned_by_arithmetic() -> None:
    minutes = servo.TimeWindowPartitionsDefinition(
        start="2020-01-01-00:00", fmt="%Y-%m-%d-%H:%M", cron_schedule="* * * * *"
    )
    walked: list[int] = []

    class Counted(servo.TimeWindowPartitionsDefinition):
        __slots__ = ()

        def key_at(self, start: datetime) -> str:
            walked.append(1)
            return super().key_at(start)

    counted = Counted(start=minutes.start, fmt=minutes.fmt, cron_schedule="* * * * *")
    assets = [made("raw", counted), made("clean", counted, raw=None)]
    keys = PartitionKeyRange("2022-06-01-00:00", "2022-06-01-00:59")
    assert counted.get_num_partitions(NOW) > 2_000_000
    assert len(plan_of(assets, keys).tasks) == 120
    assert len(walked) < 2_000
