"""How partitions stand in a workspace that a leader has published."""

from datetime import timedelta
from typing import Any

import pytest

import servo
from servo.core import bitmaps
from servo.core.events.assets import (
    AssetDefinition,
    AssetReported,
    AssetWiped,
    DefinitionsDeployed,
    DynamicPartitionsChanged,
)
from servo.core.freshness import CronDeadline, MaxAge, policy_text
from servo.errors import NotFound
from servo.projection.partitions.report import PartitionReader, PartitionReport
from servo.projection.read.reader import Reader
from servo.sdk.partitions.definition import PartitionsDefinition
from servo.sdk.partitions.status import StaleReason
from servo.sdk.partitions.text import partitions_text
from servo.storage.memory import MemoryStore
from servo.testing.clock import ManualClock
from servo.testing.leader import HandLeader

REGIONS = servo.StaticPartitionsDefinition(["eu", "us", "as"])
CUSTOMERS = servo.DynamicPartitionsDefinition(name="customers")
HOUR = timedelta(hours=1)


class World:
    """A workspace in which somebody else makes partitions."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.leader = HandLeader(MemoryStore(self.clock), clock=self.clock)
        self._made = 0

    def deploy(self, *assets: AssetDefinition) -> None:
        self.leader.tell(DefinitionsDeployed(deployment_id="d", assets=assets))

    def make(self, asset: str, definition: PartitionsDefinition, *keys: str) -> None:
        for key in keys:
            self._made += 1
            typed = definition.typed_key(key).canonical()
            made = AssetReported(
                asset_key=asset, partition_key=typed, materialization_id=f"m{self._made}"
            )
            self.leader.tell(made)

    def report(self, asset: str) -> PartitionReport:
        self.leader.engine.finish()
        snapshot = Reader(self.leader.ports.store, self.leader.paths).snapshot()
        return PartitionReader(snapshot, self.clock.now()).report(asset)

    def stale(self, asset: str) -> dict[str, list[str]]:
        """The keys that are stale, by the reason."""
        report = self.report(asset)
        return {
            reason.value: list(report.space.keys_of(bits))
            for reason, bits in report.stale.items()
            if bits
        }


def defined(name: str, definition: PartitionsDefinition | None, **told: Any) -> AssetDefinition:
    return AssetDefinition(asset_key=name, partitions=partitions_text(definition), **told)


@pytest.mark.parametrize(
    ("policy", "first", "later"),
    [
        (MaxAge(fail_ms=3_600_000), [], ["eu"]),
        # Every hour it must have been made not more than ten minutes earlier.
        (CronDeadline(deadline_cron="0 * * * *", lower_bound_ms=600_000), [], ["eu"]),
    ],
)
def test_a_partition_is_stale_by_either_kind_of_freshness_policy(
    policy: MaxAge | CronDeadline, first: list[str], later: list[str]
) -> None:
    world = World()
    world.deploy(defined("a", REGIONS, freshness_policy=policy_text(policy)))
    world.make("a", REGIONS, "eu")
    told = StaleReason.FRESHNESS_POLICY.value
    assert world.stale("a").get(told, []) == first
    world.clock.advance(2 * HOUR)
    world.make("a", REGIONS, "us")
    assert world.stale("a").get(told, []) == later


def test_what_was_made_before_what_it_is_made_from_is_stale() -> None:
    world = World()
    world.deploy(defined("raw", REGIONS), defined("clean", REGIONS, upstream=("raw",)))
    world.make("raw", REGIONS, "eu", "us")
    world.make("clean", REGIONS, "eu", "us")
    world.make("raw", REGIONS, "us")
    assert world.stale("clean") == {
        "NEVER_MATERIALIZED": ["as"],
        "UPSTREAM_CHANGED": ["us"],
    }


def test_a_wiped_asset_has_no_partitions_that_were_made() -> None:
    world = World()
    world.deploy(defined("a", REGIONS))
    world.make("a", REGIONS, "eu", "us")
    world.leader.tell(AssetWiped(asset_key="a"))
    world.make("a", REGIONS, "as")
    assert world.report("a").status.made == bitmaps.bitmap([2])


def test_what_was_made_under_another_definition_is_told_apart() -> None:
    world = World()
    days = servo.DailyPartitionsDefinition("2024-01-01", end_date="2024-01-04")
    world.deploy(defined("a", days))
    world.make("a", days, "2024-01-01", "2024-01-02")
    world.deploy(defined("a", REGIONS))
    world.make("a", REGIONS, "us")
    status = world.report("a").status
    assert status.outside == ("partition=d:2024-01-01", "partition=d:2024-01-02")
    assert (status.count, status.made) == (3, bitmaps.bitmap([1]))


def test_dynamic_partitions_are_numbered_as_they_were_added() -> None:
    world = World()
    world.deploy(defined("a", CUSTOMERS))
    for keys in (("zoe", "ann"), ("bob",)):
        world.leader.tell(DynamicPartitionsChanged(set_name="customers", added=keys))
    world.make("a", CUSTOMERS, "bob", "gone")
    report = world.report("a")
    assert list(report.space.keys_of(report.status.made)) == ["bob"]
    assert report.space.key(2) == "bob"
    assert report.status.outside == (CUSTOMERS.typed_key("gone").canonical(),)


def test_an_asset_without_partitions_is_told_as_that() -> None:
    world = World()
    world.deploy(defined("a", None))
    with pytest.raises(NotFound, match="a has no partitions"):
        _ = world.report("a")
