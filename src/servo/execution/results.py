"""From what an asset's function told to how its execution ended.

What Servo stores itself is stored as soon as it is told, so that a function that yields need not
hold everything at once; what an IO manager stores is handed over once its checks are content. Then
the checks of every asset run, and say what becomes of it. All outputs of an execution count
together: if a check ends the task, none of them does.
"""

import os
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from servo.core.events.tasks import CommittedOutput, TaskError, TaskOutcome
from servo.core.keys import AssetKey
from servo.execution.checks.running import FOUND, Checking
from servo.execution.outputs.store import StagedOutput
from servo.execution.outputs.storing import Storing
from servo.execution.returned import MadeAsset, Returned
from servo.leader.assignments import Assignment, CheckOutcome, ReportedAsset, TaskResult
from servo.processes.frames import sendable
from servo.processes.stopping import end_if_forked
from servo.sdk.assets.assets_definition import AssetsDefinition
from servo.sdk.assets.context import AssetExecutionContext
from servo.sdk.assets.results import AssetObservation, ObserveResult, Skip
from servo.sdk.checks.definition import AssetCheckResult
from servo.sdk.metadata.entries import encode_metadata
from servo.sdk.resources.resources import Resources
from servo.workspace.redacted_events import without_secrets

DATA_VERSION_TAG = "dagster/data_version"


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One execution of the code of assets: which of them were chosen, and what it was given."""

    work: Assignment
    maker: AssetsDefinition
    chosen: list[AssetKey]
    context: AssetExecutionContext


class Making:
    """What one execution makes."""

    def __init__(self, call: Call, storing: Storing) -> None:
        self._work = call.work
        self._maker = call.maker
        self._context = call.context
        self._resources: Resources = call.context.resources
        self._storing = storing
        self._made: dict[AssetKey, MadeAsset] = {}
        self._outputs: dict[AssetKey, tuple[CommittedOutput, ...]] = {}
        self._staged: list[StagedOutput] = []
        self._told: list[AssetCheckResult] = []
        self._pid = os.getpid()

    def fresh(self, key: AssetKey) -> MadeAsset | None:
        """What this execution made of an asset."""
        return self._made.get(key)

    def end(self, told: Iterable[Returned], checks: Mapping[AssetKey, Checking]) -> TaskResult:
        """Take everything that was told, store it, check it, and say how the execution ended."""
        skipped = self._take(told, checks)
        if skipped is not None or not self._made:
            return self._skipped(skipped, checks)
        found: list[CheckOutcome] = []
        outputs: list[CommittedOutput] = []
        for key, name in self._names().items():
            done = self._checked(key, name, checks.get(key))
            found += [_about(check, name) for check in done.checks]
            if done.outcome is not TaskOutcome.SUCCEEDED or done.output is None:
                return msgspec.structs.replace(done, checks=tuple(found))
            outputs += self._of(key, done.output)
        several = len(self._maker.specs) > 1 or len(outputs) > 1
        return TaskResult(
            exec_id=self._work.exec_id,
            outcome=TaskOutcome.SUCCEEDED,
            output=None if several else outputs[0],
            outputs=tuple(outputs) if several else (),
            checks=tuple(found),
            reported=reports_of(self._context),
        )

    def commit(self, result: TaskResult) -> None:
        """Make what was stored count, if the execution succeeded."""
        if self._staged and result.outcome is TaskOutcome.SUCCEEDED:
            self._storing.commit(self._staged, without_secrets(result))

    def _take(self, told: Iterable[Returned], checks: Mapping[AssetKey, Checking]) -> Skip | None:
        """Note what comes, and store what needs no check before it is stored."""
        for item in told:
            end_if_forked(self._pid)
            if isinstance(item, Skip):
                return item
            if isinstance(item, AssetCheckResult):
                self._told.append(item)
            elif isinstance(item, MadeAsset):
                waits = item.key in checks and self._storing.io_key(item.key) != ""
                name = self._name(len(self._made))
                if not waits:
                    _ = self._store(item, name)
                needed = bool(checks)
                self._made[item.key] = item if needed else MadeAsset(key=item.key)
            else:
                self._context.log_event(item)
        return None

    def _skipped(self, skip: Skip | None, checks: Mapping[AssetKey, Checking]) -> TaskResult:
        reason = skip.reason if skip is not None else f"{self._maker.name} materialized nothing"
        return TaskResult(
            exec_id=self._work.exec_id,
            outcome=TaskOutcome.SKIPPED,
            error=TaskError(code="Skipped", message=sendable(str(reason))),
            checks=tuple(one for checking in checks.values() for one in checking.found),
        )

    def _names(self) -> dict[AssetKey, str]:
        """The materializations of what was made, in the order it came."""
        return {key: self._name(number) for number, key in enumerate(self._made)}

    def _name(self, number: int) -> str:
        return f"{self._work.exec_id}-{number}" if number else self._work.exec_id

    def _store(self, made: MadeAsset, name: str) -> CommittedOutput:
        """Store what was made, once; the output, or that of the first partition."""
        found = self._outputs.get(made.key)
        if found is None:
            stored = self._storing.store(self._work, name, made, self._context, self._resources)
            self._outputs[made.key] = found = stored.outputs
            self._staged += stored.staged
        return found[0]

    def _checked(self, key: AssetKey, name: str, checking: Checking | None) -> TaskResult:
        """One output after its checks."""
        if checking is None:
            if self._told and self._told_of(key):
                return self._undeclared()
            output = self._outputs[key][0]
            return TaskResult(
                exec_id=self._work.exec_id, outcome=TaskOutcome.SUCCEEDED, output=output
            )
        made = self._made[key]
        value = None if made.value is msgspec.UNSET else made.value
        return checking.after(value, self._told_of(key), lambda: self._store(made, name))

    def _told_of(self, key: AssetKey) -> list[AssetCheckResult]:
        """What the function said of the checks of an asset; what fits none is told to the first."""
        if len(self._maker.specs) == 1:
            return self._told
        owners = {spec.name: spec.asset for spec in self._maker.behaviour.check_specs}
        first = next(iter(self._made))
        mine: list[AssetCheckResult] = []
        for result in self._told:
            owner = result.asset_key or owners.get(result.check_name or "")
            if owner == key or (owner not in self._made and key == first):
                mine.append(result)
        return mine

    def _undeclared(self) -> TaskResult:
        message = (
            f"{self._maker.name} reported a check, which was not declared;"
            " name it in check_specs=[AssetCheckSpec(...)]"
        )
        error = TaskError(code="CheckNotDeclared", message=message, retriable=False)
        return TaskResult(exec_id=self._work.exec_id, outcome=TaskOutcome.FAILED, error=error)

    def _of(self, key: AssetKey, output: CommittedOutput) -> list[CommittedOutput]:
        """The outputs of an asset, each as its checks decided about the first."""
        others = self._outputs[key][1:] if key in self._outputs else ()
        found = [output, *(msgspec.structs.replace(one, gate=output.gate) for one in others)]
        if len(self._maker.specs) == 1:
            return found
        return [msgspec.structs.replace(one, asset_key=key.canonical()) for one in found]


def seen(call: Call, found: ObserveResult) -> TaskResult:
    """How an execution ended that looked at an asset."""
    work, context = call.work, call.context
    told = {**context.output_metadata, **(found.metadata or {})}
    version = found.data_version or context.version_of(call.chosen[0])
    output = CommittedOutput(
        materialization_id="",
        data_version="" if version is None else version.value,
        metadata=encode_metadata(told) if told else "",
    )
    return TaskResult(
        exec_id=work.exec_id,
        outcome=TaskOutcome.SUCCEEDED,
        output=output,
        reported=reports_of(context),
    )


def reports_of(context: AssetExecutionContext) -> tuple[ReportedAsset, ...]:
    """What the code said of assets that it does not make."""
    return tuple(
        ReportedAsset(
            asset_key=event.asset_key.canonical(),
            seen=isinstance(event, AssetObservation),
            partition=event.partition,
            data_version=(event.tags or {}).get(DATA_VERSION_TAG, ""),
            metadata=encode_metadata(dict(event.metadata)) if event.metadata else "",
        )
        for event in context.logged_events
    )


@contextmanager
def keeping(checks: Iterable[Checking]) -> Generator[None]:
    """Have what user code raises carry what its checks found before."""
    try:
        yield
    except Exception as error:
        found = tuple(one for checking in checks for one in checking.found)
        if found:
            vars(error)[FOUND] = found
        raise


def _about(check: CheckOutcome, materialization: str) -> CheckOutcome:
    if check.materialization_id:
        return check
    return msgspec.structs.replace(check, materialization_id=materialization)


def plain(value: Any) -> Any:
    """A value that was told, or nothing."""
    return None if value is msgspec.UNSET else value
