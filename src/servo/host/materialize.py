"""`materialize()`: materialize assets in this process.

It uses a store in memory by default, so that a script or a test needs no folder and leaves none
behind. Everything else is the same as anywhere: events, a fold, grants, committed outputs.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from servo.core.declared import Declared
from servo.core.definitions import IN_PROCESS
from servo.core.explain.failures import failure_of
from servo.core.keys import AssetKey
from servo.core.state.rows.assets import AssetRow, CheckResultRow, MaterializationRow
from servo.core.state.rows.execution import RunRow, TaskRow
from servo.core.state.state import State
from servo.core.state.states import RunState, TaskState
from servo.core.tags import PARTITION_LABEL
from servo.errors import Invalid, NotFound
from servo.execution.attempt import Runner
from servo.execution.hooks import Hooks
from servo.execution.invoke import Calls
from servo.execution.outputs.patience import Patience
from servo.execution.outputs.store import OutputStore
from servo.host.waiting import FollowingChannel, Waiting
from servo.leader.leases.lease import LeaderAdvert
from servo.leader.service import Service
from servo.operations.deployments import submit_deployment
from servo.operations.run_requests import PreparedRun, start_run
from servo.planning.assets import plan_assets
from servo.planning.deployment import changes
from servo.planning.partition_choice import Named
from servo.processes.asset_log import asset_log
from servo.projection.read.reader import Reader
from servo.sdk.assets.assets_definition import AssetsDefinition, assets_in
from servo.sdk.assets.results import AssetMaterialization
from servo.sdk.assets.specs import AssetSpec, to_key
from servo.sdk.checks.definition import AssetCheckResult, AssetChecksDefinition, AssetCheckSeverity
from servo.sdk.checks.selection import chosen_of
from servo.sdk.definitions.needs import check_config
from servo.sdk.definitions.project import DEFAULT_IO_MANAGER, Project
from servo.sdk.metadata.entries import decode_metadata
from servo.sdk.option_kinds import by_name, several
from servo.sdk.partitions.definition import PartitionsDefinition
from servo.sdk.resources.environment import set_environment
from servo.sdk.resources.io_manager import InMemoryIOManager, stores_values
from servo.sdk.resources.run_config import RunConfig
from servo.sdk.resources.secrets import SecretProvider, providing
from servo.sdk.selection.selection import AssetSelection
from servo.workers.inline import InlineWorkers
from servo.workspace.address import Address
from servo.workspace.channels import LeaderInThisProcess
from servo.workspace.composition import open_world
from servo.workspace.instance.instance import ServoInstance
from servo.workspace.leader_lock import Leader
from servo.workspace.leading import LedByAnother, try_to_lead, who_leads
from servo.workspace.redacted_events import without_secrets
from servo.workspace.workspace import Workspace


class MaterializationFailed(Exception):
    """A run did not succeed; `__cause__` is the exception of the first failed asset, if known."""


class MaterializedRun:
    """The result of `materialize()`."""

    def __init__(  # noqa: PLR0913 - everything that it is asked about
        self,
        run: RunRow,
        tasks: Sequence[TaskRow],
        assets: Mapping[str, AssetRow],
        *,
        outputs: OutputStore,
        reader: Reader,
        memory: InMemoryIOManager | None = None,
        definitions: Mapping[str, PartitionsDefinition] | None = None,
    ) -> None:
        self.run = run
        self._definitions = dict(definitions or {})
        self._tasks = {row.task_key: row for row in tasks}
        self._assets = dict(assets)
        self._outputs = outputs
        self._reader = reader
        self._memory = memory

    @property
    def success(self) -> bool:
        """Whether every asset was materialized."""
        return self.run.state is RunState.SUCCEEDED

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self.run.run_id

    @property
    def materializations(self) -> list[MaterializationRow]:
        """The records of all outputs."""
        rows = self._reader.snapshot().rows("materializations")
        made = [row for row in rows if isinstance(row, MaterializationRow)]
        return [row for row in made if row.run_id == self.run.run_id]

    @property
    def check_results(self) -> list[CheckResultRow]:
        """The records of all checks."""
        rows = self._reader.snapshot().rows("check_results")
        made = [row for row in rows if isinstance(row, CheckResultRow)]
        return [row for row in made if row.run_id == self.run.run_id]

    def get_asset_check_evaluations(self) -> list[AssetCheckResult]:
        """The results of all checks."""
        return [
            AssetCheckResult(
                passed=row.passed,
                severity=AssetCheckSeverity(row.severity.value),
                description=row.message or None,
                metadata=decode_metadata(row.metadata) if row.metadata else {},
                check_name=row.check_name,
                asset_key=AssetKey.parse(row.asset_key),
            )
            for row in self.check_results
        ]

    def asset_materializations_for_node(self, node_name: str) -> list[AssetMaterialization]:
        """The materializations of the asset that a function with this name defines."""
        key = to_key(node_name.split("__")).canonical()
        return [
            AssetMaterialization(
                key,
                metadata=decode_metadata(row.metadata) if row.metadata else {},
                partition=self._plain(key, row.partition_key),
            )
            for row in self.materializations
            if row.asset_key == key
        ]

    def is_node_success(self, node_name: str) -> bool:
        """Whether every task of the asset that a function with this name defines succeeded."""
        return self._states(node_name) == {TaskState.SUCCEEDED}

    def is_node_failed(self, node_name: str) -> bool:
        """Whether a task of the asset that a function with this name defines failed."""
        return TaskState.FAILED in self._states(node_name)

    def is_node_skipped(self, node_name: str) -> bool:
        """Whether every task of the asset that a function with this name defines was skipped."""
        return self._states(node_name) == {TaskState.SKIPPED}

    def _states(self, node_name: str) -> set[TaskState]:
        key = to_key(node_name.split("__")).canonical()
        return {
            row.state for row in self._tasks.values() if key in (row.asset_key, *row.also_makes)
        }

    def asset_value(self, asset: Any, partition_key: str | None = None) -> Any:
        """The value of an asset that was materialized, or of one of its partitions."""
        key = to_key(asset).canonical()
        row = self._assets.get(key)
        if row is None or row.last_materialization_run_id != self.run.run_id:
            raise NotFound(
                f"{key} was not materialized in this run", remedy="see `failures` for the reason"
            )
        made = partition_key or self._plain(key, row.last_partition_key)
        if self._memory is not None:
            parts = to_key(asset).parts
            return self._memory.values.get(parts if made is None else (*parts, made))
        uri, digest = row.last_output_uri, row.last_content_hash
        if partition_key is not None:
            stored = self._partition(key, partition_key)
            uri, digest = stored.output_uri, stored.content_hash
        return self._outputs.load(uri, digest) if uri else None

    def _partition(self, key: str, partition_key: str) -> MaterializationRow:
        for row in self.materializations:
            if row.asset_key == key and self._plain(key, row.partition_key) == partition_key:
                return row
        raise NotFound(
            f"the partition {partition_key!r} of {key} was not materialized in this run",
            remedy="see `failures` for the reason",
        )

    def _plain(self, key: str, typed: str | None) -> str | None:
        """A partition as people write it."""
        definition = self._definitions.get(key)
        return typed if typed is None or definition is None else definition.plain_key(typed)

    def output_for_node(self, node_str: str, output_name: str = "result") -> Any:
        """The value of the asset that a function with this name defines."""
        del output_name
        return self.asset_value(node_str.split("__"))

    @property
    def failures(self) -> dict[AssetKey, str]:
        """The error messages of the failed assets, by key."""
        return {
            AssetKey.parse(key): failure_of(self._tasks[task])
            for task in self.failed_tasks
            for key in (self._tasks[task].asset_key, *self._tasks[task].also_makes)
        }

    @property
    def failed_tasks(self) -> list[str]:
        """The keys of the tasks that failed."""
        return [row.task_key for row in self._tasks.values() if row.state is TaskState.FAILED]


def materialize(  # noqa: PLR0913 - the options people know
    assets: Sequence[AssetsDefinition | AssetSpec | AssetChecksDefinition],
    *,
    selection: Any = None,
    resources: Mapping[str, Any] | None = None,
    run_config: Any = None,
    store: str | None = None,
    instance: ServoInstance | None = None,
    partition_key: str | None = None,
    partition_keys: Sequence[Named] = (),
    tags: Mapping[str, str] | None = None,
    raise_on_error: bool = True,
    secrets: Sequence[SecretProvider] = (),
) -> MaterializedRun:
    """Materialize assets in this process; `store` or `instance` says where to store the outputs.

    `partition_keys` are several partitions, or `PartitionKeyRange`s of them. Without a store,
    everything is kept in memory, and gone with the result.
    """
    return _materialize(
        assets,
        selection=selection,
        resources=resources,
        run_config=run_config,
        instance=_instance(store, instance),
        named=_named(partition_key, partition_keys),
        tags=tags,
        raise_on_error=raise_on_error,
        secrets=secrets,
    )


def materialize_to_memory(  # noqa: PLR0913 - the options people know
    assets: Sequence[AssetsDefinition | AssetSpec | AssetChecksDefinition],
    *,
    selection: Any = None,
    resources: Mapping[str, Any] | None = None,
    run_config: Any = None,
    instance: ServoInstance | None = None,
    partition_key: str | None = None,
    partition_keys: Sequence[Named] = (),
    tags: Mapping[str, str] | None = None,
    raise_on_error: bool = True,
    secrets: Sequence[SecretProvider] = (),
) -> MaterializedRun:
    """Materialize assets in this process with IO managers in memory: no value is stored."""
    memory = InMemoryIOManager()
    assets = several(assets, what="the list of assets")
    resources = by_name(resources, what="materialize: resources")
    return _materialize(
        assets,
        selection=selection,
        resources={**resources, **_in_memory(assets, resources, memory)},
        run_config=run_config,
        instance=_instance(None, instance),
        named=_named(partition_key, partition_keys),
        tags=tags,
        raise_on_error=raise_on_error,
        secrets=secrets,
        memory=memory,
    )


def _in_memory(
    assets: Sequence[Any], resources: Mapping[str, Any], memory: InMemoryIOManager
) -> dict[str, Any]:
    """The same IO manager under every name of an IO manager."""
    makers = [item for item in assets if isinstance(item, AssetsDefinition)]
    named = {maker.io_manager_key(key) for maker in makers for key in maker.keys}
    given = {name for name, value in resources.items() if stores_values(value)}
    return dict.fromkeys({DEFAULT_IO_MANAGER, *named, *given} - {""}, memory)


def _materialize(  # noqa: PLR0913 - the options people know
    assets: Sequence[AssetsDefinition | AssetSpec | AssetChecksDefinition],
    *,
    selection: Any,
    resources: Mapping[str, Any] | None,
    run_config: Any,
    instance: ServoInstance,
    named: Sequence[Named],
    tags: Mapping[str, str] | None,
    raise_on_error: bool,
    secrets: Sequence[SecretProvider] = (),
    memory: InMemoryIOManager | None = None,
) -> MaterializedRun:
    set_environment(os.environ)
    assets = several(assets, what="the list of assets")
    found = [item for item in assets if not isinstance(item, AssetChecksDefinition)]
    checks = [item for item in assets if isinstance(item, AssetChecksDefinition)]
    held = by_name(resources, what="materialize: resources")
    project = Project(list(assets_in(found)), resources=held, checks=checks, secrets=secrets)
    config = RunConfig.of(run_config).to_config_dict() if run_config is not None else {}
    check_config(project, config)
    chosen, wanted = project.order, None
    if selection is not None:
        query = AssetSelection.from_coercible(selection)
        chosen, wanted = query.resolve(project), chosen_of(query, project)
    world, paths = instance.world, instance.paths
    errors: dict[str, BaseException] = {}
    log = asset_log()
    outputs = OutputStore(world.store, paths, patience=Patience(world.clock, log))
    calls = Calls(project, outputs, log, os.environ, clock=world.clock, instance=instance)
    hooks = Hooks(project, log, os.environ, load=outputs.load, instance=instance)
    runner = Runner(calls, world.clock, on_error=errors.__setitem__, hooks=hooks)
    inline: list[InlineWorkers] = []

    def workers(service: Service) -> InlineWorkers:
        inline.append(InlineWorkers(service, world.entropy))
        return inline[0]

    led = try_to_lead(
        instance.address, world, workers=workers, leader=Leader(command="materialize()")
    )
    if led is None:
        raise LedByAnother(who_leads(instance.address, world) or LeaderAdvert(pid=0))
    service = led.service
    waiting = Waiting(service)
    channel = FollowingChannel(LeaderInThisProcess(service), waiting)
    workspace = Workspace(instance.address, world, channel, actor=service.identity)
    declared = without_secrets(Declared(assets=project.definitions()))
    with providing(project.secrets), led, instance.led_by(service):
        found = service.read(lambda state: changes(state, IN_PROCESS, declared))
        submit_deployment(workspace, found, declared)
        plan = plan_assets(
            project,
            chosen,
            checks=wanted,
            partition_keys=named,
            now=world.clock.now(),
            dynamic_partitions=instance,
        )
        prepared = PreparedRun(
            plan=without_secrets(plan),
            text="all assets" if selection is None else str(selection),
            location=IN_PROCESS,
            labels={**_label(named), **by_name(tags, what="materialize: tags")},
            config=config,
        )
        run_id = start_run(workspace, prepared).run_id
        inline[0].work_until(lambda: waiting.ended(run_id) is not None, runner)
        run, tasks, latest = service.read(lambda state: _made(state, run_id))
        reader = Reader(world.store, paths)
        result = MaterializedRun(
            run,
            tasks,
            latest,
            outputs=outputs,
            reader=reader,
            memory=memory,
            definitions=_divided(project),
        )
    if raise_on_error and not result.success:
        _raise(result, errors)
    return result


def _made(state: State, run_id: str) -> tuple[RunRow, list[TaskRow], dict[str, AssetRow]]:
    """A run with its tasks, and the assets as they are now."""
    tasks = [row for row in state.tasks.values() if row.run_id == run_id]
    return state.runs.rows[run_id], tasks, dict(state.assets.rows)


def _named(one: str | None, several: Sequence[Named]) -> tuple[Named, ...]:
    """The partitions given by either parameter."""
    if isinstance(several, str):
        raise Invalid(
            f"partition_keys is the string {several!r}, not a list", remedy=f"pass [{several!r}]"
        )
    return (*(() if one is None else (one,)), *several)


def _label(named: Sequence[Named]) -> dict[str, str]:
    one = named[0] if len(named) == 1 else None
    return {PARTITION_LABEL: str(one)} if isinstance(one, str) else {}


def _divided(project: Project) -> dict[str, PartitionsDefinition]:
    """The partitions definitions of the partitioned assets of a project."""
    found = {key.canonical(): spec.partitions_def for key, spec in project.specs.items()}
    return {key: definition for key, definition in found.items() if definition is not None}


def _instance(store: str | None, instance: ServoInstance | None) -> ServoInstance:
    """The instance that stores everything."""
    if store is not None and instance is not None:
        raise Invalid("both store and instance were given", remedy="use one of the two")
    if store is not None:
        return ServoInstance(open_world(store), Address.of(store))
    return ServoInstance.ephemeral() if instance is None else instance


def _raise(result: MaterializedRun, errors: Mapping[str, BaseException]) -> None:
    told = "; ".join(f"{key}: {why}" for key, why in result.failures.items())
    first = next((errors[task] for task in result.failed_tasks if task in errors), None)
    raise MaterializationFailed(told or f"the run finished as {result.run.state.value}") from first
