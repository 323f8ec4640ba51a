"""What is told of backfills, schedules and sensors: once each, and with where to read more."""

from typing import Any

from servo.cli.rendering.narrator import Narrator
from servo.cli.rendering.trigger_narrator import AGAIN_AFTER
from servo.core.events.backfills import (
    BackfillState,
    BackfillStateChanged,
)
from servo.core.events.schedules import ScheduleTicked, ScheduleUpserted, TickStatus
from servo.core.events.sensors import PollTrigger, SensorEvalStatus, SensorEvaluated, SensorUpserted
from servo.testing.backfills import backfill_created
from servo.testing.builders import Story


class Told:
    """A workspace, and what is told of it."""

    def __init__(self) -> None:
        self.story = Story()
        self.lines: list[str] = []
        self.narrator = Narrator(lambda text: self.lines.append(text.plain))
        self._evals = 0

    def begin(self) -> None:
        _ = self.narrator.begin(self.story.state)

    def new(self, *events: Any) -> list[str]:
        """The lines that are told after this."""
        if events:
            answer = self.story.tell(*events)
            assert answer.applied, answer
        self.lines.clear()
        self.narrator.look(self.story.state)
        self.narrator.tell()
        return list(self.lines)

    def looked(self, error: str = "", sensor: str = "s") -> list[str]:
        self._evals += 1
        status = SensorEvalStatus.FAILED if error else SensorEvalStatus.SKIPPED
        version = self.story.state.sensor_state.rows[sensor].state_version
        return self.new(
            SensorEvaluated(
                sensor_id=sensor,
                eval_id=f"e{self._evals}",
                trigger=PollTrigger(poll_epoch=self._evals),
                expected_state_version=version,
                status=status,
                message=error or "nothing new",
            )
        )

    def ticked(self, error: str = "") -> list[str]:
        self.story.wait(hours=1)
        now = self.story.now
        return self.new(
            ScheduleTicked(
                schedule_id="nightly",
                tick_id=f"nightly:{now.timestamp():.0f}",
                scheduled_for=now,
                definition_version=1,
                status=TickStatus.FAILED if error else TickStatus.SKIPPED,
                message=error,
            )
        )


def test_a_sensor_that_fails_is_told_with_its_error_and_not_again_and_again() -> None:
    told = Told()
    told.begin()
    assert told.new(SensorUpserted(sensor_id="s")) == []
    assert told.looked() == []
    [line] = told.looked("ValueError: no such folder (assets.py:7)\nmore")
    assert line == (
        "sensor s failed: ValueError: no such folder (assets.py:7) (see `servo sensor history s`)"
    )
    assert told.looked("ValueError: no such folder (assets.py:7)\nmore") == []
    assert told.looked() == []
    assert told.looked("OSError: another") == [
        "sensor s failed: OSError: another (see `servo sensor history s`)"
    ]
    told.story.wait(seconds=AGAIN_AFTER.total_seconds() + 1)
    assert len(told.looked("OSError: another")) == 1


def test_a_tick_that_fails_is_told() -> None:
    told = Told()
    told.new(ScheduleUpserted(schedule_id="nightly", cron_expressions=("@hourly",)))
    assert told.ticked() == []
    assert told.ticked("refused: quota: no more runs today") == [
        "schedule nightly failed: refused: quota: no more runs today "
        "(see `servo schedule ticks nightly`)"
    ]


def test_what_failed_before_it_began_is_not_told() -> None:
    told = Told()
    told.new(SensorUpserted(sensor_id="s"))
    told.looked("down")
    again = Told()
    again.story = told.story
    again.begin()
    assert again.new(SensorUpserted(sensor_id="other")) == []


def test_a_backfill_is_told_when_it_begins_is_paused_and_ends() -> None:
    told = Told()
    told.begin()
    made = backfill_created("k=i:1", "k=i:2", "k=i:3", chunk_size=2)
    assert told.new(made) == ["backfill bf started: 3 partitions in 2 runs"]
    assert told.new() == []
    paused = BackfillStateChanged(backfill_id="bf", to_state=BackfillState.PAUSED)
    assert told.new(paused) == ["backfill bf paused: 2 of 2 runs left to start"]
    resumed = BackfillStateChanged(backfill_id="bf", to_state=BackfillState.RUNNING)
    assert told.new(resumed) == ["backfill bf resumed: 2 of 2 runs left to start"]
    cancelled = BackfillStateChanged(backfill_id="bf", to_state=BackfillState.CANCELLED)
    assert told.new(cancelled) == [
        "CANCELLED backfill bf: 0 succeeded of 3 partitions (see `servo backfill show bf`)"
    ]


def test_a_backfill_that_was_over_before_anybody_looked_is_told_whole() -> None:
    told = Told()
    told.begin()
    assert told.new(backfill_created()) == [
        "backfill bf started: 0 partitions in 0 runs",
        "SUCCEEDED backfill bf: 0 succeeded of 0 partitions",
    ]


def test_what_the_triggers_say_again_and_again_is_told_once() -> None:
    told = Told()
    told.begin()
    for _ in range(3):
        told.narrator.hear("conditions of c: it took longer than 300 s")
    told.narrator.hear("conditions of c: gone")
    assert told.lines == [], "whoever says it does not wait for the terminal"
    assert told.new() == ["conditions of c: it took longer than 300 s", "conditions of c: gone"]
