"""Calling an asset's function with what it asks for, and storing what it returns.

Resources are opened for the execution and closed after its output is stored, in reverse order,
whatever happens. An asset with an IO manager is stored and loaded by it; every other one by the
commit protocol of `servo.worker.outputs`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from servo.core.events.tasks import Gate, Output, TaskError, TaskOutcome
from servo.core.keys import AssetKey
from servo.sdk.assets_definition import AssetsDefinition
from servo.sdk.checks import AssetCheckResult
from servo.sdk.config import RunConfig, build_config
from servo.sdk.context import AssetExecutionContext, Execution, Logger
from servo.sdk.io_context import InputContext, OutputContext, Stored
from servo.sdk.io_manager import check_io_manager
from servo.sdk.metadata import encode_metadata
from servo.sdk.project import Project
from servo.sdk.resources import InitResourceContext, Resources, open_resources
from servo.sdk.results import AssetObservation, Failure, ObserveResult, Skip
from servo.sdk.specs import IO_MANAGER_KEY
from servo.worker.checking import gate, run_checks
from servo.worker.messages import Checked, Done, Reported, Work
from servo.worker.outputs import OutputStore
from servo.worker.returned import Made, Told, seen_by, told_by
from servo.worker.tables import as_asked

DATA_VERSION_TAG = "dagster/data_version"
DEFAULT_IO = "io_manager"
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
        instance: Any = None,
    ) -> None:
        self._project = project
        self._outputs = outputs
        self._log = log
        self._environ = environ
        self._instance = instance
        self.keys = {str(key.canonical()): key for key in project.makers}
        self._needed = {key: self._resources_of(key) for key in project.makers}

    def _io_key(self, key: AssetKey) -> str:
        """The IO manager of an asset; empty if it has none."""
        maker = self._project.makers.get(key)
        if maker is not None:
            named = maker.io_manager_key(key)
        else:
            named = str(self._project.specs[key].metadata.get(IO_MANAGER_KEY, ""))
        return named or (DEFAULT_IO if DEFAULT_IO in self._project.resources else "")

    def _resources_of(self, key: AssetKey) -> frozenset[str]:
        """The resources that an execution of an asset opens."""
        maker = self._project.makers[key]
        made = [spec.key for spec in maker.specs]
        managers = [self._io_key(one) for one in (*made, *self._project.inputs[key].values())]
        for one in made:
            for check in self._project.checks.get(one, ()):
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
        chosen = [key, *(self.keys[name] for name in work.also_makes)]
        context = self._context(work, maker, chosen, resources)
        arguments = self._inputs(work, key, resources)
        arguments |= self._configured(maker, key, config, context)
        if maker.signature.context:
            arguments[maker.signature.context] = context
        for name in maker.signature.resources:
            arguments[name] = getattr(resources, name)
        value = maker.fn(**arguments)
        if maker.observes:
            return self._seen(work, seen_by(maker, value), context)
        return self._made(work, maker, told_by(maker, chosen, value), context, resources)

    def _seen(self, work: Work, seen: ObserveResult, context: AssetExecutionContext) -> Done:
        told = {**context.output_metadata, **(seen.metadata or {})}
        output = Output(
            materialization_id="",
            data_version="" if seen.data_version is None else seen.data_version.value,
            metadata=encode_metadata(told) if told else "",
        )
        return Done(
            exec_id=work.exec_id,
            outcome=TaskOutcome.SUCCEEDED,
            output=output,
            reported=_reports(context),
        )

    def _made(
        self,
        work: Work,
        maker: AssetsDefinition,
        told: Iterable[Told],
        context: AssetExecutionContext,
        resources: Resources,
    ) -> Done:
        """Store everything that was made, check it, and say how the execution ended."""
        outputs: dict[AssetKey, Output] = {}
        checked: list[Checked] = []
        skipped: Skip | None = None
        for item in told:
            if isinstance(item, Made):
                name = f"{work.exec_id}-{len(outputs)}" if outputs else work.exec_id
                outputs[item.key] = self._store(work, name, item, context, resources)
                checks = self._project.checks.get(item.key)
                if checks:
                    value = None if item.value is msgspec.UNSET else item.value
                    found = run_checks(checks, value, context, resources)
                    checked += [_about(check, item.key, name) for check in found]
            elif isinstance(item, Skip):
                skipped = item
            elif isinstance(item, AssetCheckResult):
                raise Failure(f"{maker.name} reports a check that it does not declare")
            else:
                context.log_event(item)
        if skipped is not None or not outputs:
            reason = skipped.reason if skipped is not None else f"{maker.name} made nothing"
            error = TaskError(code="Skipped", message=reason)
            return Done(exec_id=work.exec_id, outcome=TaskOutcome.SKIPPED, error=error)
        return self._ended(work, maker, outputs, checked, _reports(context))

    def _ended(
        self,
        work: Work,
        maker: AssetsDefinition,
        outputs: dict[AssetKey, Output],
        checked: list[Checked],
        reported: tuple[Reported, ...],
    ) -> Done:
        """How an execution ends whose outputs were checked."""
        if checked:
            gates = {
                key: gate([check for check in checked if check.asset_key == key.canonical()])
                for key in outputs
            }
            if Gate.QUARANTINED in gates.values() and not maker.behaviour.quarantine:
                return _held_up(work, checked)
            outputs = {
                key: msgspec.structs.replace(output, gate=gates[key])
                for key, output in outputs.items()
            }
        several = len(maker.specs) > 1
        named = [
            msgspec.structs.replace(output, asset_key=key.canonical()) if several else output
            for key, output in outputs.items()
        ]
        return Done(
            exec_id=work.exec_id,
            outcome=TaskOutcome.SUCCEEDED,
            output=None if several else named[0],
            outputs=tuple(named) if several else (),
            checks=tuple(checked),
            reported=reported,
        )

    def _context(
        self, work: Work, maker: AssetsDefinition, chosen: list[AssetKey], resources: Resources
    ) -> AssetExecutionContext:
        execution = Execution(
            run_id=work.run_id,
            task_key=work.task_key,
            attempt=work.attempt,
            exec_id=work.exec_id,
            fencing_token=work.fencing_token,
            run_tags=work.tags,
            instance=self._instance,
        )
        context = AssetExecutionContext(
            chosen[0], self._log, execution=execution, resources=resources, assets_def=maker
        )
        context.selected_asset_keys = set(chosen)
        return context

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
        self,
        work: Work,
        name: str,
        made: Made,
        context: AssetExecutionContext,
        resources: Resources,
    ) -> Output:
        """Store what was made; its materialization has this name."""
        metadata = {**context.metadata_of(made.key), **made.metadata}
        value, manager = made.value, self._io_key(made.key)
        if value is msgspec.UNSET or (value is None and not manager):
            output = Output(materialization_id=name)
        elif manager:
            output = self._hand_over(work, made, name, resources, metadata)
        else:
            output = self._outputs.save(made.key.canonical(), work.exec_id, value)
            if name != work.exec_id:
                output = msgspec.structs.replace(output, materialization_id=name)
        if not metadata and made.version is None:
            return output
        told = encode_metadata(metadata)
        given = "" if made.version is None else made.version.value
        return msgspec.structs.replace(output, metadata=told, data_version=given)

    def _hand_over(
        self,
        work: Work,
        made: Made,
        materialization: str,
        resources: Resources,
        metadata: dict[str, Any],
    ) -> Output:
        """Let the asset's IO manager store a value."""
        key = made.key
        name = self._io_key(key)
        maker = self._project.makers[key]
        returns = maker.signature.returns if len(maker.specs) == 1 else None
        names = {found: output for output, found in maker.keys_by_output_name.items()}
        stored = Stored(
            name=names[key],
            asset_key=key,
            run_id=work.run_id,
            step_key=work.task_key,
            definition_metadata=self._project.specs[key].metadata,
            type_hint=Any if returns is None else returns,
        )
        out = OutputContext(stored, resources=resources, log=self._log)
        check_io_manager(getattr(resources, name), name).handle_output(out, made.value)
        metadata.update(out.output_metadata)
        return Output(materialization_id=materialization, format=name)


def _about(check: Checked, key: AssetKey, materialization: str) -> Checked:
    return msgspec.structs.replace(
        check, asset_key=key.canonical(), materialization_id=materialization
    )


def _held_up(work: Work, checked: list[Checked]) -> Done:
    """How an execution ends whose output a check keeps from being used."""
    names = ", ".join(check.name for check in checked if not check.passed and check.blocking)
    return Done(
        exec_id=work.exec_id,
        outcome=TaskOutcome.FAILED,
        error=TaskError(
            code="CheckFailed", message=f"a blocking check failed: {names}", retriable=False
        ),
        checks=tuple(checked),
    )


def _reports(context: AssetExecutionContext) -> tuple[Reported, ...]:
    """What the code said of assets that it does not make."""
    return tuple(
        Reported(
            asset_key=event.asset_key.canonical(),
            seen=isinstance(event, AssetObservation),
            partition=event.partition,
            data_version=(event.tags or {}).get(DATA_VERSION_TAG, ""),
            metadata=encode_metadata(dict(event.metadata)) if event.metadata else "",
        )
        for event in context.logged_events
    )
