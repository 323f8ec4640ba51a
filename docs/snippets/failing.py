"""Assets that fail, retry and skip in different ways."""

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
    """Requests a retry itself, and says when."""
    if context.retry_number == 0:
        raise RetryRequested(max_retries=3, seconds_to_wait=0.05)
    return 2


@asset(retry_policy=RetryPolicy(max_retries=5))
def broken() -> None:
    """Knows that a retry would not help."""
    raise Failure("the file has no header", metadata={"file": "in.csv"}, allow_retries=False)


@asset
def nothing_new() -> Skip:
    """Has nothing to do; everything downstream is skipped."""
    return Skip("no file since yesterday")


@asset
def after(broken: None) -> None:
    """Never runs, because its input failed."""


if __name__ == "__main__":
    done = materialize([flaky, not_ready, broken, nothing_new, after], raise_on_error=False)
    print(done.success, done.failures)
