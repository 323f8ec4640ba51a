"""What is declared is known by its place."""

from servo.core.declared import LOCATION_LABEL, Declared
from servo.core.events.schedules import ScheduleUpserted
from servo.core.events.sensors import SensorUpserted


def test_schedules_and_sensors_carry_the_name_of_their_code() -> None:
    declared = Declared(
        schedules=(ScheduleUpserted(schedule_id="s", cron_expressions=("@daily",)),),
        sensors=(SensorUpserted(sensor_id="n", labels={"team": "core"}),),
    )
    found = declared.located("shop.py")
    assert found.schedules[0].labels == {LOCATION_LABEL: "shop.py"}
    assert found.sensors[0].labels == {"team": "core", LOCATION_LABEL: "shop.py"}
    assert found.assets == ()
