"""Sensors of what the workspace itself does: runs that fail, and several assets."""

from servo import (
    RunRequest,
    SkipReason,
    asset,
    build_run_status_sensor_context,
    multi_asset_sensor,
    run_failure_sensor,
)


@asset
def orders() -> int:
    """What was ordered."""
    return 2


@asset
def customers() -> int:
    """Who ordered it."""
    return 1


@asset
def report() -> str:
    """What it comes to."""
    return "2 of 1"


@run_failure_sensor(minimum_interval_seconds=5)
def tell_somebody(context):
    """Say what failed, once for every run."""
    print(f"{context.run} failed: {context.failure_event}")


@multi_asset_sensor(monitored_assets=["orders", "customers"], target="report")
def both_made(context):
    """The report, once both were made anew."""
    made = context.latest_materialization_records_by_key()
    if not all(made.values()):
        return SkipReason("waiting for both")
    context.advance_all_cursors()
    return RunRequest()


tell_somebody(build_run_status_sensor_context(run="run_1", event="report: out of paper"))
