"""Calling an asset's function with what it asks for, and storing what it returns.

Resources are opened for the execution and closed after its output is stored, in reverse order,
whatever happens. An asset with an IO manager is stored and loaded by it; every other one by the
commit protocol of `servo.worker.outputs`.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from servo.core.events.tasks import Gate, Output, TaskError, TaskOutcome
from servo.core.keys import AssetKey
from servo.sdk.assets_definition import AssetsDefinition
from servo.sdk.config import RunConfig, build_config, schema_model
from servo.sdk.context import AssetExecutionContext, Execution, Logger
from servo.sdk.io_context import InputContext, OutputContext, Stored
from servo.sdk.io_manager import check_io_manager
from servo.sdk.metadata import encode_metadata
from servo.sdk.project import Project
from servo.sdk.resources import InitResourceContext, Resources, open_resources
from servo.sdk.results import DataVersion, Failure, MaterializeResult, Skip
from servo.sdk.results import Output as UserOutput
from servo.worker.checking import gate, run_checks
from servo.worker.messages import Checked, Done, Work
from servo.worker.outputs import OutputStore
from servo.worker.tables import as_asked


def _bare(value: Any) -> Any:
    """What a function made, without what it says about it."""
    if isinstance(value, MaterializeResult | UserOutput):
        value = value.value
    return None if value is msgspec.UNSET else value


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
        self.keys = {str(key.canonical()): key for key in project.makers}
        self._needed = {key: self._resources_of(key) for key in project.makers}

    def _io_key(self, key: AssetKey) -> str:
        """The IO manager of an asset; empty if it has none."""
        maker = self._project.makers.get(key)
        named = maker.behaviour.io_manager_key if maker is not None else ""
        return named or (DEFAULT_IO if DEFAULT_IO in self._project.resources else "")

    def _resources_of(self, key: AssetKey) -> frozenset[str]:
        """The resources that an execution of an asset opens."""
        maker = self._project.makers[key]
        managers = [self._io_key(key), *map(self._io_key, self._project.inputs[key].values())]
        for check in self._project.checks.get(key, ()):
            managers += check.signature.resources
        named = {*maker.signature.resources, *maker.behaviour.required_resource_keys, *managers}
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
        maker = self._project.makers[key]
        context = self._context(work, key, resources)
        arguments = self._inputs(work, key, resources)
        arguments |= self._configured(maker, key, config, context)
        if maker.signature.context:
            arguments[maker.signature.context] = context
        for name in maker.signature.resources:
            arguments[name] = getattr(resources, name)
        value = maker.fn(**arguments)
        if isinstance(value, Skip):
            error = TaskError(code="Skipped", message=value.reason)
            return Done(exec_id=work.exec_id, outcome=TaskOutcome.SKIPPED, error=error)
        output = self._store(work, value, context, resources)
        checks = self._project.checks.get(key)
        if not checks:
            return Done(exec_id=work.exec_id, outcome=TaskOutcome.SUCCEEDED, output=output)
        return self._checked(
            work, key, output, run_checks(checks, _bare(value), context, resources)
        )

    def _checked(self, work: Work, key: AssetKey, output: Output, checked: list[Checked]) -> Done:
        """How an execution ends whose output was checked."""
        decided = gate(checked)
        held = decided is Gate.QUARANTINED
        if held and not self._project.makers[key].behaviour.quarantine:
            names = ", ".join(c.name for c in checked if not c.passed and c.blocking)
            error = TaskError(
                code="CheckFailed", message=f"a blocking check failed: {names}", retriable=False
            )
            return Done(
                exec_id=work.exec_id,
                outcome=TaskOutcome.FAILED,
                error=error,
                checks=tuple(checked),
            )
        return Done(
            exec_id=work.exec_id,
            outcome=TaskOutcome.SUCCEEDED,
            output=msgspec.structs.replace(output, gate=decided),
            checks=tuple(checked),
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
        schema = maker.behaviour.config_schema
        if not given and not maker.signature.config and schema is None:
            return {}
        where = f"asset {key}"
        model = schema_model(schema, where)
        found = build_config(model, given, where=where, environ=self._environ)
        context.op_config = found if model is None else found.model_dump()
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
        upstream = self._project.inputs[key][name]
        manager = self._io_key(upstream)
        if manager:
            loader = check_io_manager(getattr(resources, manager), manager)
            return loader.load_input(self._input_context(upstream, name, resources, hint))
        pinned = work.inputs.get(upstream.canonical())
        if pinned is None:
            raise Failure(
                f"{upstream} was never materialized, and {key} is made from it",
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
