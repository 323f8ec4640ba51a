"""`load_asset()`: what was made, now or as it was."""

from pathlib import Path

import pytest

from servo import (
    AssetExecutionContext,
    AssetsDefinition,
    DailyPartitionsDefinition,
    MultiPartitionKey,
    MultiPartitionsDefinition,
    StaticPartitionsDefinition,
    asset,
    load_asset,
    materialize,
)
from servo.core.events.assets import AssetWiped, OutputsExpired
from servo.core.events.envelope import Batch
from servo.core.state.rows.assets import MaterializationRow
from servo.errors import Invalid, NotFound
from servo.ledger.paths import Paths
from servo.projection.read.reader import Reader
from servo.storage.from_url import store_from_url
from servo.testing.leader import open_service
from servo.workspace.system import SystemClock


def orders_of(value: int) -> AssetsDefinition:
    @asset(key="shop/orders")
    def orders() -> int:
        return value

    return orders


def test_an_asset_can_be_loaded_as_it_is_and_as_it_was(tmp_path: Path) -> None:
    folder = str(tmp_path)
    entries: list[int] = []
    for value in (1, 2):
        materialize([orders_of(value)], store=folder)
        reader = Reader(store_from_url(folder, clock=SystemClock()), Paths("default", "default"))
        entries.append(reader.snapshot().applied_seq)
    assert load_asset("shop/orders", store=folder) == 2
    assert load_asset(["shop", "orders"], store=folder, as_of=entries[0]) == 1
    with pytest.raises(NotFound, match="has not been materialized"):
        load_asset("nothing", store=folder)


def test_what_returned_nothing_is_none(tmp_path: Path) -> None:
    @asset
    def quiet() -> None: ...

    materialize([quiet], store=str(tmp_path))
    assert load_asset(quiet, store=str(tmp_path)) is None


def test_what_expired_says_so_whether_its_data_is_gone_yet_or_not(tmp_path: Path) -> None:
    folder = str(tmp_path)
    for value in (1, 2):
        materialize([orders_of(value)], store=folder)
    store = store_from_url(folder, clock=SystemClock())
    rows = Reader(store, Paths("default", "default")).snapshot().rows("materializations")
    made = sorted(
        (row for row in rows if isinstance(row, MaterializationRow)),
        key=lambda row: row.created_seq,
    )
    first = made[0]
    assert load_asset("shop/orders", store=folder, as_of=first.created_seq) == 1
    event = OutputsExpired(materialization_ids=(first.materialization_id,))
    with open_service(folder) as service:
        assert service.commit(Batch(id="expire", events=(event,))).applied
    for _ in ("the data is there", "it is not"):
        with pytest.raises(NotFound, match=r"shop/orders from .* expired at .*; load a newer"):
            load_asset("shop/orders", store=folder, as_of=first.created_seq)
        store.delete(f"{first.output_uri}_commit.json")
    assert load_asset("shop/orders", store=folder) == 2


def test_what_was_wiped_is_loaded_only_as_it_was(tmp_path: Path) -> None:
    folder = str(tmp_path)
    materialize([orders_of(1)], store=folder)
    paths = Paths("default", "default")
    before = Reader(store_from_url(folder, clock=SystemClock()), paths).snapshot().applied_seq
    with open_service(folder) as service:
        service.commit(Batch(id="wipe", events=(AssetWiped(asset_key="shop/orders"),)))
    with pytest.raises(NotFound, match="has not been materialized"):
        load_asset("shop/orders", store=folder)
    assert load_asset("shop/orders", store=folder, as_of=before) == 1


# --- partitions -----------------------------------------------------------------------------------


DAYS = DailyPartitionsDefinition("2025-01-01", end_date="2025-02-01")
BOTH = MultiPartitionsDefinition({"day": DAYS, "region": StaticPartitionsDefinition(["eu", "us"])})


@asset(partitions_def=DAYS)
def daily(context: AssetExecutionContext) -> str:
    return f"made {context.partition_key}"


@asset(partitions_def=BOTH)
def regional(context: AssetExecutionContext) -> str:
    return str(context.partition_key)


def made_days(folder: Path, *days: str) -> str:
    for day in days:
        materialize([daily], partition_key=day, store=str(folder))
    return str(folder)


def test_a_partition_is_loaded_by_its_key_and_all_of_them_by_theirs(tmp_path: Path) -> None:
    folder = made_days(tmp_path, "2025-01-03", "2025-01-02")
    assert load_asset(daily, partition="2025-01-02", store=folder) == "made 2025-01-02"
    every = load_asset("daily", store=folder)
    assert list(every.items()) == [
        ("2025-01-02", "made 2025-01-02"),
        ("2025-01-03", "made 2025-01-03"),
    ]


def test_a_partition_of_several_dimensions_is_named_by_them_or_by_its_key(tmp_path: Path) -> None:
    folder = str(tmp_path)
    key = MultiPartitionKey({"day": "2025-01-02", "region": "eu"})
    materialize([regional], partition_key=key, store=folder)
    parts = {"region": "eu", "day": "2025-01-02"}
    assert load_asset(regional, partition=parts, store=folder) == str(key)
    assert load_asset(regional, partition="2025-01-02|eu", store=folder) == str(key)


def test_a_partition_can_be_loaded_as_it_was(tmp_path: Path) -> None:
    folder = made_days(tmp_path, "2025-01-02")
    reader = Reader(store_from_url(folder, clock=SystemClock()), Paths("default", "default"))
    before = reader.snapshot().applied_seq
    _ = made_days(tmp_path, "2025-01-03")
    assert list(load_asset(daily, as_of=before, store=folder)) == ["2025-01-02"]
    with pytest.raises(
        NotFound, match=f"daily:2025-01-03 has not been materialized as of {before}"
    ):
        load_asset(daily, partition="2025-01-03", as_of=before, store=folder)


def test_what_is_no_partition_of_it_is_told(tmp_path: Path) -> None:
    folder = made_days(tmp_path, "2025-01-02")
    with pytest.raises(NotFound, match="daily:2025-01-09 has not been materialized"):
        load_asset(daily, partition="2025-01-09", store=folder)
    for strange in ("2025-03-01", "nonsense", {"day": "nonsense"}):
        with pytest.raises(NotFound, match="has no partition"):
            load_asset(daily, partition=strange, store=folder)
    materialize([orders_of(1)], store=folder)
    with pytest.raises(Invalid, match="shop/orders has no partitions"):
        load_asset("shop/orders", partition="2025-01-02", store=folder)


def test_partitions_of_before_the_definition_changed_are_still_there(tmp_path: Path) -> None:
    folder = made_days(tmp_path, "2025-01-02")

    @asset(name="daily", partitions_def=StaticPartitionsDefinition(["a"]))
    def letters() -> int:
        return 7

    materialize([letters], partition_key="a", store=folder)
    assert load_asset("daily", store=folder) == {"2025-01-02": "made 2025-01-02", "a": 7}
    assert load_asset("daily", partition="2025-01-02", store=folder) == "made 2025-01-02"
    assert load_asset("daily", partition="a", store=folder) == 7
