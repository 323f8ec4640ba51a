"""A polling sensor, a push sensor and an asset sensor."""

from pathlib import Path

from servo import (
    DefaultSensorStatus,
    RunRequest,
    SensorResult,
    SkipReason,
    asset,
    asset_sensor,
    build_push_sensor_context,
    build_sensor_context,
    push_sensor,
    sensor,
)

INBOX = Path("inbox")


@asset
def orders() -> list[int]:
    """All orders."""
    return [350, 1200]


@asset
def report(orders: list[int]) -> int:
    """The sum."""
    return sum(orders)


@sensor(target="orders", minimum_interval_seconds=10, default_status=DefaultSensorStatus.RUNNING)
def new_files(context):
    """Request a run for every new file."""
    names = sorted(path.name for path in INBOX.glob("*.csv"))
    new = [name for name in names if name > (context.cursor or "")]
    if not new:
        return SkipReason("no new files")
    return SensorResult(run_requests=[RunRequest(run_key=name) for name in new], cursor=new[-1])


@push_sensor(target="orders")
def order_placed(context):
    """Request a run for every message."""
    return RunRequest(run_key=str(context.payload["order"]), tags={"shop": "corner"})


@asset_sensor(asset_key="orders", target="report")
def after_orders(context, event):
    """Run the report after the orders."""
    return RunRequest(run_key=event.run_id, tags={"because_of": context.sensor_name})


if __name__ == "__main__":
    INBOX.mkdir(exist_ok=True)
    (INBOX / "monday.csv").touch()
    print(new_files.evaluate(build_sensor_context()).cursor)
    print(new_files(build_sensor_context(cursor="monday.csv")).skip_message)
    print(order_placed(build_push_sensor_context({"order": 17})).run_key)
