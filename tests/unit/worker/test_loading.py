"""`load_asset()`: what was made, now or as it was."""

from pathlib import Path

import pytest

from servo import AssetsDefinition, asset, load_asset, materialize
from servo.core.events.assets import AssetWiped, OutputsExpired
from servo.core.events.envelope import Batch
from servo.core.state.rows.assets import MaterializationRow
from servo.errors import NotFound
from servo.ledger.paths import Paths
from servo.projection.reader import Reader
from servo.runtime.deployment import open_service
from servo.runtime.system import SystemClock
from servo.storage.from_url import store_from_url


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
    with pytest.raises(NotFound, match="has not been made"):
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
        with pytest.raises(NotFound, match=r"shop/orders made at .* expired at .*; load a newer"):
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
    with pytest.raises(NotFound, match="has not been made"):
        load_asset("shop/orders", store=folder)
    assert load_asset("shop/orders", store=folder, as_of=before) == 1
