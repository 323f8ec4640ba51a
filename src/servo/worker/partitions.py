"""Definitions of partitions by time that know what time it is when somebody asks them."""

from servo.runtime.system import SystemClock
from servo.sdk.present import set_now
from servo.sdk.time_partitions import (
    DailyPartitionsDefinition,
    HourlyPartitionsDefinition,
    MonthlyPartitionsDefinition,
    TimeWindowPartitionsDefinition,
    WeeklyPartitionsDefinition,
)

__all__ = [
    "DailyPartitionsDefinition",
    "HourlyPartitionsDefinition",
    "MonthlyPartitionsDefinition",
    "TimeWindowPartitionsDefinition",
    "WeeklyPartitionsDefinition",
]

set_now(SystemClock().now)
