"""A reader of an output gets what was committed under that name, or `Corrupt`."""

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from servo import asset, load_asset, materialize
from servo.core.events.tasks import CommittedOutput
from servo.errors import Corrupt
from servo.execution.outputs.store import INLINE_BYTES, OutputStore
from servo.ledger.paths import MARKER, Paths
from servo.storage.memory import MemoryStore
from servo.testing.clock import ManualClock
from servo.testing.stored_outputs import save_output

PATHS = Paths("acme", "prod")
LARGE = "x" * (INLINE_BYTES + 1)

every_size = pytest.mark.parametrize("filler", ["", LARGE], ids=["in-the-marker", "in-a-file"])


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(ManualClock())


@pytest.fixture
def outputs(store: MemoryStore) -> OutputStore:
    return OutputStore(store, PATHS)


def load(outputs: OutputStore, output: CommittedOutput) -> Any:
    return outputs.load(output.uri, output.content_hash)


def copy(store: MemoryStore, source: CommittedOutput, target: CommittedOutput) -> None:
    """Copy every object of one output over those of another."""
    for meta in store.list_after(source.uri):
        _ = store.put(meta.key.replace(source.uri, target.uri), store.get(meta.key).data)


@every_size
@pytest.mark.parametrize("part", [0, 3])
def test_an_output_is_read_as_it_was_committed(
    outputs: OutputStore, filler: str, part: int
) -> None:
    output = save_output(outputs, "ns/orders", "e1", f"orders{filler}", part=part)
    assert load(outputs, output) == f"orders{filler}"


@every_size
@pytest.mark.parametrize(
    ("asset", "execution"),
    [("ns/users", "e1"), ("ns/orders", "e2"), ("ns/orders/old", "e1"), ("ns/orders", "e1x")],
)
def test_the_output_of_another_asset_or_execution_is_refused(
    store: MemoryStore, outputs: OutputStore, asset: str, execution: str, filler: str
) -> None:
    wanted = save_output(outputs, "ns/orders", "e1", f"orders{filler}")
    copy(store, save_output(outputs, asset, execution, f"another{filler}"), wanted)
    with pytest.raises(Corrupt, match=f"is the marker of another output: {asset} of execution"):
        load(outputs, wanted)
    with pytest.raises(Corrupt, match="materialize the asset again"):
        outputs.load(wanted.uri, "")


@every_size
def test_another_partition_of_the_same_execution_is_refused(
    store: MemoryStore, outputs: OutputStore, filler: str
) -> None:
    wanted = save_output(outputs, "ns/orders", "e1", f"monday{filler}", part=1)
    copy(store, save_output(outputs, "ns/orders", "e1", f"tuesday{filler}", part=2), wanted)
    with pytest.raises(Corrupt, match="its hash differs from the one in the ledger"):
        load(outputs, wanted)


@every_size
def test_a_consistent_forgery_is_refused_by_the_hash_in_the_ledger(
    store: MemoryStore, outputs: OutputStore, filler: str
) -> None:
    wanted = save_output(outputs, "ns/orders", "e1", f"orders{filler}")
    forged = OutputStore(store, PATHS)
    for meta in store.list_after(wanted.uri):
        store.delete(meta.key)
    _ = save_output(forged, "ns/orders", "e1", f"forged{filler}")
    with pytest.raises(Corrupt, match="its hash differs from the one in the ledger"):
        load(outputs, wanted)


def test_a_marker_that_is_no_marker_is_reported_as_damage(
    store: MemoryStore, outputs: OutputStore
) -> None:
    wanted = save_output(outputs, "ns/orders", "e1", 1)
    for damage in (b"", b"{}", msgspec.json.encode([1])):
        _ = store.put(f"{wanted.uri}{MARKER}", damage)
        with pytest.raises(Corrupt, match="is damaged"):
            load(outputs, wanted)


def test_no_reader_takes_the_output_of_another_asset_for_its_own(tmp_path: Path) -> None:
    @asset
    def orders() -> list[int]:
        return [1, 2]

    @asset
    def users() -> list[int]:
        return [3, 4]

    @asset
    def report(orders: list[int]) -> int:
        return sum(orders)

    url = str(tmp_path / "store")
    made = materialize([orders, users, report], store=url)
    assert made.asset_value("report") == 3
    folders = {row.asset_key: tmp_path / "store" / row.output_uri for row in made.materializations}
    _ = shutil.copy(folders["users"] / MARKER, folders["orders"] / MARKER)

    refusal = "is the marker of another output: users of execution"
    with pytest.raises(Corrupt, match=refusal):
        load_asset("orders", store=url)
    with pytest.raises(Corrupt, match=refusal):
        _ = made.asset_value("orders")
    again = materialize(
        [orders, users, report],
        selection="report",
        store=url,
        raise_on_error=False,
    )
    (failure,) = again.failures.values()
    assert refusal in failure
