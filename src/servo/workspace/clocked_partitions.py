"""Definitions of partitions by time that know what time it is when somebody asks them."""

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
