"""What fails is tried again; what cannot be mended is not; what depends on it is skipped.

servo materialize        # ends FAILED: `hopeless` and what is made from it
servo logs
servo run retry RUN      # once the code is mended
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
    """Is made all the same."""
    return f"it took {flaky} retries"


@asset(retry_policy=RetryPolicy(max_retries=3))
def hopeless() -> None:
    """Says itself that trying again is no use."""
    raise Failure("the file has no header", allow_retries=False)


@asset
def after_hopeless(hopeless: None) -> None:
    """Is skipped."""
