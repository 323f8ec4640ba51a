"""Time-window partitions definitions that know the current time."""

from servo.sdk.partitions.present import set_now
from servo.sdk.partitions.time_partitions import (
    DailyPartitionsDefinition,
    HourlyPartitionsDefinition,
    MonthlyPartitionsDefinition,
    TimeWindowPartitionsDefinition,
    WeeklyPartitionsDefinition,
)
from servo.workspace.composition import system_clock

__all__ = [
    "DailyPartitionsDefinition",
    "HourlyPartitionsDefinition",
    "MonthlyPartitionsDefinition",
    "TimeWindowPartitionsDefinition",
    "WeeklyPartitionsDefinition",
]

set_now(system_clock().now)
