"""Where the values of assets are: with their IO manager, or in the store by the commit protocol."""

from typing import Any

import msgspec

from servo.core.events.tasks import Output
from servo.core.keys import AssetKey
from servo.sdk.context import AssetExecutionContext, Logger
from servo.sdk.io_context import InputContext, OutputContext, Stored
from servo.sdk.io_manager import check_io_manager
from servo.sdk.metadata import encode_metadata
from servo.sdk.project import Project
from servo.sdk.resources import Resources
from servo.sdk.results import Failure
from servo.sdk.specs import IO_MANAGER_KEY
from servo.worker.messages import Work
from servo.worker.outputs import OutputStore
from servo.worker.returned import Made
from servo.worker.tables import as_asked

DEFAULT_IO = "io_manager"


class Storing:
    """Stores and loads the values of one project."""

    def __init__(self, project: Project, outputs: OutputStore, log: Logger) -> None:
        self._project = project
        self._outputs = outputs
        self._log = log

    def io_key(self, key: AssetKey) -> str:
        """The IO manager of an asset; empty if it has none."""
        maker = self._project.makers.get(key)
        if maker is not None:
            named = maker.io_manager_key(key)
        else:
            named = str(self._project.specs[key].metadata.get(IO_MANAGER_KEY, ""))
        return named or (DEFAULT_IO if DEFAULT_IO in self._project.resources else "")

    # --- loading ------------------------------------------------------------------------------

    def load(
        self, work: Work, upstream: AssetKey, name: str, resources: Resources, hint: Any
    ) -> Any:
        """An asset as it was at the grant, or as its IO manager has it."""
        manager = self.io_key(upstream)
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

    # --- storing ------------------------------------------------------------------------------

    def store(
        self,
        work: Work,
        name: str,
        made: Made,
        context: AssetExecutionContext,
        resources: Resources,
    ) -> Output:
        """Store what was made; its materialization has this name."""
        metadata = {**context.metadata_of(made.key), **made.metadata}
        value, manager = made.value, self.io_key(made.key)
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
        name = self.io_key(key)
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
