"""The checks of one execution: run, recorded, and what follows from them.

`before` runs the checks of the inputs, `after` those of the outputs, `alone` those of an asset that
is not materialized this time. A check that raises, takes too long or
returns something else has failed with its severity; none of that reaches the task. After a failed
check of severity CRITICAL no other is run.

A value that Servo stores is stored first and then checked, so that a check cannot change it. A
value for an IO manager is checked first: once the IO manager has it, it cannot be held back.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from servo.core.events.assets import Severity
from servo.core.events.tasks import CommittedOutput, Gate, TaskError, TaskOutcome
from servo.core.keys import AssetKey, place_of
from servo.errors import Invalid, ServoError
from servo.execution.checks.limits import TookTooLong, limited
from servo.execution.checks.results import failed, found_by, listed, matched, results_of
from servo.execution.checks.rules import CheckSubject, names
from servo.execution.outputs.store import OutputStore
from servo.execution.outputs.tables import as_asked
from servo.leader.assignments import Assignment, CheckOutcome, PinnedInput, TaskResult
from servo.ports.clock import Clock
from servo.processes.frames import sendable
from servo.processes.stopping import is_from_outside
from servo.sdk.assets.context import AssetExecutionContext
from servo.sdk.checks.binding import BoundCheck
from servo.sdk.checks.context import AssetCheckExecutionContext
from servo.sdk.checks.definition import AssetCheckSeverity, AssetCheckSpec
from servo.sdk.checks.gating import CheckPolicy, GateVerdict, gate_verdict
from servo.sdk.definitions.project import Project
from servo.sdk.resources.deferred_config import build_config, schema_model
from servo.sdk.resources.redaction import hidden
from servo.sdk.resources.resources import Resources
from servo.sdk.resources.run_config import RunConfig

GATES = {
    GateVerdict.ALLOW: Gate.PROMOTED,
    GateVerdict.WARN: Gate.WARNED,
    GateVerdict.QUARANTINE: Gate.QUARANTINED,
}

FOUND = "__servo_checked__"
"""The attribute of an exception that holds the checks which ran before the function raised it."""

LoadInput = Callable[[AssetKey, str, Any], Any]
"""Loads an asset as it was at the grant, for a parameter of this name and annotation."""


class CheckEnvironment(msgspec.Struct, frozen=True, kw_only=True):
    """The environment of an execution. `managed` is whether an IO manager stores its output."""

    context: AssetExecutionContext
    resources: Resources
    config: RunConfig
    environ: Mapping[str, str]
    load: LoadInput
    managed: bool = False


class ProjectChecks:
    """The checks of a project."""

    def __init__(self, project: Project, outputs: OutputStore, clock: Clock) -> None:
        self._project = project
        self._outputs = outputs
        self._clock = clock

    def has(self, key: AssetKey) -> bool:
        """Whether there are checks of an asset."""
        book = self._project.check_index
        return key in book.hosted or key in book.declared

    def begin(self, work: Assignment, key: AssetKey, environment: CheckEnvironment) -> "Checking":
        """The checks of an execution, even if there are none."""
        return Checking(
            self._project, work, key, environment, GrantedOutputs(self._outputs, self._clock, work)
        )

    def resources_of(self, key: AssetKey) -> set[str]:
        """The resources that the checks of an asset request."""
        return {name for bound in self._project.checks.get(key, ()) for name in bound.resources}

    def needs_of(self, key: AssetKey) -> set[AssetKey]:
        """The assets that the checks of an asset load."""
        hosted = self._project.checks.get(key, ())
        if not hosted:
            return set()
        queries = [bound.definition.options.query for bound in hosted]
        asked = [
            above
            for above in self._project.upstream[key]
            if any(names(query, name) for query in queries for name in _names(above))
        ]
        return {key, *asked, *(need for bound in hosted for need in bound.needs)}


class GrantedOutputs:
    """What is known of outputs as they were at the grant."""

    def __init__(self, outputs: OutputStore, clock: Clock, work: Assignment) -> None:
        self._outputs = outputs
        self._clock = clock
        self._work = work

    def now(self) -> datetime:
        """The current time."""
        return self._clock.now()

    def made_at(self, key: AssetKey) -> datetime | None:
        """When the pinned output of an asset was stored, if that is known."""
        pinned = self._pinned(key)
        return self._outputs.stored_at(pinned.uri) if pinned and pinned.uri else None

    def id_of(self, key: AssetKey) -> str:
        """The pinned output of an asset."""
        pinned = self._pinned(key)
        return pinned.materialization_id if pinned else ""

    def _pinned(self, key: AssetKey) -> PinnedInput | None:
        """What was the latest of an asset, or of the partition of the same key."""
        inputs, name = self._work.inputs, key.canonical()
        if name in inputs or len(self._work.partitions) != 1:
            return inputs.get(name)
        return inputs.get(place_of(name, self._work.partitions[0]))


class Checking:
    """The checks of one execution of one asset."""

    def __init__(
        self,
        project: Project,
        work: Assignment,
        key: AssetKey,
        environment: CheckEnvironment,
        stored: GrantedOutputs,
    ) -> None:
        self._work = work
        self._key = key
        self._environment = environment
        self._stored = stored
        self._bound = project.check_index.hosted.get(key, [])
        self._declared = project.check_index.declared.get(key, [])
        above = {name: up for up in project.upstream[key] for name in _names(up)}
        self._upstream = {**above, **project.inputs.get(key, {})}
        maker = project.makers.get(key)
        self._behaviour = maker.behaviour if maker is not None else None
        self._inputs: Mapping[str, Any] = {}
        self._value: Callable[[], Any] = lambda: None
        self._made_at: Callable[[], datetime | None] = stored.now
        self.found: list[CheckOutcome] = []

    # --- when they run ------------------------------------------------------------------------

    def before(self, inputs: Mapping[str, Any]) -> TaskResult | None:
        """Check the inputs; the result of the task if the function must not be called."""
        self._inputs = inputs
        self._value = self._previous
        self._run(bound for bound in self._bound if bound.definition.options.before)
        return self._refused() if self._verdict() >= GateVerdict.QUARANTINE else None

    def after(
        self, made: Any, told: Sequence[Any], store: Callable[[], CommittedOutput]
    ) -> TaskResult:
        """Check the output, and store it with the decision.

        `told` are the results of checks that the function itself reported.
        """
        self._value = lambda: made
        output = None if self._environment.managed else store()
        wrong = self._reported(told)
        if wrong is not None:
            return wrong
        self._run(bound for bound in self._bound if not bound.definition.options.before)
        verdict = self._verdict()
        if verdict is GateVerdict.BLOCK or (
            verdict is GateVerdict.QUARANTINE and self._environment.managed
        ):
            return self._refused()
        output = store() if output is None else output
        return TaskResult(
            exec_id=self._work.exec_id,
            outcome=TaskOutcome.SUCCEEDED,
            output=msgspec.structs.replace(output, gate=GATES[verdict]),
            checks=tuple(self.found),
        )

    def alone(self) -> TaskResult:
        """Check the latest output of the asset, without materializing it."""
        held: list[Any] = []

        def value() -> Any:
            if not held:
                held.append(self._environment.load(self._key, self._key.name, None))
            return held[0]

        self._value = value
        self._made_at = lambda: self._stored.made_at(self._key)
        self._run(bound for bound in self._bound if not bound.definition.options.before)
        of = self._stored.id_of(self._key)
        self.found = [msgspec.structs.replace(one, materialization_id=of) for one in self.found]
        if self._verdict() >= GateVerdict.QUARANTINE:
            return self._refused()
        return TaskResult(
            exec_id=self._work.exec_id, outcome=TaskOutcome.SUCCEEDED, checks=tuple(self.found)
        )

    # --- what follows -------------------------------------------------------------------------

    def _verdict(self) -> GateVerdict:
        behaviour = self._behaviour
        if behaviour is None:
            return gate_verdict(self.found, CheckPolicy.AS_DECLARED, quarantine=False)
        return gate_verdict(self.found, behaviour.check_policy, quarantine=behaviour.quarantine)

    def _refused(self) -> TaskResult:
        """The result of a task that a check failed: nothing is stored, and it is not retried."""
        policy = self._behaviour.check_policy if self._behaviour else CheckPolicy.AS_DECLARED
        guilty = [c for c in self.found if gate_verdict([c], policy, quarantine=False) >= 2]
        told = "; ".join(f"{c.name} ({c.message})" if c.message else c.name for c in guilty)
        return self._ended("CheckFailed", f"a blocking check failed: {told}"[:8_000])

    def _ended(self, code: str, message: str) -> TaskResult:
        return TaskResult(
            exec_id=self._work.exec_id,
            outcome=TaskOutcome.FAILED,
            error=TaskError(code=code, message=message, retriable=False),
            checks=tuple(self.found),
        )

    def _reported(self, told: Sequence[Any]) -> TaskResult | None:
        """Record the check results the function reported; the task's result if one is missing."""
        where = f"the function of {self._key}"
        specs = self._declared
        try:
            results = matched(results_of(told, specs, where), specs, where)
        except Invalid as error:
            return self._ended("CheckNotDeclared", str(error))
        for spec in specs:
            if spec.key in results:
                self._note(found_by(spec, results[spec.key], AssetCheckSeverity.ERROR))
        if missing := [spec.name for spec in specs if spec.key not in results]:
            said = f"{where} declares the check {', '.join(missing)} but did not report it"
            remedy = "return MaterializeResult(check_results=[AssetCheckResult(check_name=...)])"
            return self._ended("CheckNotReported", f"{said}; {remedy}")
        return None

    # --- running them -------------------------------------------------------------------------

    def _run(self, checks: Any) -> None:
        for bound in checks:
            specs = [spec for spec in bound.definition.specs if self._chosen(spec)]
            if not specs:
                continue
            for one in self._results(bound, specs):
                self._note(one)
            if any(not c.passed and c.severity is Severity.CRITICAL for c in self.found):
                return

    def _chosen(self, spec: AssetCheckSpec) -> bool:
        return self._work.checks is None or check_id(spec) in self._work.checks

    def _note(self, found: CheckOutcome) -> None:
        self.found.append(found)
        if not found.passed:
            log = self._environment.context.log
            levels = {Severity.INFO: log.info, Severity.WARN: log.warning}
            tell = levels.get(found.severity, log.error)
            said = f": {found.message}" if found.message else ""
            tell("check %s of %s failed%s", found.name, found.asset_key, said)

    def _results(self, bound: BoundCheck, specs: Sequence[AssetCheckSpec]) -> list[CheckOutcome]:
        definition = bound.definition
        severity = definition.options.severity
        seconds = definition.options.timeout.total_seconds()
        try:
            found = limited(
                seconds,
                lambda: listed(definition.fn(**self._filled(bound, specs))),
                f"the check {', '.join(spec.name for spec in specs)} of {self._key}",
                stops_itself=bool(definition.options.rule),
            )
            results = results_of(found, specs, definition.where)
            by_key = matched(results, definition.specs, definition.where)
            return [
                found_by(spec, by_key[spec.key], severity)
                if spec.key in by_key
                else failed(spec, f"{definition.where} did not report this check", severity)
                for spec in specs
            ]
        except TookTooLong:
            message = f"the check took longer than {seconds:g} s"
            return [failed(spec, message, severity, timeout=True) for spec in specs]
        except BaseException as error:
            if is_from_outside(error):
                raise
            message = _message(error)
            return [failed(spec, message, severity) for spec in specs]

    def _filled(self, bound: BoundCheck, specs: Sequence[AssetCheckSpec]) -> dict[str, Any]:
        """The arguments of a check's function."""
        definition, signature = bound.definition, bound.definition.signature
        if definition.options.rule:
            return {"subject": self._subject(bound)}
        arguments = {name: self._inputs[own] for name, own in bound.taken.items()}
        for name, key in bound.values.items():
            hint = signature.types.get(name)
            arguments[name] = self._of(key, name, hint)
        for name in signature.resources:
            arguments[name] = getattr(self._environment.resources, name)
        config = self._configured(bound)
        if signature.config:
            arguments[signature.config] = config
        if signature.context:
            context = AssetCheckExecutionContext.within(self._environment.context, specs, config)
            arguments[signature.context] = context
        return arguments

    def _of(self, key: AssetKey, name: str, hint: Any) -> Any:
        own = key == self._key
        return as_asked(self._value(), hint) if own else self._environment.load(key, name, hint)

    def _previous(self) -> Any:
        """The previous value of the asset; None if there was none."""
        known = self._stored.id_of(self._key)
        return self._environment.load(self._key, self._key.name, None) if known else None

    def _configured(self, bound: BoundCheck) -> Any:
        name, of = bound.definition.name, bound.definition.spec.asset.to_python_identifier()
        given = self._environment.config.for_op(f"{of}_{name}", name)
        signature, where = bound.definition.signature, f"check {name}"
        schema = schema_model(bound.definition.options.config_schema, where)
        wanted = signature.config_type if signature.config else schema
        made = build_config(wanted, given or {}, where=where, environ=self._environment.environ)
        return made.model_dump() if wanted is schema and schema is not None else made

    def _subject(self, bound: BoundCheck) -> CheckSubject:
        """The subject of a check of `servo.checks`."""
        others = {**self._upstream, **bound.values}
        options = bound.definition.options

        def other(name: str) -> Any:
            own = self._inputs.get(name)
            return own if own is not None else self._of(others[name], name, None)

        own = next(iter(bound.taken.values()), "")
        key = others.get(own, self._key)
        return CheckSubject(
            value=self._inputs[own] if own else self._value(),
            key=key,
            now=self._stored.now(),
            made_at=self._stored.made_at(key) if own else self._made_at(),
            previous=self._previous,
            other=other,
            names=tuple(others),
            seconds=options.timeout.total_seconds(),
        )


def check_id(spec: AssetCheckSpec) -> str:
    """A check as the tags of a task name it."""
    return f"{spec.asset.canonical()}:{spec.name}"


def _names(key: AssetKey) -> tuple[str, str]:
    return key.name, key.to_python_identifier()


def _message(error: BaseException) -> str:
    try:
        told = str(error) if isinstance(error, ServoError) else f"{type(error).__name__}: {error}"
        return sendable(hidden().text(told))
    except Exception:  # noqa: BLE001 - its __str__ is user code
        return type(error).__name__
