"""Partitioned assets as they are made: what their code is told, given, and what is recorded."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import servo
from servo.core.state.rows.assets import PartitionStatusRow
from servo.errors import Invalid, NotFound
from servo.execution.inputs.partitions import PartitionInputs
from servo.host.materialize import MaterializationFailed
from servo.leader.assignments import Assignment, PinnedInput
from servo.projection.read.reader import Reader
from servo.sdk.definitions.project import Project
from servo.sdk.partitions.time_partitions import TimeWindow

REGIONS = servo.StaticPartitionsDefinition(["eu", "us", "a/b c"])
DAYS = servo.DailyPartitionsDefinition("2024-01-01", end_date="2024-03-01")
HOURS = servo.HourlyPartitionsDefinition(
    "2024-03-30-00:00", end_date="2024-04-02-00:00", timezone="Europe/Berlin"
)
BERLIN = servo.DailyPartitionsDefinition(
    "2024-03-30", end_date="2024-04-02", timezone="Europe/Berlin"
)


def statuses(instance: servo.ServoInstance, asset: str) -> dict[str, PartitionStatusRow]:
    rows = Reader(instance.world.store, instance.paths).snapshot().rows("partition_status")
    found = [row for row in rows if isinstance(row, PartitionStatusRow)]
    return {row.partition_key: row for row in found if row.asset_key == asset}


@servo.asset(partitions_def=REGIONS)
def sales(context: servo.AssetExecutionContext) -> list[str]:
    return [f"sold in {context.partition_key}"]


@servo.asset(partitions_def=REGIONS)
def shouted(sales: list[str]) -> str:
    return sales[0].upper()


@servo.asset
def everywhere(sales: Mapping[str, list[str]]) -> dict[str, str]:
    return {key: found[0] for key, found in sales.items()}


def test_a_partition_is_made_stored_and_loaded_by_itself() -> None:
    instance = servo.ServoInstance.ephemeral()
    for key in REGIONS.get_partition_keys():
        run = servo.materialize([sales, shouted], partition_key=key, instance=instance)
        assert run.asset_value("shouted") == f"SOLD IN {key.upper()}"
        assert run.asset_value("sales", key) == [f"sold in {key}"]
        assert run.run.labels["servo/partition"] == key
    assert instance.get_materialized_partitions("sales") == set(REGIONS.get_partition_keys())
    whole = servo.materialize([sales, everywhere], selection="everywhere", instance=instance)
    assert whole.asset_value("everywhere") == {
        key: f"sold in {key}" for key in REGIONS.get_partition_keys()
    }
    with pytest.raises(NotFound, match="the partition 'mars' of sales was not materialized"):
        _ = servo.materialize([sales], partition_key="eu").asset_value("sales", "mars")


def test_what_was_never_made_is_told_by_its_key() -> None:
    instance = servo.ServoInstance.ephemeral()
    _ = servo.materialize([sales], partition_key="eu", instance=instance)
    with pytest.raises(MaterializationFailed, match="the partition 'us' and 1 more of sales was"):
        _ = servo.materialize([sales, everywhere], selection="everywhere", instance=instance)
    with pytest.raises(MaterializationFailed, match="the partition 'us' of sales was never"):
        _ = servo.materialize(
            [sales, shouted], selection="shouted", partition_key="us", instance=instance
        )


def test_what_may_be_missing_is_left_out() -> None:
    @servo.asset(partitions_def=REGIONS, metadata={"allow_missing_partitions": True})
    def spotty(context: servo.AssetExecutionContext) -> str:
        return context.partition_key

    @servo.asset
    def found(spotty: Any) -> Any:
        return spotty

    @servo.asset(partitions_def=REGIONS)
    def one(spotty: Any) -> Any:
        return spotty

    instance = servo.ServoInstance.ephemeral()
    assets = [spotty, found, one]
    _ = servo.materialize(assets, selection="spotty", partition_key="eu", instance=instance)
    run = servo.materialize(assets, selection="found", instance=instance)
    assert run.asset_value("found") == {"eu": "eu"}
    run = servo.materialize(assets, selection="one", partition_key="us", instance=instance)
    assert run.asset_value("one") is None


def test_windows_of_time_are_loaded_by_overlap_and_known_to_the_context() -> None:
    told: dict[str, Any] = {}

    @servo.asset(partitions_def=HOURS)
    def hours(context: servo.AssetExecutionContext) -> str:
        return context.partition_key

    @servo.asset(partitions_def=BERLIN)
    def days(context: servo.AssetExecutionContext, hours: dict[str, str]) -> int:
        told["window"] = context.partition_time_window
        told["range"] = context.partition_key_range
        told["hours"] = context.asset_partition_keys_for_input("hours")
        told["of input"] = context.asset_partitions_time_window_for_input("hours")
        told["def"] = context.asset_partitions_def_for_output()
        assert sorted(hours) == list(hours) == list(hours.values())
        return len(hours)

    run = servo.materialize([hours, days], partition_key="2024-03-31")
    assert run.asset_value("days") == 23  # the clocks went forward
    assert len(told["hours"]) == 23
    assert told["window"] == BERLIN.time_window_for_partition_key("2024-03-31")
    assert told["window"] == told["of input"]
    assert isinstance(told["window"], TimeWindow)
    assert told["range"] == servo.PartitionKeyRange("2024-03-31", "2024-03-31")
    assert told["def"] == BERLIN


def test_many_partitions_are_found_by_the_worker_itself() -> None:
    long = servo.DailyPartitionsDefinition(
        "2023-01-01", end_date="2024-01-01", end_offset=0, timezone="UTC"
    )

    @servo.asset(partitions_def=long, metadata={"allow_missing_partitions": True})
    def day(context: servo.AssetExecutionContext) -> int:
        return context.partition_time_window.start.day

    @servo.asset
    def total(day: dict[str, int]) -> int:
        return sum(day.values())

    instance = servo.ServoInstance.ephemeral()
    for key in ("2023-05-05", "2023-06-07"):
        _ = servo.materialize([day], partition_key=key, instance=instance)
    run = servo.materialize([day, total], selection="total", instance=instance)
    assert run.asset_value("total") == 12


def test_an_io_manager_is_told_the_partitions() -> None:
    seen: list[Any] = []

    class Manager(servo.IOManager):
        def handle_output(self, context: servo.OutputContext, obj: Any) -> None:
            seen.append((obj, context.asset_partition_key, context.asset_partitions_time_window))

        def load_input(self, context: servo.InputContext) -> Any:
            assert context.has_partition_key
            seen.append((context.partition_key, list(context.asset_partition_keys)))
            assert context.asset_partitions_def == DAYS
            return context.asset_partition_key_range

    @servo.asset(partitions_def=DAYS)
    def raw(context: servo.AssetExecutionContext) -> str:
        return context.partition_key

    two = servo.TimeWindowPartitionMapping(start_offset=-1)

    @servo.asset(partitions_def=DAYS, ins={"raw": servo.AssetIn(partition_mapping=two)})
    def smooth(raw: Any) -> str:
        return f"{raw.start} to {raw.end}"

    window = DAYS.time_window_for_partition_key("2024-02-02")
    _ = servo.materialize(
        [raw, smooth], partition_key="2024-02-02", resources={"io_manager": Manager()}
    )
    assert seen == [
        ("2024-02-02", "2024-02-02", window),
        ("2024-02-02", ["2024-02-01", "2024-02-02"]),
        ("2024-02-01 to 2024-02-02", "2024-02-02", window),
    ]


def test_files_of_partitions_stay_apart_whatever_they_are_called(tmp_path: Path) -> None:
    files = servo.FilesystemIOManager(base_dir=str(tmp_path))
    for key in REGIONS.get_partition_keys():
        run = servo.materialize(
            [sales, shouted], partition_key=key, resources={"io_manager": files}
        )
        assert run.success
    names = sorted(path.name for path in (tmp_path / "sales").iterdir())
    assert names == ["a%2Fb c", "eu", "us"]


def test_several_dimensions_are_told_by_name() -> None:
    both = servo.MultiPartitionsDefinition({"day": DAYS, "region": REGIONS})

    @servo.asset(partitions_def=both)
    def cell(context: servo.AssetExecutionContext) -> Any:
        key = context.partition_key
        assert isinstance(key, servo.MultiPartitionKey)
        return dict(key.keys_by_dimension), context.partition_time_window.start.day

    run = servo.materialize([cell], partition_key="2024-01-09|us")
    assert run.asset_value("cell") == ({"day": "2024-01-09", "region": "us"}, 9)


def test_success_and_attempt_are_kept_apart() -> None:
    broken: list[bool] = [False]

    @servo.asset(partitions_def=REGIONS, code_version="7")
    def fragile() -> int:
        if broken[0]:
            raise ValueError("no")
        return 1

    instance = servo.ServoInstance.ephemeral()
    first = servo.materialize([fragile], partition_key="eu", instance=instance)
    broken[0] = True
    second = servo.materialize(
        [fragile], partition_key="eu", instance=instance, raise_on_error=False
    )
    (row,) = statuses(instance, "fragile").values()
    assert row.last_materialization_run_id == first.run_id
    assert row.last_materialization_code_version == "7"
    assert row.last_attempt_run_id == second.run_id
    assert row.last_attempt_outcome == "FAILED"


def test_checks_look_at_their_partition() -> None:
    seen: list[Any] = []

    @servo.asset_check(asset=sales, additional_ins={"shouted": servo.AssetIn("shouted")})
    def loud(context: Any, sales: list[str], shouted: str) -> bool:
        seen.append((context.partition_key, sales, shouted))
        return shouted == sales[0].upper()

    instance = servo.ServoInstance.ephemeral()
    for key in ("eu", "us"):
        _ = servo.materialize([sales, shouted], partition_key=key, instance=instance)
    run = servo.materialize(
        [sales, shouted, loud],
        selection=servo.AssetSelection.checks_for_assets(sales),
        partition_key="eu",
        instance=instance,
    )
    assert run.success
    assert seen == [("eu", ["sold in eu"], "SOLD IN EU")]


def test_a_context_of_no_partition_says_so() -> None:
    @servo.asset
    def plain(context: servo.AssetExecutionContext) -> list[bool]:
        for name in ("partition_key", "partition_keys", "partition_time_window"):
            with pytest.raises(Invalid, match="this execution has no partition"):
                _ = getattr(context, name)
        with pytest.raises(Invalid, match="does not load the input 'x'"):
            _ = context.asset_partition_key_for_input("x")
        return [context.has_partition_key, context.has_partition_key_range]

    assert servo.materialize([plain]).asset_value("plain") == [False, False]

    @servo.asset(partitions_def=REGIONS)
    def listed(context: servo.AssetExecutionContext) -> None:
        with pytest.raises(Invalid, match="not time windows"):
            _ = context.partition_time_window

    assert servo.materialize([listed], partition_key="eu").success


def test_a_built_context_knows_what_its_asset_is_divided_by() -> None:
    @servo.asset(partitions_def=DAYS)
    def day(context: Any) -> Any:
        return list(context.partition_keys), context.partition_time_window

    context = servo.build_asset_context(partition_key="2024-02-29")
    assert day(context) == (["2024-02-29"], DAYS.time_window_for_partition_key("2024-02-29"))
    assert context.partition_key_range == ("2024-02-29", "2024-02-29")
    between = servo.PartitionKeyRange("2024-01-31", "2024-02-02")
    keys, window = day(servo.build_asset_context(partition_key_range=between))
    assert keys == ["2024-01-31", "2024-02-01", "2024-02-02"]
    assert window.duration.days == 3


def test_in_memory_and_on_dagsters_terms() -> None:
    run = servo.materialize_to_memory([sales, shouted], partition_key="us")
    assert run.asset_value("shouted") == "SOLD IN US"


def test_what_the_leader_does_not_hand_over_is_read_from_the_workspace() -> None:
    instance = servo.ServoInstance.ephemeral()
    made = servo.materialize([sales], partition_key="eu", instance=instance)
    inputs = PartitionInputs(Project([sales, shouted]), instance.world.clock, instance)
    work = Assignment(
        exec_id="x",
        run_id="r",
        task_key="shouted",
        asset_key="shouted",
        partitions=(REGIONS.typed_key("eu").canonical(), REGIONS.typed_key("us").canonical()),
        attempt=1,
        attempt_id="a",
        fencing_token=1,
    )
    found = inputs.of_input(work, servo.AssetKey("shouted"), servo.AssetKey("sales"))
    assert found is not None
    assert found.keys == ("eu", "us")
    pins = inputs.pins(work, servo.AssetKey("sales"), found)
    (row,) = made.materializations
    assert pins == {"eu": PinnedInput(row.materialization_id, row.output_uri, row.content_hash)}


# --- several at once ------------------------------------------------------------------------------

LETTERS = servo.StaticPartitionsDefinition(list("abcdefg"))
TO_F = servo.PartitionKeyRange("b", "f")


def test_a_policy_lets_one_task_make_several_partitions() -> None:
    seen: list[Any] = []

    @servo.asset(partitions_def=LETTERS, backfill_policy=servo.BackfillPolicy.multi_run(3))
    def three(context: servo.AssetExecutionContext) -> dict[str, str]:
        seen.append((list(context.partition_keys), context.partition_key_range))
        assert not context.has_partition_key
        with pytest.raises(Invalid, match=r"has \d partitions"):
            _ = context.partition_key
        return {key: key * 2 for key in context.partition_keys}

    @servo.asset(partitions_def=LETTERS, backfill_policy=servo.BackfillPolicy.single_run())
    def all_(three: dict[str, str]) -> None:
        seen.append(three)

    @servo.asset(partitions_def=LETTERS)
    def each(three: str) -> str:
        return three

    instance = servo.ServoInstance.ephemeral()
    run = servo.materialize([three, all_, each], partition_keys=[TO_F], instance=instance)
    assert seen == [
        (["b", "c", "d"], ("b", "d")),
        (["e", "f"], ("e", "f")),
        {key: key * 2 for key in "bcdef"},
    ]
    assert [run.asset_value("each", key) for key in "bcdef"] == ["bb", "cc", "dd", "ee", "ff"]
    assert instance.get_materialized_partitions("all_") == set("bcdef")
    assert instance.get_materialized_partitions("three") == set("bcdef")


@pytest.mark.parametrize(
    ("value", "wrong"),
    [([1], "returned a list"), ({"b": 1}, "returned a dict of 'b'"), ({}, "returned a dict of ")],
)
def test_values_of_several_partitions_come_by_their_keys(value: Any, wrong: str) -> None:
    @servo.asset(partitions_def=LETTERS, backfill_policy=servo.BackfillPolicy.single_run())
    def odd() -> Any:
        return value

    with pytest.raises(MaterializationFailed, match=wrong):
        _ = servo.materialize([odd], partition_keys=["a", "b"])


def test_an_io_manager_takes_several_partitions_at_once() -> None:
    seen: list[Any] = []

    class Manager(servo.IOManager):
        def handle_output(self, context: servo.OutputContext, obj: Any) -> None:
            seen.append((obj, list(context.asset_partition_keys)))

        def load_input(self, context: servo.InputContext) -> Any:
            raise NotImplementedError

    @servo.asset(partitions_def=DAYS, backfill_policy=servo.BackfillPolicy.single_run())
    def days(context: servo.AssetExecutionContext) -> int:
        return context.partition_time_window.duration.days

    instance = servo.ServoInstance.ephemeral()
    between = servo.PartitionKeyRange("2024-01-30", "2024-02-02")
    _ = servo.materialize(
        [days], partition_keys=[between], resources={"io_manager": Manager()}, instance=instance
    )
    keys = ["2024-01-30", "2024-01-31", "2024-02-01", "2024-02-02"]
    assert seen == [(4, keys)]
    assert instance.get_materialized_partitions("days") == set(keys)


def test_a_check_of_several_partitions_looks_at_all_and_may_hold_all_back() -> None:
    seen: list[Any] = []

    @servo.asset(
        partitions_def=LETTERS,
        backfill_policy=servo.BackfillPolicy.single_run(),
        quarantine=True,
    )
    def both() -> dict[str, int]:
        return {"a": 1, "b": 2}

    @servo.asset_check(asset=both, blocking=True)
    def fine(both: dict[str, int]) -> bool:
        seen.append(both)
        return False

    instance = servo.ServoInstance.ephemeral()
    run = servo.materialize([both, fine], partition_keys=["a", "b"], instance=instance)
    assert seen == [{"a": 1, "b": 2}]
    assert [row.promoted for row in run.materializations] == [False, False]
    assert instance.get_materialized_partitions("both") == set()


def test_one_text_is_not_several_keys() -> None:
    with pytest.raises(Invalid, match="partition_keys is the string 'eu'"):
        _ = servo.materialize([sales], partition_keys="eu")


def test_partitions_that_are_reported_are_stored_under_their_keys() -> None:
    @servo.asset(deps=[servo.AssetDep("elsewhere")])
    def teller(context: servo.AssetExecutionContext) -> None:
        context.log_event(servo.AssetMaterialization("elsewhere", partition="2024-01-02"))

    elsewhere = servo.AssetSpec("elsewhere", partitions_def=DAYS)
    instance = servo.ServoInstance.ephemeral()
    _ = servo.materialize([elsewhere, teller], instance=instance)
    assert list(statuses(instance, "elsewhere")) == ["partition=d:2024-01-02"]
    instance.report_runless_asset_event(
        servo.AssetMaterialization("elsewhere", partition="2024-01-03")
    )
    assert instance.get_materialized_partitions("elsewhere") == {"2024-01-02", "2024-01-03"}
    instance.report_runless_asset_event(servo.AssetMaterialization("unknown", partition="x"))
    assert instance.get_materialized_partitions("unknown") == {"x"}
