"""One execution: load what the function asks for, call it, store what it returns."""

import traceback
from collections.abc import Callable
from typing import Any

import msgspec

from servo.core.events.tasks import Output, TaskCost, TaskError, TaskOutcome
from servo.core.keys import AssetKey
from servo.errors import ServoError
from servo.ports.clock import Clock
from servo.sdk.assets_definition import AssetsDefinition
from servo.sdk.context import AssetExecutionContext, Execution, Logger
from servo.sdk.project import Project
from servo.sdk.results import DataVersion, Failure, MaterializeResult, RetryRequested, Skip
from servo.sdk.results import Output as UserOutput
from servo.worker.messages import Done, Work
from servo.worker.outputs import OutputStore
from servo.worker.tables import as_asked

MAX_DETAIL = 16_000


class Runner:
    """Runs executions of one project, one after the other."""

    def __init__(
        self,
        project: Project,
        outputs: OutputStore,
        clock: Clock,
        log: Logger,
        *,
        on_error: Callable[[str, BaseException], None] | None = None,
        after: Callable[[Work], None] | None = None,
    ) -> None:
        self._project = project
        self._on_error = on_error
        self._after = after
        self._outputs = outputs
        self._clock = clock
        self._log = log
        self._keys = {str(key.canonical()): key for key in project.makers}

    def run(self, work: Work) -> Done:
        """Run user code; whatever it does comes back as how the execution ended."""
        began = self._clock.monotonic()
        try:
            done = self._run(work)
        except Exception as error:  # noqa: BLE001 - user code raises what it likes
            done = failed(work.exec_id, error)
            if self._on_error is not None:
                self._on_error(work.task_key, error)
        if self._after is not None:
            self._after(work)
        wall = round((self._clock.monotonic() - began) * 1000)
        return msgspec.structs.replace(done, cost=TaskCost(wall_ms=wall)) if wall else done

    def _run(self, work: Work) -> Done:
        key = self._keys.get(work.asset_key)
        if key is None:
            return _unknown(work)
        maker = self._project.makers[key]
        context = self._context(work, key)
        value = maker.fn(**self._arguments(work, key, maker, context))
        if isinstance(value, Skip):
            error = TaskError(code="Skipped", message=value.reason)
            return Done(exec_id=work.exec_id, outcome=TaskOutcome.SKIPPED, error=error)
        output = self._store(work, value, context)
        return Done(exec_id=work.exec_id, outcome=TaskOutcome.SUCCEEDED, output=output)

    def _context(self, work: Work, key: AssetKey) -> AssetExecutionContext:
        execution = Execution(
            run_id=work.run_id,
            task_key=work.task_key,
            attempt=work.attempt,
            exec_id=work.exec_id,
            fencing_token=work.fencing_token,
            run_tags=work.tags,
        )
        return AssetExecutionContext(key, self._log, execution=execution)

    def _arguments(
        self, work: Work, key: AssetKey, maker: AssetsDefinition, context: AssetExecutionContext
    ) -> dict[str, Any]:
        arguments: dict[str, Any] = {}
        if maker.signature.context:
            arguments[maker.signature.context] = context
        for name, upstream in self._project.inputs[key].items():
            pinned = work.inputs.get(upstream.canonical())
            if pinned is None:
                raise Failure(
                    f"{upstream} was never materialized, and {key} is made from it",
                    allow_retries=False,
                )
            value = self._outputs.load(pinned.uri) if pinned.uri else None
            arguments[name] = as_asked(value, maker.signature.types.get(name))
        return arguments

    def _store(self, work: Work, value: Any, context: AssetExecutionContext) -> Output:
        metadata = dict(context.output_metadata)
        version: DataVersion | None = None
        if isinstance(value, MaterializeResult | UserOutput):
            metadata.update(value.metadata or {})
            version = value.data_version
            value = value.value
        if value is None or value is msgspec.UNSET:
            output = Output(materialization_id=work.exec_id)
        else:
            output = self._outputs.save(work.asset_key, work.exec_id, value)
        if not metadata and version is None:
            return output
        return msgspec.structs.replace(
            output,
            metadata=_encode_metadata(metadata),
            data_version="" if version is None else version.value,
        )


def _encode_metadata(metadata: dict[str, Any]) -> str:
    return msgspec.json.encode(metadata, enc_hook=repr).decode() if metadata else ""


def failed(exec_id: str, error: BaseException) -> Done:
    """How an execution ended whose code raised."""
    retry_after: int | None = None
    retriable: bool | None = None
    most: int | None = None
    if isinstance(error, RetryRequested):
        retriable, most = True, error.max_retries + 1
        retry_after = round((error.seconds_to_wait or 0) * 1000)
    elif isinstance(error, Failure) and not error.allow_retries:
        retriable = False
    return Done(
        exec_id=exec_id,
        outcome=TaskOutcome.FAILED,
        error=TaskError(
            code="ServoError" if isinstance(error, ServoError) else "UserCodeException",
            message=f"{type(error).__name__}: {error}",
            types=tuple(_names(error)),
            retriable=retriable,
            max_attempts=most,
            detail=_trimmed(error),
        ),
        retry_after_ms=retry_after,
    )


def _names(error: BaseException) -> list[str]:
    kinds = [kind for kind in type(error).__mro__ if issubclass(kind, BaseException)]
    return [f"{kind.__module__}.{kind.__qualname__}" for kind in kinds]


def _trimmed(error: BaseException) -> str:
    """The traceback without Servo's own frames, and not longer than a person reads."""
    frames = traceback.TracebackException.from_exception(error)
    own = [frame for frame in frames.stack if "/servo/worker/" not in frame.filename]
    frames.stack = traceback.StackSummary.from_list(own)
    text = "".join(frames.format())
    return text if len(text) <= MAX_DETAIL else f"{text[:MAX_DETAIL]}\n…"


def _unknown(work: Work) -> Done:
    error = TaskError(
        code="AssetNotFound",
        message=f"the code this worker has imported defines no asset {work.asset_key}",
        retriable=False,
    )
    return Done(exec_id=work.exec_id, outcome=TaskOutcome.FAILED, error=error)
