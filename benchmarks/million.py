"""A million partitions: counted, looked up, planned, and their status computed."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from benchmarks.measure import Result, Work, in_turn
from benchmarks.scratch import Scratch
from servo.core.manifest import Tier
from servo.core.state.rows.assets import AssetRow
from servo.core.state.rows.execution import TaskRow
from servo.core.state.tables import TABLES
from servo.planning.assets import plan_assets
from servo.projection.files.arrow import ArrowTable, pa
from servo.projection.files.schema import schema
from servo.projection.partitions.report import PartitionReader
from servo.sdk.assets.asset import asset
from servo.sdk.assets.specs import AssetDep
from servo.sdk.definitions.project import Project
from servo.sdk.partitions.definition import PartitionKeyRange
from servo.sdk.partitions.text import partitions_text
from servo.sdk.partitions.time_partitions import HOUR, TimeWindowPartitionsDefinition

START = datetime(2024, 1, 1, tzinfo=UTC)
MILLION = 1_000_000
SLICE = 1_000


def million_partitions(scratch: Scratch, *, quick: bool) -> list[Result]:
    """Partitions of a minute each: what people ask of them, in milliseconds."""
    del scratch
    count = MILLION // 100 if quick else MILLION
    minutes = TimeWindowPartitionsDefinition(START, HOUR, cron_schedule="* * * * *")
    now = START + timedelta(minutes=count)
    keys = PartitionKeyRange(minutes.key_at(now - timedelta(minutes=SLICE)), _last(minutes, now))
    _ = _look(minutes, now, keys)  # what is found once is found
    project = _project(minutes)
    snapshot: Any = _Snapshot(minutes, count)  # as much of one as is asked of it
    return [
        _timed("partitions.look", lambda: _look(minutes, now, keys), most=20),
        _timed(
            "partitions.plan_slice",
            lambda: plan_assets(project, project.order, partition_keys=[keys], now=now),
            most=60,
        ),
        _timed(
            "partitions.status",
            lambda: PartitionReader(snapshot, now).report("clean"),
            most=150,
        ),
    ]


def _last(minutes: TimeWindowPartitionsDefinition, now: datetime) -> str:
    return minutes.key_at(now - timedelta(minutes=1))


def _look(
    minutes: TimeWindowPartitionsDefinition, now: datetime, keys: PartitionKeyRange
) -> tuple[int, bool, int]:
    """Count, look for one, and take a range."""
    found = minutes.get_partition_keys_in_range(keys, now)
    return minutes.get_num_partitions(now), minutes.has_partition_key(keys.start, now), len(found)


def _project(minutes: TimeWindowPartitionsDefinition) -> Project:
    @asset(partitions_def=minutes)
    def raw() -> None: ...

    @asset(partitions_def=minutes, deps=[AssetDep("raw")])
    def clean() -> None: ...

    return Project([raw, clean])


def _timed(name: str, work: Work, *, most: float) -> Result:
    """How long something takes, by the processor's time: a share of a busy machine says nothing."""
    (samples,) = in_turn([work], 3)
    return Result(
        name=name,
        value=samples.wall * 1e3,
        unit="ms",
        target=f"<= {most:.0f} ms of processor",
        met=samples.cpu * 1e3 <= most,
        cpu=samples.cpu * 1e3,
        best=samples.best * 1e3,
    )


class _Snapshot:
    """Two assets of which every partition was made, the first one's again every tenth time."""

    def __init__(self, minutes: TimeWindowPartitionsDefinition, count: int) -> None:
        self._minutes = partitions_text(minutes)
        starts = (START + timedelta(minutes=number) for number in range(count))
        keys = [f"partition=t:{at:%Y-%m-%dT%H:%M:%S}.000000Z" for at in starts]
        again = [count + number if number % 10 == 0 else 1 for number in range(count)]
        made = {"clean": [2] * count, "raw": again}
        self._rows = {
            name: pa.table(
                {
                    "partition_key": keys,
                    "last_materialization_seq": seqs,
                    "last_materialization_code_version": ["1"] * count,
                    "last_attempt_outcome": ["SUCCEEDED"] * count,
                }
            )
            for name, seqs in made.items()
        }

    def rows(self, name: str) -> list[Any]:
        del name
        raw = AssetRow(asset_key="raw", code_version="1", partitions=self._minutes, row_version=1)
        return [raw, replace(raw, asset_key="clean", upstream=("raw",))]

    def partitions(self, asset_key: str, *, only: Sequence[str]) -> ArrowTable:
        return self._rows[asset_key].select(list(only))

    def table(
        self, name: str, *, only: Sequence[str], tiers: Sequence[Tier] = tuple(Tier)
    ) -> ArrowTable:
        del tiers
        return schema(TaskRow, TABLES[name].key).empty_table().select(list(only))
