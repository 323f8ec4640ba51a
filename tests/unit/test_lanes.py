"""Which lane a run is in."""

from typing import Any

import pytest

from servo.core.events.runs import (
    AutomationSource,
    BackfillSource,
    ManualSource,
    RerunSource,
    ScheduleSource,
    SensorSource,
    SourceRef,
)
from servo.core.lanes import (
    AUTOMATION,
    BACKFILLS,
    DEFAULT_WEIGHTS,
    INTERACTIVE,
    LANE_TAG,
    SCHEDULES,
    default_weight,
    lane_of,
)
from servo.core.plan import normalize
from servo.errors import Invalid
from servo.ledger.paths import Paths
from servo.storage.memory import MemoryStore
from servo.testing.builders import specs
from servo.testing.clock import ManualClock
from servo.workspace.run_requests import WantedRun, run_events

SOURCES: list[tuple[SourceRef, str]] = [
    (ManualSource(user_id="ada"), INTERACTIVE),
    (RerunSource(run_id="run_1"), INTERACTIVE),
    (ScheduleSource(schedule_id="nightly", tick_id="t"), SCHEDULES),
    (SensorSource(sensor_id="files", eval_id="e"), SCHEDULES),
    (AutomationSource(evaluation_id="e"), AUTOMATION),
    (BackfillSource(backfill_id="b", chunk_index=0), BACKFILLS),
]


@pytest.mark.parametrize(("source", "lane"), SOURCES, ids=lambda value: type(value).__name__)
def test_a_lane_follows_from_what_started_the_run(source: SourceRef, lane: str) -> None:
    assert lane_of(source, {}) == lane
    assert lane_of(source, {LANE_TAG: "night"}) == "night"


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * 2000])
def test_a_lane_without_a_usable_name_is_refused(name: str) -> None:
    with pytest.raises(Invalid, match="invalid lane"):
        lane_of(ManualSource(), {LANE_TAG: name})


def test_every_lane_of_a_source_has_a_weight_and_interactive_the_largest() -> None:
    assert {lane for _, lane in SOURCES} == set(DEFAULT_WEIGHTS)
    assert max(DEFAULT_WEIGHTS, key=default_weight) == INTERACTIVE
    assert default_weight("mine") == 100


def test_whoever_asks_for_a_run_puts_it_in_its_lane() -> None:
    plan = normalize(specs({"a": ()}))
    store, paths = MemoryStore(ManualClock()), Paths("acme", "prod")

    def asked(**fields: Any) -> str:
        values: dict[str, Any] = {"plan": plan, "run_key": "k", "tags": {}, **fields}
        wanted = WantedRun(**values)
        return run_events(store, paths, b"s" * 16, wanted)[0].lane

    assert asked() == INTERACTIVE
    assert asked(again="run_1") == INTERACTIVE
    assert asked(source=BackfillSource(backfill_id="b", chunk_index=1)) == BACKFILLS
    assert asked(tags={LANE_TAG: "night"}) == "night"
