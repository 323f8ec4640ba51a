"""Assets with freshness policies."""

from datetime import timedelta

from servo import (
    FreshnessPolicy,
    ServoInstance,
    asset,
    build_last_update_freshness_checks,
    materialize,
)


@asset(
    freshness_policy=FreshnessPolicy.time_window(
        fail_window=timedelta(hours=24), warn_window=timedelta(hours=12)
    )
)
def orders() -> list[int]:
    return [3, 5]


@asset(
    freshness_policy=FreshnessPolicy.cron(
        deadline_cron="0 9 * * MON-FRI",
        lower_bound_delta=timedelta(hours=2),
        timezone="Europe/Berlin",
    )
)
def report(orders: list[int]) -> int:
    return sum(orders)


checks = build_last_update_freshness_checks([orders], lower_bound_delta=timedelta(hours=24))


if __name__ == "__main__":
    run = materialize([orders, report, *checks], instance=ServoInstance.ephemeral())
    print(run.success)
