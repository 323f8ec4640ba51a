"""One execution, from its grant to its result."""

import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress

import msgspec

from servo.core.events.tasks import StoredLog, TaskError, TaskOutcome
from servo.errors import ServoError
from servo.execution.checks.running import FOUND
from servo.execution.hooks import Hooks
from servo.execution.invoke import Calls
from servo.execution.metering import Meter
from servo.execution.outputs.patience import StoreOutage
from servo.leader.assignments import Assignment, TaskResult
from servo.ports.clock import Clock
from servo.processes.frames import sendable
from servo.processes.own_code import is_machinery
from servo.processes.stopping import end_if_forked, is_from_outside
from servo.sdk.assets.results import Failure, RetryRequested
from servo.sdk.resources.redaction import hidden
from servo.workspace.redacted_events import without_secrets

STORE_UNAVAILABLE = "StoreUnavailable"
MAX_DETAIL = 16_000
MAX_MESSAGE = 8_000


class Runner:
    """Runs executions of one project, one after the other."""

    def __init__(
        self,
        calls: Calls,
        clock: Clock,
        *,
        on_error: Callable[[str, BaseException], None] | None = None,
        hooks: Hooks | None = None,
        before: Callable[[Assignment], None] | None = None,
        after: Callable[[Assignment], StoredLog | None] | None = None,
    ) -> None:
        self._calls = calls
        self._clock = clock
        self._on_error = on_error
        self._hooks = hooks
        self._before = before
        self._after = after
        self._pid = os.getpid()

    def run(self, work: Assignment) -> TaskResult:
        """Run user code; whatever it does becomes the result of the execution."""
        meter = Meter(self._clock)
        key = self._calls.keys.get(work.asset_key)
        raised: BaseException | None = None
        if self._before is not None:
            self._before(work)
        try:
            done = _unknown(work) if key is None else self._calls.run(work, key)
        except BaseException as error:
            end_if_forked(self._pid)
            if self._on_error is not None:
                self._on_error(work.task_key, error)
            if is_from_outside(error):
                _ = self._keep(work)
                raise
            raised, done = error, failed(work.exec_id, error)
        end_if_forked(self._pid)
        if self._hooks is not None and key is not None:
            self._hooks.after(work, key, done, raised)
        done = without_secrets(done)
        log, cost = self._keep(work), meter.cost()
        if log is None and cost is None:
            return done
        return msgspec.structs.replace(done, log=log, cost=cost)

    def _keep(self, work: Assignment) -> StoredLog | None:
        return None if self._after is None else self._after(work)


def failed(exec_id: str, error: BaseException) -> TaskResult:
    """The result of an execution that raised."""
    if isinstance(error, StoreOutage):
        lost = TaskError(code=STORE_UNAVAILABLE, message=message_of(error))
        return TaskResult(exec_id=exec_id, outcome=TaskOutcome.INTERRUPTED, error=lost)
    return _failed(exec_id, error)


def _failed(exec_id: str, error: BaseException) -> TaskResult:
    """The result of an execution whose code raised."""
    retry_after: int | None = None
    retriable: bool | None = None
    most: int | None = None
    if isinstance(error, RetryRequested):
        retriable, most = True, error.max_retries + 1
        retry_after = round((error.seconds_to_wait or 0) * 1000)
    elif isinstance(error, Failure) and not error.allow_retries:
        retriable = False
    return TaskResult(
        exec_id=exec_id,
        outcome=TaskOutcome.FAILED,
        error=TaskError(
            code="ServoError" if isinstance(error, ServoError) else "UserCodeException",
            message=message_of(error),
            types=tuple(_names(error)),
            retriable=retriable,
            max_attempts=most,
            detail=_trimmed(error),
        ),
        retry_after_ms=retry_after,
        checks=vars(error).get(FOUND, ()),
    )


def print_error(task_key: str, error: BaseException) -> None:
    """Print the error of user code into its output, where people look first."""
    del task_key
    with suppress(ValueError, OSError, AttributeError):  # it may have closed or replaced it
        sys.stderr.write(_trimmed(error))


def message_of(error: BaseException) -> str:
    """The message of an exception, as valid text and without secrets."""
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - its __str__ is user code
        text = type(error).__name__
    # Redacted before it is cut: half a secret would not be found.
    return sendable(hidden().text(text)[:MAX_MESSAGE])


def _names(error: BaseException) -> list[str]:
    kinds = [kind for kind in type(error).__mro__ if issubclass(kind, BaseException)]
    return [f"{kind.__module__}.{kind.__qualname__}" for kind in kinds]


def _trimmed(error: BaseException) -> str:
    """The traceback without Servo's frames, and of limited length."""
    frames = traceback.TracebackException.from_exception(error)
    own = [frame for frame in frames.stack if not is_machinery(frame.filename)]
    frames.stack = traceback.StackSummary.from_list(own)
    text = sendable(hidden().text("".join(frames.format())))
    return text if len(text) <= MAX_DETAIL else f"{text[:MAX_DETAIL]}\n…"


def _unknown(work: Assignment) -> TaskResult:
    error = TaskError(
        code="AssetNotFound",
        message=f"the code that this worker imported defines no asset {work.asset_key}",
        retriable=False,
    )
    return TaskResult(exec_id=work.exec_id, outcome=TaskOutcome.FAILED, error=error)
