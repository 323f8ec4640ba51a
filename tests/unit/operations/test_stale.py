"""What is stale in a workspace, why, and since when."""

from datetime import datetime, timedelta
from typing import Any

import pytest

import servo
from servo.core.events.assets import AssetDefinition, AssetReported, DefinitionsDeployed
from servo.core.freshness import MaxAge, policy_text
from servo.operations.partitions import PartitionFilter, PartitionQuery, list_partitions
from servo.operations.stale import StaleItem, StaleQuery, list_stale
from servo.ports.world import World as LeaderWorld
from servo.sdk.partitions.status import StaleReason
from servo.sdk.partitions.text import partitions_text
from servo.storage.memory import MemoryStore
from servo.testing.clock import ManualClock, SeededEntropy
from servo.testing.leader import HandLeader
from servo.workspace.address import Address
from servo.workspace.channels import AnyChannel
from servo.workspace.workspace import Workspace

LETTERS = servo.StaticPartitionsDefinition(list("abcdef"))
HOUR = timedelta(hours=1)
ALL = StaleQuery(limit=100)
NEVER = StaleReason.NEVER_MATERIALIZED


class World:
    """A workspace on memory with a clock of its own, in which somebody else makes assets."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.leader = HandLeader(MemoryStore(self.clock), clock=self.clock)
        self._made = 0

    def deploy(self, *assets: AssetDefinition) -> datetime:
        self.leader.tell(DefinitionsDeployed(deployment_id="d", assets=assets))
        return self.leader.engine.state.ts

    def make(self, asset: str, *keys: str, version: str = "") -> datetime:
        for key in keys or (None,):
            self._made += 1
            typed = None if key is None else LETTERS.typed_key(key).canonical()
            made = AssetReported(
                asset_key=asset,
                partition_key=typed,
                materialization_id=f"m{self._made}",
                code_version=version,
            )
            self.leader.tell(made)
        return self.leader.engine.state.ts

    def wait(self, by: timedelta = HOUR) -> None:
        self.clock.advance(by)

    @property
    def workspace(self) -> Workspace:
        self.leader.engine.finish()
        paths = self.leader.paths
        address = Address("memory://stale", paths.tenant, paths.workspace)
        world = LeaderWorld(self.leader.ports.store, self.clock, SeededEntropy())
        return Workspace(address, world, AnyChannel(address, world))

    def stale(self, query: StaleQuery = ALL) -> list[StaleItem]:
        return list_stale(self.workspace, query).items


def divided(name: str, *upstream: str, **more: Any) -> AssetDefinition:
    text = partitions_text(LETTERS)
    return AssetDefinition(asset_key=name, upstream=upstream, partitions=text, **more)


def whole(name: str, *upstream: str, **more: Any) -> AssetDefinition:
    return AssetDefinition(asset_key=name, upstream=upstream, **more)


def item(
    asset: str, reason: StaleReason, since: datetime | None, first: str = "", last: str = ""
) -> StaleItem:
    if not first:
        return StaleItem(asset_key=asset, reason=reason, since=since)
    count = 1 + ord(last or first) - ord(first)
    last = last or first
    return StaleItem(
        asset_key=asset, first=first, last=last, count=count, reason=reason, since=since
    )


def test_what_was_never_made_is_stale_since_nobody_knows_when() -> None:
    world = World()
    world.deploy(divided("letter"), whole("one"))
    world.make("letter", "b")
    assert world.stale() == [
        item("letter", NEVER, None, "a"),
        item("letter", NEVER, None, "c", "f"),
        item("one", NEVER, None),
    ]


def test_what_is_fresh_is_not_listed_nor_what_nobody_defines_any_more() -> None:
    world = World()
    world.deploy(divided("letter"), whole("one"))
    world.make("letter", *"abcdef")
    world.make("one")
    world.make("unknown")
    assert world.stale() == []


def test_other_code_makes_stale_since_it_was_deployed() -> None:
    world = World()
    before = world.deploy(divided("letter", code_version="1"), whole("one", code_version="1"))
    world.make("letter", *"abcdef", version="1")
    world.make("one", version="1")
    world.wait()
    now = world.deploy(divided("letter", code_version="2"), whole("one", code_version="2"))
    assert now > before
    world.make("letter", "a", version="2")
    code = StaleReason.CODE_CHANGED
    assert world.stale() == [item("letter", code, now, "b", "f"), item("one", code, now)]
    world.wait()
    world.deploy(divided("letter", code_version="2", group="other"), whole("one", code_version="2"))
    assert {one.since for one in world.stale()} == {now}  # the code is the same


def test_what_is_made_from_something_newer_is_stale_since_that_was_made() -> None:
    world = World()
    world.deploy(
        divided("a"),
        divided("b", "a", "other"),
        whole("c", "a"),
        whole("d", "other"),
        whole("other"),
    )
    for name in ("a", "b"):
        world.make(name, *"abcdef")
    for name in ("other", "c", "d"):
        world.make(name)
    world.make("b", *"abcdef")
    world.wait()
    first = world.make("a", "c")
    world.wait()
    second = world.make("a", "d")
    upstream = StaleReason.UPSTREAM_CHANGED
    assert world.stale() == [item("b", upstream, first, "c", "d"), item("c", upstream, second)]
    world.wait()
    third = world.make("other")
    found = world.stale()
    assert found[0] == item("b", upstream, first, "a", "f")
    assert found[2] == item("d", upstream, third)


def test_what_is_too_old_is_stale_since_its_policy_fails() -> None:
    policy = policy_text(MaxAge(fail_ms=3_600_000))
    world = World()
    world.deploy(
        divided("letter", freshness_policy=policy),
        whole("one", freshness_policy=policy),
    )
    made = world.make("letter", *"abcdef")
    alone = world.make("one")
    world.wait(HOUR / 2)
    world.make("letter", "f")
    assert world.stale() == []
    world.wait(HOUR * 3 / 4)
    letters, one = world.stale()
    assert letters.reason is StaleReason.FRESHNESS_POLICY
    assert (letters.first, letters.last) == ("a", "e")
    assert letters.since is not None
    assert abs(letters.since - made - HOUR) < timedelta(seconds=1)
    assert one.since is not None
    assert abs(one.since - alone - HOUR) < timedelta(seconds=1)


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 7])
def test_pages_together_are_everything(limit: int) -> None:
    world = World()
    world.deploy(divided("x"), divided("y"), whole("z"), divided("full"))
    world.make("full", *"abcdef")
    world.make("x", "b", "d", "f")
    world.make("y", *"abcdef")
    found: list[StaleItem] = []
    query = StaleQuery(limit=limit)
    while True:
        page = list_stale(world.workspace, query)
        assert len(page.items) <= limit
        found += page.items
        if page.next_asset is None:
            break
        query = StaleQuery(limit=limit, asset=page.next_asset, after=page.next_after)
    assert found == world.stale()
    assert [one.first for one in found] == ["a", "c", "e", None]


def test_the_largest_page_knows_whether_there_is_more() -> None:
    world = World()
    world.deploy(divided("x"), whole("z"))
    assert list_stale(world.workspace, StaleQuery(limit=500)).items == world.stale()


def test_the_partitions_of_an_asset_are_listed_with_the_same_times() -> None:
    world = World()
    world.deploy(divided("a"), divided("b", "a"))
    for name in ("a", "b"):
        world.make(name, *"abcdef")
    since = world.make("a", "c")
    query = PartitionQuery(limit=9, status=PartitionFilter.STALE)
    (one,) = list_partitions(world.workspace, "b", query).items
    assert (one.first, one.stale, one.stale_since) == ("c", StaleReason.UPSTREAM_CHANGED, since)
    fresh = list_partitions(world.workspace, "a", PartitionQuery(limit=9)).items
    assert [row.stale_since for row in fresh] == [None]
