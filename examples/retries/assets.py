"""An asset that succeeds after retries, one that must not be retried, and their dependants.

servo materialize        # FAILED: `hopeless` fails, and `after_hopeless` is skipped
servo logs
servo run retry RUN      # after fixing `hopeless`
"""

from servo import AssetExecutionContext, Failure, RetryPolicy, asset


@asset(retry_policy=RetryPolicy(max_retries=3, delay=0.1))
def flaky(context: AssetExecutionContext) -> int:
    """Succeeds the third time."""
    if context.retry_number < 2:
        raise ConnectionError(f"not there yet, attempt {context.retry_number + 1}")
    return context.retry_number


@asset
def after_flaky(flaky: int) -> str:
    """Runs once `flaky` has succeeded."""
    return f"it took {flaky} retries"


@asset(retry_policy=RetryPolicy(max_retries=3))
def hopeless() -> None:
    """Knows that a retry would not help."""
    raise Failure("the file has no header", allow_retries=False)


@asset
def after_hopeless(hopeless: None) -> None:
    """Is skipped, because its input failed."""
