"""An asset that keeps its last three versions, and those of the last month."""

from datetime import timedelta

from servo import Retention, asset


@asset(retention=Retention(versions=3, age=timedelta(days=30)))
def orders() -> list[int]:
    """Large, and materialized every night."""
    return [1, 2, 3]


if __name__ == "__main__":
    print(orders(), orders.specs[0].retention)
