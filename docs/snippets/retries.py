"""An asset with up to three retries, but none for a KeyError."""

from servo import Backoff, RetryPolicy, asset

POLICY = RetryPolicy(max_retries=3, delay=10, backoff=Backoff.EXPONENTIAL, no_retry_on=[KeyError])


@asset(retry_policy=POLICY)
def orders() -> list[int]:
    """Calls a service that is not always available."""
    return [1, 2, 3]


if __name__ == "__main__":
    print(orders(), orders.behaviour.retry_policy)
