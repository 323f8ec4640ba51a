"""Sensors that watch runs and several assets."""

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
    """The number of orders."""
    return 2


@asset
def customers() -> int:
    """The number of customers."""
    return 1


@asset
def report() -> str:
    """A report."""
    return "2 of 1"


@run_failure_sensor(minimum_interval_seconds=5)
def report_failure(context):
    """Print each failed run once."""
    print(f"{context.run} failed: {context.failure_event}")


@multi_asset_sensor(monitored_assets=["orders", "customers"], target="report")
def both_updated(context):
    """Run the report once both assets were updated."""
    records = context.latest_materialization_records_by_key()
    if not all(records.values()):
        return SkipReason("waiting for both")
    context.advance_all_cursors()
    return RunRequest()


if __name__ == "__main__":
    report_failure(build_run_status_sensor_context(run="run_1", event="report: out of paper"))
