"""Calling an asset's function with its arguments.

Resources are opened for the execution and closed after its output is stored, in reverse order,
whatever happens. Inputs are loaded and checked before the function is called;
`servo.execution.results` handles what it returns.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import msgspec

from servo.core.keys import AssetKey, TaskOperation
from servo.execution.checks.running import CheckEnvironment, Checking, ProjectChecks
from servo.execution.inputs.partitions import PartitionInputs
from servo.execution.inputs.values import AssetValues
from servo.execution.outputs.store import OutputStore
from servo.execution.outputs.storing import ALLOW_MISSING, Storing
from servo.execution.outputs.tables import as_asked
from servo.execution.results import Call, Making, keeping, plain, seen
from servo.execution.returned import read_observed, read_returned
from servo.leader.assignments import Assignment, ReportedAsset, TaskResult
from servo.ports.clock import Clock
from servo.sdk.assets.annotations import fits, name_of, told
from servo.sdk.assets.assets_definition import AssetsDefinition
from servo.sdk.assets.context import CURRENT, AssetExecutionContext, Execution, Logger
from servo.sdk.assets.results import Failure
from servo.sdk.definitions.project import Project
from servo.sdk.resources.deferred_config import build_config, schema_model
from servo.sdk.resources.resources import InitResourceContext, Resources, open_resources
from servo.sdk.resources.run_config import RunConfig

NO_RESOURCES = Resources({})


class Calls:
    """Calls the functions of one project."""

    def __init__(
        self,
        project: Project,
        outputs: OutputStore,
        log: Logger,
        environ: Mapping[str, str],
        *,
        clock: Clock,
        instance: Any = None,
    ) -> None:
        self._project = project
        self._log = log
        self._environ = environ
        self._instance = instance
        self._partitions = PartitionInputs(project, clock, instance)
        self._storing = Storing(project, outputs, log, self._partitions)
        self._values = AssetValues(project, self._storing, instance)
        self._checks = ProjectChecks(project, outputs, clock)
        runnable = {**dict.fromkeys(project.makers), **dict.fromkeys(project.checks)}
        self.keys = {str(key.canonical()): key for key in runnable}
        self._needed = {key: self._resources_of(key) for key in runnable}

    def _resources_of(self, key: AssetKey) -> frozenset[str]:
        """The resources that an execution of an asset opens."""
        maker = self._project.makers.get(key)
        made = [key] if maker is None else [spec.key for spec in maker.specs]
        loaded = self._project.inputs.get(key, {}).values()
        needs = [need for one in made for need in self._checks.needs_of(one)]
        named = {self._storing.io_key(one) for one in (*made, *loaded, *needs)}
        for one in made:
            named |= self._checks.resources_of(one)
        if maker is not None:
            named |= {*maker.signature.resources, *maker.behaviour.required_resource_keys}
        return frozenset(name for name in named if name)

    def run(self, work: Assignment, key: AssetKey) -> TaskResult:
        """One execution, with its resources open."""
        config = RunConfig.of(msgspec.json.decode(work.run_config) if work.run_config else None)
        needed = self._needed[key]
        if not needed:
            return self._call(work, key, config, NO_RESOURCES)
        with self._opened(work, config, needed) as resources:
            return self._call(work, key, config, resources)

    def _opened(
        self, work: Assignment, config: RunConfig, needed: frozenset[str]
    ) -> AbstractContextManager[Resources]:
        context = InitResourceContext(run_id=work.run_id, log=self._log, instance=self._instance)
        return open_resources(
            self._project.resources,
            needed,
            self._environ,
            config=config.for_resources(),
            context=context,
        )

    def _identified(self, done: TaskResult) -> TaskResult:
        """Reports on partitions of other assets, with the keys they are stored under."""
        if not any(told.partition for told in done.reported):
            return done
        told = tuple(self._stored_under(one) for one in done.reported)
        return msgspec.structs.replace(done, reported=told)

    def _stored_under(self, told: ReportedAsset) -> ReportedAsset:
        spec = self._project.specs.get(AssetKey.parse(told.asset_key))
        definition = None if spec is None else spec.partitions_def
        if definition is None or told.partition is None:
            return told
        typed = definition.typed_key(told.partition).canonical()
        return msgspec.structs.replace(told, partition=typed)

    def _call(
        self, work: Assignment, key: AssetKey, config: RunConfig, resources: Resources
    ) -> TaskResult:
        chosen = [key, *(self.keys[name] for name in work.also_makes)]
        maker = self._project.makers.get(key)
        context = self._context(work, maker, chosen, resources)
        token = CURRENT.set(context)
        try:
            return self._called(work, key, config, context)
        finally:
            CURRENT.reset(token)

    def _called(
        self, work: Assignment, key: AssetKey, config: RunConfig, context: AssetExecutionContext
    ) -> TaskResult:
        maker, resources = self._project.makers.get(key), context.resources
        chosen = [key, *(self.keys[name] for name in work.also_makes)]
        if work.operation is TaskOperation.CHECK or maker is None:
            return self._checks.begin(
                work, key, self._environment(work, key, context, config)
            ).alone()
        call = Call(work=work, maker=maker, chosen=chosen, context=context)
        making = Making(call, self._storing)
        checks = {
            one: self._checks.begin(
                work, one, self._environment(work, one, context, config, making)
            )
            for one in chosen
            if self._checks.has(one)
        }
        arguments = self._inputs(work, key, resources)
        for checking in checks.values():
            refused = checking.before(dict(arguments))
            if refused is not None:
                return refused
        arguments |= self._configured(call, config)
        if maker.signature.context:
            arguments[maker.signature.context] = context
        for name in maker.signature.resources:
            arguments[name] = getattr(resources, name)
        if checks:
            with keeping(checks.values()):
                done = _made(call, making, arguments, checks)
        else:
            done = _made(call, making, arguments, checks)
        done = self._identified(done)
        making.commit(done)
        return done

    def _environment(
        self,
        work: Assignment,
        key: AssetKey,
        context: AssetExecutionContext,
        config: RunConfig,
        making: Making | None = None,
    ) -> CheckEnvironment:
        """The environment of an asset's checks, with the outputs of this execution."""

        def load(other: AssetKey, name: str, hint: Any) -> Any:
            made = making.fresh(other) if making is not None and other != key else None
            if made is not None:
                return as_asked(plain(made.value), hint)
            return self._storing.load(work, other, name, context.resources, hint)

        return CheckEnvironment(
            context=context,
            resources=context.resources,
            config=config,
            environ=self._environ,
            load=load,
            managed=bool(self._storing.io_key(key)),
        )

    def _context(
        self,
        work: Assignment,
        maker: AssetsDefinition | None,
        chosen: list[AssetKey],
        resources: Resources,
    ) -> AssetExecutionContext:
        execution = Execution(
            run_id=work.run_id,
            task_key=work.task_key,
            attempt=work.attempt,
            exec_id=work.exec_id,
            fencing_token=work.fencing_token,
            run_tags=work.run_tags,
            run_config=work.run_config,
            instance=self._instance,
            load=partial(self._load, work),
        )
        context = AssetExecutionContext(
            chosen[0], self._log, execution=execution, resources=resources, assets_def=maker
        )
        context.selected_asset_keys = set(chosen)
        if work.partitions or work.input_partitions:
            own = self._partitions.own(work, chosen[0])
            context.__servo_partitions__(own, self._partitions.named(work, chosen[0]))
        return context

    def _load(self, work: Assignment, key: AssetKey, hint: Any, partition: str | None) -> Any:
        """The value of an asset that the code loads by its key."""
        config = RunConfig.of(msgspec.json.decode(work.run_config) if work.run_config else None)

        def opened(name: str) -> AbstractContextManager[Resources]:
            return self._opened(work, config, frozenset({name}))

        return self._values.load(work, key, hint, partition, opened=opened)

    def _configured(self, call: Call, config: RunConfig) -> dict[str, Any]:
        """The run config for this asset, in the type of its function."""
        key, signature = call.chosen[0], call.maker.signature
        given = config.for_op(key.canonical(), key.to_python_identifier(), call.maker.name)
        schema = call.maker.behaviour.config_schema
        if not given and not signature.config and schema is None:
            return {}
        where = f"asset {key}"
        model = schema_model(schema, where)
        found = build_config(model, given, where=where, environ=self._environ)
        call.context.op_config = found if model is None else found.model_dump()
        if not signature.config:
            return {}
        made = build_config(signature.config_type, given, where=where, environ=self._environ)
        return {signature.config: made}

    def _inputs(self, work: Assignment, key: AssetKey, resources: Resources) -> dict[str, Any]:
        types = self._project.makers[key].signature.types
        found: dict[str, Any] = {}
        for name, above in self._project.inputs[key].items():
            hint = types.get(name)
            found[name] = value = self._storing.load(work, above, name, resources, hint)
            if hint is None or fits(value, hint) or self._may_be_missing(above, value):
                continue
            raise Failure(
                f"{key} takes {name} as {name_of(hint)}, and {above} is {told(value)}:"
                f" correct the annotation of {name}, or what makes {above}",
                allow_retries=False,
            )
        return found

    def _may_be_missing(self, key: AssetKey, value: Any) -> bool:
        """Whether a value may be None because none of its partitions is materialized."""
        return value is None and bool(self._project.specs[key].metadata.get(ALLOW_MISSING))


def _made(
    call: Call, making: Making, arguments: Mapping[str, Any], checks: Mapping[AssetKey, Checking]
) -> TaskResult:
    """Call the function and read its results."""
    value = call.maker.fn(**arguments)
    if call.maker.observes:
        return seen(call, read_observed(call.maker, value))
    return making.end(read_returned(call.maker, call.chosen, value), checks)
