"""Settings of the engine, read once and never changed.

Durations that decide how events fold are not here: they belong to the fold and its version.
"""

import re
from collections.abc import Mapping
from datetime import timedelta

import msgspec

from servo.errors import Invalid


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How a leader behaves. The defaults suit both a local folder and a bucket."""

    max_batches_per_entry: int = 256
    max_entry_bytes: int = 1024 * 1024
    publish_every: timedelta = timedelta(milliseconds=250)
    sweep_every: timedelta = timedelta(seconds=1)
    stall_after: timedelta = timedelta(milliseconds=2500)
    inbox_every: timedelta = timedelta(seconds=2)
    show_beats_every: timedelta = timedelta(seconds=30)
    close_after: timedelta = timedelta(hours=1)
    close_rows_per_publish: int = 20_000
    gc_every: timedelta = timedelta(minutes=10)
    gc_min_age: timedelta = timedelta(hours=24)
    outputs_every: timedelta = timedelta(hours=1)
    archive_after: timedelta = timedelta(days=7)
    entries_per_segment: int = 2_000
    keep_all_for: timedelta = timedelta(hours=24)
    keep_hourly_for: timedelta = timedelta(days=30)
    keep_daily_for: timedelta = timedelta(days=365)
    slow_at_l0_files: int = 48
    lease_for: timedelta = timedelta(seconds=30)
    renew_every: timedelta = timedelta(seconds=10)


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of the worker processes of a pool. 0 means no limit."""

    max_executions: int = 0
    max_memory_bytes: int = 0
    isolate: bool = False


WORKER_VARIABLES = {
    "max_executions": "SERVO_WORKER_MAX_EXECUTIONS",
    "max_memory_bytes": "SERVO_WORKER_MAX_MEMORY",
    "isolate": "SERVO_WORKER_ISOLATE",
}
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SWITCH = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False, "": False}


def worker_settings(environ: Mapping[str, str]) -> WorkerSettings:
    """The settings from environment variables."""

    def given(field: str) -> str:
        return environ.get(WORKER_VARIABLES[field], "").strip()

    return WorkerSettings(
        max_executions=_count(given("max_executions")),
        max_memory_bytes=_bytes(given("max_memory_bytes")),
        isolate=_switch(given("isolate")),
    )


def _count(text: str) -> int:
    if text and not text.isdecimal():
        raise _wrong("max_executions", text, "a whole number, 0 for no limit")
    return int(text or 0)


def _bytes(text: str) -> int:
    found = re.fullmatch(r"(\d+)\s*([KMGT]?)(?:i?B)?", text or "0", re.IGNORECASE)
    if found is None:
        raise _wrong("max_memory_bytes", text, "bytes, or a size such as 800M or 2G")
    return int(found[1]) * _UNITS[found[2].upper()]


def _switch(text: str) -> bool:
    if text.lower() not in _SWITCH:
        raise _wrong("isolate", text, "1 or 0")
    return _SWITCH[text.lower()]


def _wrong(field: str, text: str, remedy: str) -> Invalid:
    return Invalid(f"{WORKER_VARIABLES[field]} is {text!r}", remedy=f"use {remedy}")
