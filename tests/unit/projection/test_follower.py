"""A follower knows what its leader knows, and tells what changed, without writing anything."""

from datetime import timedelta

from servo.config import Settings
from servo.core.events.assets import AssetObserved, DynamicPartitionsChanged
from servo.core.events.runs import PlanCreated, RunRequested
from servo.core.state.rows.assets import DynamicPartitionRow
from servo.core.state.states import RunState
from servo.projection.read.follower import Follower
from servo.storage.memory import MemoryStore
from servo.testing.builders import content, specs
from servo.testing.clock import ManualClock
from servo.testing.leader import HandLeader

RARELY = Settings(publish_every=timedelta(hours=1))


def led(settings: Settings = RARELY) -> tuple[HandLeader, MemoryStore]:
    clock = ManualClock()
    store = MemoryStore(clock)
    leader = HandLeader(store, settings=settings, clock=clock)
    leader.engine.step()
    return leader, store


def ask(leader: HandLeader, number: int) -> None:
    run = f"run_{number}"
    _ = leader.tell(
        RunRequested(run_id=run, run_key=run, request_fingerprint="f"),
        PlanCreated(run_id=run, fingerprint="f", tasks=specs({"a": []})),
    )


def test_what_the_leader_commits_is_told_before_it_is_published() -> None:
    leader, store = led()
    follower = Follower(store, leader.paths)
    assert follower.catch_up() is not None
    ask(leader, 1)
    changed = follower.catch_up()
    assert changed is not None
    assert set(changed["runs"]) == {"run_1"}
    assert follower.state.runs.rows["run_1"].state is RunState.RUNNING
    assert follower.seq == leader.engine.state.seq
    assert content(follower.state)["tasks"] == content(leader.engine.state)["tasks"]


def test_what_was_told_is_not_told_again() -> None:
    leader, store = led()
    follower = Follower(store, leader.paths)
    ask(leader, 1)
    assert follower.catch_up()
    assert follower.catch_up() == {}
    _ = leader.tell(AssetObserved(asset_key="ns/other"))
    changed = follower.catch_up()
    assert changed is not None
    assert set(changed["assets"]) == {"ns/other"}
    assert "runs" not in changed


def test_it_writes_nothing() -> None:
    leader, store = led()
    ask(leader, 1)
    before = [meta.key for meta in store.list_after("", limit=1000)]
    follower = Follower(store, leader.paths)
    _ = follower.catch_up()
    assert [meta.key for meta in store.list_after("", limit=1000)] == before


def test_it_begins_anew_when_it_holds_much_that_is_published() -> None:
    leader, store = led(Settings())
    follower = Follower(store, leader.paths, most_history=10)
    for number in range(10):
        ask(leader, number)
    assert follower.catch_up() is not None
    leader.run_for(timedelta(seconds=3))
    assert follower.catch_up() is None
    assert follower.catch_up() is not None
    assert follower.seq == leader.engine.state.seq
    assert set(follower.state.runs.rows) == {f"run_{n}" for n in range(10)}


def test_what_was_dropped_does_not_come_back_from_what_is_published() -> None:
    leader, store = led(Settings(publish_every=timedelta(seconds=1)))
    _ = leader.tell(DynamicPartitionsChanged(set_name="s", added=("a",)))
    leader.run_for(timedelta(seconds=5))
    follower = Follower(store, leader.paths)
    assert follower.snapshot.table("dynamic_partitions").num_rows == 1
    _ = leader.tell(DynamicPartitionsChanged(set_name="s", removed=("a",)))
    assert follower.catch_up() is not None
    _ = leader.tell(DynamicPartitionsChanged(set_name="s", added=("a",)))
    changed = follower.catch_up()
    assert changed is not None
    rows = changed["dynamic_partitions"].values()
    assert [row.number for row in rows if isinstance(row, DynamicPartitionRow)] == [2]
