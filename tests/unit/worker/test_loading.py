"""`load_asset()`: what was made, now or as it was."""

from pathlib import Path

import pytest

from servo import AssetsDefinition, asset, load_asset, materialize
from servo.errors import NotFound
from servo.ledger.paths import Paths
from servo.projection.reader import Reader
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
