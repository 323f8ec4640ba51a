"""Five ways for an asset not to succeed, and what is recorded of each."""

from servo import (
    AssetExecutionContext,
    Failure,
    RetryPolicy,
    RetryRequested,
    Skip,
    asset,
    materialize,
)


@asset(retry_policy=RetryPolicy(max_retries=2, delay=0.05, retry_on=[ConnectionError]))
def flaky(context: AssetExecutionContext) -> int:
    """Succeeds the second time."""
    if context.retry_number == 0:
        raise ConnectionError("not there yet")
    return 1


@asset
def not_ready(context: AssetExecutionContext) -> int:
    """Asks for another try itself, and says when."""
    if context.retry_number == 0:
        raise RetryRequested(max_retries=3, seconds_to_wait=0.05)
    return 2


@asset(retry_policy=RetryPolicy(max_retries=5))
def broken() -> None:
    """Knows that trying again is no use."""
    raise Failure("the file has no header", metadata={"file": "in.csv"}, allow_retries=False)


@asset
def nothing_new() -> Skip:
    """Has nothing to do this time; what depends on it has neither."""
    return Skip("no file since yesterday")


@asset
def after(broken: None) -> None:
    """Never runs: what it is made from failed."""


done = materialize([flaky, not_ready, broken, nothing_new, after], raise_on_error=False)
print(done.success, done.failures)
