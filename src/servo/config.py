"""Settings of the engine, read once and never changed.

Durations that decide how events fold are not here: they belong to the fold and its version.
"""

from datetime import timedelta

import msgspec


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How a leader behaves. The defaults are right for a folder and for a bucket."""

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
