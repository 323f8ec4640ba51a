"""Calling an asset's function with what it asks for, and storing what it returns.

Resources are opened for the execution and closed after its output is stored, in reverse order,
whatever happens. An asset with an IO manager is stored and loaded by it; every other one by the
commit protocol of `servo.worker.outputs`.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from servo.core.events.tasks import Output, TaskError, TaskOutcome
from servo.core.keys import AssetKey, TaskOperation
from servo.runtime.system import SystemClock
from servo.sdk.assets_definition import AssetsDefinition
from servo.sdk.config import RunConfig, build_config
from servo.sdk.context import AssetExecutionContext, Execution, Logger
from servo.sdk.io_context import InputContext, OutputContext, Stored
from servo.sdk.io_manager import check_io_manager
from servo.sdk.metadata import encode_metadata
from servo.sdk.project import Project
from servo.sdk.resources import InitResourceContext, Resources, open_resources
from servo.sdk.results import DataVersion, Failure, MaterializeResult, Skip
from servo.sdk.results import Output as UserOutput
from servo.worker.check_results import split_results
from servo.worker.checking import Around, Checks
from servo.worker.messages import Done, Work
from servo.worker.outputs import OutputStore
from servo.worker.tables import as_asked

DEFAULT_IO = "io_manager"
NO_RESOURCES = Resources({})


class Calls:
    """Calls the functions of one project."""

    def __init__(
        self, project: Project, outputs: OutputStore, log: Logger, environ: Mapping[str, str]
    ) -> None:
        self._project = project
        self._outputs = outputs
        self._log = log
        self._environ = environ
        self._checks = Checks(project, outputs, SystemClock())
        runnable = {**dict.fromkeys(project.makers), **dict.fromkeys(project.checks)}
        self.keys = {str(key.canonical()): key for key in runnable}
        self._needed = {key: self._resources_of(key) for key in runnable}

    def _io_key(self, key: AssetKey) -> str:
        """The IO manager of an asset; empty if it has none."""
        maker = self._project.makers.get(key)
        named = maker.behaviour.io_manager_key if maker is not None else ""
        return named or (DEFAULT_IO if DEFAULT_IO in self._project.resources else "")

    def _resources_of(self, key: AssetKey) -> frozenset[str]:
        """The resources that an execution of an asset opens."""
        maker = self._project.makers.get(key)
        inputs = self._project.inputs.get(key, {})
        managers = [self._io_key(key), *map(self._io_key, inputs.values())]
        managers += [self._io_key(need) for need in self._checks.needs_of(key)]
        named = {*managers, *self._checks.resources_of(key)}
        if maker is not None:
            named |= {*maker.signature.resources, *maker.behaviour.required_resource_keys}
        return frozenset(name for name in named if name)

    def run(self, work: Work, key: AssetKey) -> Done:
        """One execution, with its resources open."""
        config = RunConfig.of(msgspec.json.decode(work.run_config) if work.run_config else None)
        needed = self._needed[key]
        if not needed:
            return self._call(work, key, config, NO_RESOURCES)
        context = InitResourceContext(run_id=work.run_id, log=self._log)
        with open_resources(
            self._project.resources,
            needed,
            self._environ,
            config=config.for_resources(),
            context=context,
        ) as resources:
            return self._call(work, key, config, resources)

    def _call(self, work: Work, key: AssetKey, config: RunConfig, resources: Resources) -> Done:
        context = self._context(work, key, resources)
        around = self._around(work, context, resources, config)
        if work.operation is TaskOperation.CHECK:
            return self._checks.begin(work, key, around).alone()
        maker = self._project.makers[key]
        checks = self._checks.of(work, key, around)
        arguments = self._inputs(work, key, resources)
        refused = checks.before(dict(arguments)) if checks is not None else None
        if refused is not None:
            return refused
        arguments |= self._configured(maker, key, config, context)
        if maker.signature.context:
            arguments[maker.signature.context] = context
        for name in maker.signature.resources:
            arguments[name] = getattr(resources, name)
        made = maker.fn(**arguments) if checks is None else checks.call(maker.fn, arguments)
        value, told = split_results(made)
        if isinstance(value, Skip):
            error = TaskError(code="Skipped", message=value.reason)
            found = () if checks is None else tuple(checks.found)
            return Done(
                exec_id=work.exec_id, outcome=TaskOutcome.SKIPPED, error=error, checks=found
            )
        if checks is None and not told:
            output = self._store(work, value, context, resources)
            return Done(exec_id=work.exec_id, outcome=TaskOutcome.SUCCEEDED, output=output)
        checks = checks or self._checks.begin(work, key, around)
        return checks.after(value, told, lambda: self._store(work, value, context, resources))

    def _around(
        self, work: Work, context: AssetExecutionContext, resources: Resources, config: RunConfig
    ) -> Around:
        """What the checks of an execution have at hand."""
        return Around(
            context=context,
            resources=resources,
            config=config,
            environ=self._environ,
            load=lambda key, name, hint: self._load(work, key, name, resources, hint),
            managed=bool(self._io_key(context.asset_key)),
        )

    def _context(self, work: Work, key: AssetKey, resources: Resources) -> AssetExecutionContext:
        execution = Execution(
            run_id=work.run_id,
            task_key=work.task_key,
            attempt=work.attempt,
            exec_id=work.exec_id,
            fencing_token=work.fencing_token,
            run_tags=work.tags,
        )
        return AssetExecutionContext(key, self._log, execution=execution, resources=resources)

    def _configured(
        self,
        maker: AssetsDefinition,
        key: AssetKey,
        config: RunConfig,
        context: AssetExecutionContext,
    ) -> dict[str, Any]:
        """The configuration of the run for this asset, as its function takes it."""
        given = config.for_op(key.canonical(), key.to_python_identifier(), maker.name)
        if not given and not maker.signature.config:
            return {}
        where = f"asset {key}"
        context.op_config = build_config(None, given, where=where, environ=self._environ)
        if not maker.signature.config:
            return {}
        wanted = maker.signature.config_type
        made = build_config(wanted, given, where=where, environ=self._environ)
        return {maker.signature.config: made}

    # --- inputs -------------------------------------------------------------------------------

    def _inputs(self, work: Work, key: AssetKey, resources: Resources) -> dict[str, Any]:
        types = self._project.makers[key].signature.types
        return {
            name: self._input(work, key, name, resources, types.get(name))
            for name in self._project.inputs[key]
        }

    def _input(self, work: Work, key: AssetKey, name: str, resources: Resources, hint: Any) -> Any:
        return self._load(work, self._project.inputs[key][name], name, resources, hint)

    def _load(
        self, work: Work, upstream: AssetKey, name: str, resources: Resources, hint: Any
    ) -> Any:
        """An asset as it was at the grant, or as its IO manager has it."""
        manager = self._io_key(upstream)
        if manager:
            loader = check_io_manager(getattr(resources, manager), manager)
            return loader.load_input(self._input_context(upstream, name, resources, hint))
        pinned = work.inputs.get(upstream.canonical())
        if pinned is None:
            raise Failure(
                f"{upstream} was never materialized, and {work.asset_key} needs it",
                allow_retries=False,
            )
        value = self._outputs.load(pinned.uri) if pinned.uri else None
        return as_asked(value, hint)

    def _input_context(
        self, upstream: AssetKey, name: str, resources: Resources, hint: Any
    ) -> InputContext:
        spec = self._project.specs[upstream]
        above = OutputContext(Stored(asset_key=upstream, definition_metadata=spec.metadata))
        stored = Stored(name=name, asset_key=upstream, type_hint=Any if hint is None else hint)
        return InputContext(stored, upstream_output=above, resources=resources, log=self._log)

    # --- outputs ------------------------------------------------------------------------------

    def _store(
        self, work: Work, value: Any, context: AssetExecutionContext, resources: Resources
    ) -> Output:
        metadata = dict(context.output_metadata)
        version: DataVersion | None = None
        if isinstance(value, MaterializeResult | UserOutput):
            metadata.update(value.metadata or {})
            version = value.data_version
            value = value.value
        manager = self._io_key(context.asset_key)
        if value is msgspec.UNSET or (value is None and not manager):
            output = Output(materialization_id=work.exec_id)
        elif manager:
            output = self._hand_over(work, value, context, resources, metadata)
        else:
            output = self._outputs.save(work.asset_key, work.exec_id, value)
        if not metadata and version is None:
            return output
        told = encode_metadata(metadata)
        given = "" if version is None else version.value
        return msgspec.structs.replace(output, metadata=told, data_version=given)

    def _hand_over(
        self,
        work: Work,
        value: Any,
        context: AssetExecutionContext,
        resources: Resources,
        metadata: dict[str, Any],
    ) -> Output:
        """Let the asset's IO manager store a value."""
        key = context.asset_key
        name = self._io_key(key)
        returns = self._project.makers[key].signature.returns
        stored = Stored(
            asset_key=key,
            run_id=work.run_id,
            step_key=work.task_key,
            definition_metadata=self._project.specs[key].metadata,
            type_hint=Any if returns is None else returns,
        )
        out = OutputContext(stored, resources=resources, log=self._log)
        check_io_manager(getattr(resources, name), name).handle_output(out, value)
        metadata.update(out.output_metadata)
        return Output(materialization_id=work.exec_id, format=name)
