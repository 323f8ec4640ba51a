"""Operations on assets: what is shown, what became of outputs, and what a wipe does."""

from datetime import UTC, datetime, timedelta

import pytest

from servo import (
    AssetExecutionContext,
    FreshnessPolicy,
    MaterializeResult,
    StaticPartitionsDefinition,
    asset,
    asset_check,
    materialize,
)
from servo.core.freshness import FreshnessState
from servo.core.partitions import PartitionKey
from servo.core.state.rows.system import LedgerIndexRow
from servo.errors import Conflict, NotFound
from servo.operations.assets import (
    OutputVerdict,
    get_asset,
    list_freshness_changes,
    list_outputs,
    preview_wipe,
    wipe_asset,
)
from servo.operations.interface.listing import Page
from servo.ports.world import World
from servo.testing.clock import ManualClock, SeededEntropy
from servo.testing.operating import workspace_of
from servo.workspace.channels import AnyChannel
from servo.workspace.instance.instance import ServoInstance
from servo.workspace.workspace import Workspace

ALL = Page(limit=100)


@asset(key_prefix="shop", metadata={"team": "x"})
def orders() -> MaterializeResult[int]:
    return MaterializeResult(value=1, metadata={"rows": 12, "source": "till"})


@asset(freshness_policy=FreshnessPolicy.time_window(fail_window=timedelta(hours=1)))
def report() -> int:
    return 2


@asset_check(asset=orders)
def is_small() -> bool:
    return True


@pytest.fixture
def workspace() -> Workspace:
    instance = ServoInstance.ephemeral()
    for _ in range(3):
        assert materialize([orders, report, is_small], instance=instance).success
    return workspace_of(instance)


def test_an_asset_is_found_by_the_end_of_its_key_and_shown_with_plain_metadata(
    workspace: Workspace,
) -> None:
    found = get_asset(workspace, "orders")
    assert found.asset.asset_key == "shop/orders"
    assert found.latest is not None
    assert found.latest.materialization_id == found.asset.last_materialization_id
    assert found.metadata == {"rows": 12, "source": "till"}
    assert [(check.check_name, check.passed) for check in found.checks] == [("is_small", True)]
    with pytest.raises(NotFound, match="did you mean shop/orders"):
        _ = get_asset(workspace, "orderz")


KEYS = ["eu", "us:west", "asia"]


@asset(partitions_def=StaticPartitionsDefinition(KEYS))
def sales(context: AssetExecutionContext) -> str:
    return context.partition_key


@asset_check(asset=sales)
def is_named(context: AssetExecutionContext) -> bool:
    return context.partition_key == "eu"


def test_a_partition_is_shown_with_its_own_output_and_checks() -> None:
    instance = ServoInstance.ephemeral()
    for key in ("eu", "us:west"):
        assert materialize([sales, is_named], partition_key=key, instance=instance).success
    workspace = workspace_of(instance)

    def shown(name: str, partition: str | None = None) -> tuple[str | None, str | None, list[bool]]:
        found = get_asset(workspace, name, partition=partition)
        made = None if found.latest is None else found.latest.partition_key
        return found.partition_key, made, [check.passed for check in found.checks]

    europe, west, asia = (PartitionKey.single(key).canonical() for key in KEYS)
    assert shown("sales") == (None, west, [False])
    for name, partition in (("sales:eu", None), ("sales[eu]", None), ("sales", "eu")):
        assert shown(name, partition) == (europe, europe, [True])
    assert shown("sales:us:west") == (west, west, [False])
    assert shown("sales:asia") == (asia, None, [])
    with pytest.raises(NotFound, match="has no partition 'mars'"):
        _ = shown("sales:mars")


def test_outputs_are_paged_newest_first_with_what_became_of_each(workspace: Workspace) -> None:
    first = list_outputs(workspace, "orders", Page(limit=2))
    assert [one.verdict for one in first.items] == [OutputVerdict.LATEST, OutputVerdict.PROMOTED]
    rest = list_outputs(workspace, "orders", Page(limit=2, before=first.next_cursor))
    assert (len(rest.items), rest.next_cursor) == (1, None)
    order = [one.created_seq for one in (*first.items, *rest.items)]
    assert order == sorted(order, reverse=True)


def test_a_wiped_asset_counts_as_never_materialized_and_its_past_stays(
    workspace: Workspace,
) -> None:
    before = list_outputs(workspace, "orders", ALL).items
    assert preview_wipe(workspace, "orders").last_materialization_id == before[0].materialization_id
    wiped = wipe_asset(workspace, "orders")
    assert (wiped.asset_key, wiped.receipt.applied) == ("shop/orders", True)
    assert get_asset(workspace, "orders").latest is None
    after = list_outputs(workspace, "orders", ALL).items
    assert {one.verdict for one in after} == {OutputVerdict.WIPED}
    assert [one.materialization_id for one in after] == [one.materialization_id for one in before]
    then = get_asset(workspace, "orders", as_of=wiped.receipt.seq - 1)
    assert then.latest is not None
    assert list_outputs(workspace, "orders", ALL, as_of=wiped.receipt.seq - 1).items == before
    with pytest.raises(Conflict, match="no output to wipe"):
        _ = wipe_asset(workspace, "orders")


def test_the_ledger_knows_who_wiped(workspace: Workspace) -> None:
    seq = wipe_asset(workspace, "report").receipt.seq
    rows = workspace.read(lambda snapshot: snapshot.rows("ledger_index"))
    mine = [row for row in rows if isinstance(row, LedgerIndexRow) and row.seq == seq]
    assert "user:ada@laptop" in {row.actor for row in mine}


def test_freshness_is_judged_at_the_moment_that_is_asked_for(workspace: Workspace) -> None:
    now = get_asset(workspace, "report").freshness
    assert now is not None
    assert (now.state, now.next_change is None) == (FreshnessState.PASS, False)
    later = ManualClock(workspace.now() + timedelta(hours=5))
    world = World(workspace.store, later, SeededEntropy())
    late = Workspace(workspace.address, world, AnyChannel(workspace.address, world))
    overdue = get_asset(late, "report").freshness
    assert overdue is not None
    assert overdue.next_change is None, "the window ended, so PASS is no longer what it would be"
    entry = late.read(lambda snapshot: snapshot.applied_seq)
    assert get_asset(late, "report", as_of=entry).freshness == now
    assert get_asset(workspace, "orders").freshness is None


def test_changes_of_freshness_are_listed(workspace: Workspace) -> None:
    (change,) = list_freshness_changes(workspace, "report", ALL).items
    assert (change.previous, change.state) == (FreshnessState.UNKNOWN, FreshnessState.PASS)
    none = list_freshness_changes(workspace, "orders", ALL)
    assert (none.policy, none.items) == ("", [])


def test_before_anything_happened_there_is_no_asset(workspace: Workspace) -> None:
    with pytest.raises(NotFound):
        _ = get_asset(workspace, "orders", as_of=datetime(2000, 1, 1, tzinfo=UTC))
