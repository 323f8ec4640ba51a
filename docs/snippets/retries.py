"""An asset that is tried up to four times, but not for what trying again cannot mend."""

from servo import Backoff, RetryPolicy, asset

POLICY = RetryPolicy(max_retries=3, delay=10, backoff=Backoff.EXPONENTIAL, no_retry_on=[KeyError])


@asset(retry_policy=POLICY)
def orders() -> list[int]:
    """Comes from a service that is not always there."""
    return [1, 2, 3]


print(orders(), orders.behaviour.retry_policy)
