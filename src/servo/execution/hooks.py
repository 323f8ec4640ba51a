"""Calling the hooks of an asset after its execution has ended.

Hooks cannot change the outcome: what they raise is logged with its traceback, and the next one is
called. Failure hooks are called once, when no retry follows. The number of attempts decides that
here; the leader does not count attempts that were lost with their worker, so after such a loss the
hook may be early by as many.
"""

import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import msgspec

from servo.core.events.tasks import CommittedOutput, TaskError, TaskOutcome
from servo.core.keys import AssetKey
from servo.core.retry import FailedAttempt, FailureKind, GiveUp, Spent, retry_or_give_up
from servo.core.tags import JOB_LABEL
from servo.errors import Invalid
from servo.leader.assignments import Assignment, TaskResult
from servo.planning.job_retries import retry_of_task
from servo.processes.stopping import is_from_outside
from servo.sdk.assets.context import Logger
from servo.sdk.assets.hooks import Happened, HookContext, HookDefinition, When
from servo.sdk.assets.results import Failure as Told
from servo.sdk.definitions.jobs import AssetJob
from servo.sdk.definitions.project import Project
from servo.sdk.resources.resources import InitResourceContext, Resources, open_resources
from servo.sdk.resources.run_config import RunConfig

_Load = Callable[[str, str], Any]


class Hooks:
    """Calls the hooks of one project."""

    def __init__(
        self,
        project: Project,
        log: Logger,
        environ: Mapping[str, str],
        *,
        load: _Load,
        instance: Any = None,
    ) -> None:
        self._project = project
        self._log = log
        self._environ = environ
        self._load = load
        self._instance = instance

    def after(
        self, work: Assignment, key: AssetKey, done: TaskResult, error: BaseException | None = None
    ) -> None:
        """Call the hooks for this outcome of an execution."""
        hooks = self._waiting(work, key)
        if not hooks:
            return
        when = self._which(work, key, done)
        for hook in hooks:
            if hook.when is when:
                self._call(hook, work, key, done, error)

    def _waiting(self, work: Assignment, key: AssetKey) -> Sequence[HookDefinition]:
        """The hooks of the asset, then those of the job that are not the asset's."""
        maker = self._project.makers.get(key)
        own: tuple[HookDefinition, ...] = () if maker is None else maker.behaviour.hooks
        job = self._job(work)
        return own if job is None else tuple(dict.fromkeys((*own, *job.hooks)))

    def _job(self, work: Assignment) -> AssetJob | None:
        return self._project.jobs.get(work.run_tags.get(JOB_LABEL, ""))

    def _which(self, work: Assignment, key: AssetKey, done: TaskResult) -> When | None:
        if done.outcome is TaskOutcome.SUCCEEDED:
            return When.SUCCESS
        if done.outcome is not TaskOutcome.FAILED:
            return None
        return When.FAILURE if self._is_final(work, key, done) else None

    def _is_final(self, work: Assignment, key: AssetKey, done: TaskResult) -> bool:
        policy = retry_of_task(self._project, key, work.operation, self._job(work))
        error = done.error or TaskError(code="", message="")
        wait = done.retry_after_ms
        failure = FailedAttempt(
            kind=FailureKind.ERROR,
            error_types=error.types,
            retriable=error.retriable,
            retry_after=None if wait is None else timedelta(milliseconds=wait),
            max_attempts=error.max_attempts,
        )
        decided = retry_or_give_up(
            policy, failure, Spent(user_failures=work.failures + 1), jitter=0
        )
        return isinstance(decided, GiveUp)

    def _call(
        self,
        hook: HookDefinition,
        work: Assignment,
        key: AssetKey,
        done: TaskResult,
        error: BaseException | None,
    ) -> None:
        name = self._project.makers[key].name
        config = self._config(work).for_op(key.canonical(), key.to_python_identifier(), name)
        happened = Happened(
            op=name,
            op_config=config,
            asset_key=key,
            run_id=work.run_id,
            step_key=work.task_key,
            job_name=work.run_tags.get(JOB_LABEL),
            exception=error or _told(done),
            output_values=lambda: self._values(key, done),
            instance=self._instance,
        )
        try:
            with self._resources(hook, work) as resources:
                _ = hook.fn(
                    HookContext(happened, resources=resources, log=self._log, hook_def=hook)
                )
        except BaseException as raised:
            if is_from_outside(raised):
                raise
            told = traceback.format_exc()
            self._log.error(
                "the hook %s failed; the result of %s is not affected: %s", hook.name, key, told
            )

    @staticmethod
    def _config(work: Assignment) -> RunConfig:
        return RunConfig.of(msgspec.json.decode(work.run_config) if work.run_config else None)

    def _resources(self, hook: HookDefinition, work: Assignment) -> Any:
        if not hook.required_resource_keys:
            return nullcontext(Resources())
        return open_resources(
            self._project.resources,
            hook.required_resource_keys,
            self._environ,
            config=self._config(work).for_resources(),
            context=InitResourceContext(run_id=work.run_id, log=self._log, instance=self._instance),
        )

    def _values(self, key: AssetKey, done: TaskResult) -> Mapping[str, Any]:
        """The stored values of the execution, by output name."""
        if done.outputs:
            made = self._project.makers[key].keys_by_output_name
            names: dict[str, str] = {found.canonical(): name for name, found in made.items()}
            return {names[output.asset_key]: self._value(output) for output in done.outputs}
        return {} if done.output is None else {"result": self._value(done.output)}

    def _value(self, output: CommittedOutput) -> Any:
        if output.uri:
            return self._load(output.uri, output.content_hash)
        if output.format:
            raise Invalid(
                f"the value was stored by {output.format}, an IO manager of your own",
                remedy="request the IO manager as a resource of the hook, and load the value there",
            )
        return None


def _told(done: TaskResult) -> Told | None:
    """A failure without an exception, such as that of a blocking check."""
    return None if done.error is None else Told(done.error.message)
