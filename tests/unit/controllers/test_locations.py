"""Triggers and backfills of a code location are for whoever has its code."""

from datetime import timedelta

from servo.controllers import backfills, sensors
from servo.controllers.schedules import Timetable
from servo.core.declared import KIND_LABEL, LOCATION_LABEL
from servo.core.events.quotas import QuotaSet
from servo.core.events.schedules import ScheduleUpserted
from servo.core.events.sensors import SensorUpserted
from servo.core.locations import HasLocation, any_location, just, location_of, one_of
from servo.testing.backfills import backfill_created
from servo.testing.builders import Story

NAMES = ("a.py", "b.py", "")
HOUR = timedelta(hours=1)


def labels(location: str) -> dict[str, str]:
    return {LOCATION_LABEL: location} if location else {}


def having(has: HasLocation) -> list[str]:
    return [name for name in NAMES if has(name)]


def test_what_names_no_location_is_for_anybody() -> None:
    assert having(any_location) == ["a.py", "b.py", ""]
    assert having(one_of(("a.py", "c.py"))) == ["a.py", ""]
    assert having(just("a.py")) == ["a.py"]
    assert [location_of(labels(name)) for name in NAMES] == list(NAMES)


def test_only_schedules_whose_code_is_at_hand_are_due() -> None:
    story = Story()
    for name in NAMES:
        event = ScheduleUpserted(
            schedule_id=f"of_{name[:1]}", cron_expressions=("* * * * *",), labels=labels(name)
        )
        assert story.tell(event).applied

    def due(has: HasLocation) -> list[str]:
        timetable = Timetable(has)
        assert timetable.look(story.state) == []
        return timetable.due(story.state.ts + HOUR)

    assert due(any_location) == ["of_", "of_a", "of_b"]
    assert due(one_of(("a.py",))) == ["of_", "of_a"]
    assert due(just("b.py")) == ["of_b"]
    nobody = Timetable(just("c.py"))
    assert nobody.look(story.state) == []
    assert nobody.next_due() is None, "nobody looks again and again at what is not theirs"


def test_only_sensors_whose_code_is_at_hand_are_due() -> None:
    story = Story()
    for name in NAMES:
        held = {**labels(name), KIND_LABEL: "poll"}
        assert story.tell(SensorUpserted(sensor_id=f"of_{name[:1]}", labels=held)).applied
    at = story.state.ts + HOUR
    assert sensors.due(story.state, at) == ["of_", "of_a", "of_b"]
    assert sensors.due(story.state, at, one_of(("a.py",))) == ["of_", "of_a"]
    assert sensors.next_due(story.state, just("a.py")) is not None
    assert sensors.next_due(story.state, just("c.py")) is None


def test_a_backfill_whose_code_is_not_at_hand_takes_no_slot() -> None:
    story = Story()
    _ = story.tell(QuotaSet(max_backfill_concurrency=1))
    for name in NAMES:
        event = backfill_created("p", name=f"bf_{name[:1]}", location=name)
        assert story.tell(event).applied

    def first(has: HasLocation) -> list[str]:
        return [found.backfill.backfill_id for found in backfills.reconcile(story.state, has=has)]

    assert first(any_location) == ["bf_a"]
    assert first(just("b.py")) == ["bf_b"]
    assert first(just("c.py")) == []
