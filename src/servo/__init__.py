"""Servo: a data orchestrator whose only database is a bucket.

Names are loaded when they are first used, so that `import servo` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from servo.core.keys import AssetKey
    from servo.sdk.asset import asset
    from servo.sdk.assets_definition import AssetsDefinition
    from servo.sdk.check_context import AssetCheckExecutionContext
    from servo.sdk.check_gating import CheckPolicy
    from servo.sdk.checks import (
        AssetCheckKey,
        AssetCheckResult,
        AssetChecksDefinition,
        AssetCheckSeverity,
        AssetCheckSpec,
        asset_check,
        multi_asset_check,
    )
    from servo.sdk.config import Config, PermissiveConfig
    from servo.sdk.context import AssetExecutionContext
    from servo.sdk.definitions import Definitions
    from servo.sdk.environment import EnvVar
    from servo.sdk.executors import (
        ExecutorDefinition,
        in_process_executor,
        multi_or_in_process_executor,
        multiprocess_executor,
    )
    from servo.sdk.gathering import (
        load_asset_checks_from_current_module,
        load_asset_checks_from_modules,
        load_asset_checks_from_package_module,
        load_asset_checks_from_package_name,
        load_assets_from_current_module,
        load_assets_from_modules,
        load_assets_from_package_module,
        load_assets_from_package_name,
    )
    from servo.sdk.hooks import (
        HookContext,
        HookDefinition,
        build_hook_context,
        failure_hook,
        success_hook,
    )
    from servo.sdk.io_context import (
        InputContext,
        OutputContext,
        build_input_context,
        build_output_context,
    )
    from servo.sdk.io_manager import ConfigurableIOManager, IOManager, io_manager, mem_io_manager
    from servo.sdk.jobs import define_asset_job
    from servo.sdk.metadata import (
        MetadataValue,
        TableColumn,
        TableColumnDep,
        TableColumnLineage,
        TableRecord,
        TableSchema,
    )
    from servo.sdk.multi_asset import AssetOut, multi_asset
    from servo.sdk.observable import (
        SourceAsset,
        external_asset_from_spec,
        external_assets_from_specs,
        observable_source_asset,
    )
    from servo.sdk.resources import (
        ConfigurableResource,
        InitResourceContext,
        ResourceParam,
        build_init_resource_context,
        build_resources,
        resource,
    )
    from servo.sdk.results import (
        AssetMaterialization,
        AssetObservation,
        DataVersion,
        Failure,
        MaterializeResult,
        ObserveResult,
        Output,
        RetryRequested,
        Skip,
    )
    from servo.sdk.retries import Backoff, Jitter, RetryPolicy
    from servo.sdk.run_config import RunConfig
    from servo.sdk.secrets import EnvSecrets, Secret, SecretProvider
    from servo.sdk.selection import AssetSelection
    from servo.sdk.specs import AssetDep, AssetIn, AssetSpec
    from servo.worker.built_contexts import (
        build_asset_check_context,
        build_asset_context,
        build_op_context,
    )
    from servo.worker.filesystem_io import FilesystemIOManager
    from servo.worker.instance import ServoInstance
    from servo.worker.instance_records import (
        AssetEventType,
        EventRecordsFilter,
        RunsFilter,
        RunStatus,
    )
    from servo.worker.loading import load_asset
    from servo.worker.materialize import materialize, materialize_to_memory
    from servo.worker.pipes.handler import PipesMessageHandler
    from servo.worker.pipes.session import (
        PipesClientCompletedInvocation,
        PipesSession,
        open_pipes_session,
    )
    from servo.worker.pipes.subprocess_client import PipesExecutionError, PipesSubprocessClient
    from servo.worker.pipes.transport import (
        PipesContextInjector,
        PipesEnvContextInjector,
        PipesFileContextInjector,
        PipesFileMessageReader,
        PipesMessageReader,
        PipesTempFileContextInjector,
        PipesTempFileMessageReader,
    )
    from servo.worker.secret_files import FileSecrets
    from servo.worker.source_paths import file_relative_path

__version__ = "0.1.0"

__all__ = [
    "AssetCheckExecutionContext",
    "AssetCheckKey",
    "AssetCheckResult",
    "AssetCheckSeverity",
    "AssetCheckSpec",
    "AssetChecksDefinition",
    "AssetDep",
    "AssetEventType",
    "AssetExecutionContext",
    "AssetIn",
    "AssetKey",
    "AssetMaterialization",
    "AssetObservation",
    "AssetOut",
    "AssetSelection",
    "AssetSpec",
    "AssetsDefinition",
    "Backoff",
    "CheckPolicy",
    "Config",
    "ConfigurableIOManager",
    "ConfigurableResource",
    "DataVersion",
    "Definitions",
    "EnvSecrets",
    "EnvVar",
    "EventRecordsFilter",
    "ExecutorDefinition",
    "Failure",
    "FileSecrets",
    "FilesystemIOManager",
    "HookContext",
    "HookDefinition",
    "IOManager",
    "InitResourceContext",
    "InputContext",
    "Jitter",
    "MaterializeResult",
    "MetadataValue",
    "ObserveResult",
    "Output",
    "OutputContext",
    "PermissiveConfig",
    "PipesClientCompletedInvocation",
    "PipesContextInjector",
    "PipesEnvContextInjector",
    "PipesExecutionError",
    "PipesFileContextInjector",
    "PipesFileMessageReader",
    "PipesMessageHandler",
    "PipesMessageReader",
    "PipesSession",
    "PipesSubprocessClient",
    "PipesTempFileContextInjector",
    "PipesTempFileMessageReader",
    "ResourceParam",
    "RetryPolicy",
    "RetryRequested",
    "RunConfig",
    "RunStatus",
    "RunsFilter",
    "Secret",
    "SecretProvider",
    "ServoInstance",
    "Skip",
    "SourceAsset",
    "TableColumn",
    "TableColumnDep",
    "TableColumnLineage",
    "TableRecord",
    "TableSchema",
    "__version__",
    "asset",
    "asset_check",
    "build_asset_check_context",
    "build_asset_context",
    "build_hook_context",
    "build_init_resource_context",
    "build_input_context",
    "build_op_context",
    "build_output_context",
    "build_resources",
    "define_asset_job",
    "external_asset_from_spec",
    "external_assets_from_specs",
    "failure_hook",
    "file_relative_path",
    "in_process_executor",
    "io_manager",
    "load_asset",
    "load_asset_checks_from_current_module",
    "load_asset_checks_from_modules",
    "load_asset_checks_from_package_module",
    "load_asset_checks_from_package_name",
    "load_assets_from_current_module",
    "load_assets_from_modules",
    "load_assets_from_package_module",
    "load_assets_from_package_name",
    "materialize",
    "materialize_to_memory",
    "mem_io_manager",
    "multi_asset",
    "multi_asset_check",
    "multi_or_in_process_executor",
    "multiprocess_executor",
    "observable_source_asset",
    "open_pipes_session",
    "resource",
    "success_hook",
]

_PLACES = {
    "AssetCheckExecutionContext": "servo.sdk.check_context",
    "AssetCheckKey": "servo.sdk.checks",
    "AssetCheckResult": "servo.sdk.checks",
    "AssetCheckSeverity": "servo.sdk.checks",
    "AssetCheckSpec": "servo.sdk.checks",
    "AssetChecksDefinition": "servo.sdk.checks",
    "AssetDep": "servo.sdk.specs",
    "AssetEventType": "servo.worker.instance_records",
    "AssetExecutionContext": "servo.sdk.context",
    "AssetIn": "servo.sdk.specs",
    "AssetKey": "servo.core.keys",
    "AssetMaterialization": "servo.sdk.results",
    "AssetObservation": "servo.sdk.results",
    "AssetOut": "servo.sdk.multi_asset",
    "AssetSelection": "servo.sdk.selection",
    "AssetSpec": "servo.sdk.specs",
    "AssetsDefinition": "servo.sdk.assets_definition",
    "Backoff": "servo.sdk.retries",
    "CheckPolicy": "servo.sdk.check_gating",
    "Config": "servo.sdk.config",
    "ConfigurableIOManager": "servo.sdk.io_manager",
    "ConfigurableResource": "servo.sdk.resources",
    "DataVersion": "servo.sdk.results",
    "Definitions": "servo.sdk.definitions",
    "EnvSecrets": "servo.sdk.secrets",
    "EnvVar": "servo.sdk.environment",
    "EventRecordsFilter": "servo.worker.instance_records",
    "ExecutorDefinition": "servo.sdk.executors",
    "Failure": "servo.sdk.results",
    "FileSecrets": "servo.worker.secret_files",
    "FilesystemIOManager": "servo.worker.filesystem_io",
    "HookContext": "servo.sdk.hooks",
    "HookDefinition": "servo.sdk.hooks",
    "IOManager": "servo.sdk.io_manager",
    "InitResourceContext": "servo.sdk.resources",
    "InputContext": "servo.sdk.io_context",
    "Jitter": "servo.sdk.retries",
    "MaterializeResult": "servo.sdk.results",
    "MetadataValue": "servo.sdk.metadata",
    "ObserveResult": "servo.sdk.results",
    "Output": "servo.sdk.results",
    "OutputContext": "servo.sdk.io_context",
    "PermissiveConfig": "servo.sdk.config",
    "PipesClientCompletedInvocation": "servo.worker.pipes.session",
    "PipesContextInjector": "servo.worker.pipes.transport",
    "PipesEnvContextInjector": "servo.worker.pipes.transport",
    "PipesExecutionError": "servo.worker.pipes.subprocess_client",
    "PipesFileContextInjector": "servo.worker.pipes.transport",
    "PipesFileMessageReader": "servo.worker.pipes.transport",
    "PipesMessageHandler": "servo.worker.pipes.handler",
    "PipesMessageReader": "servo.worker.pipes.transport",
    "PipesSession": "servo.worker.pipes.session",
    "PipesSubprocessClient": "servo.worker.pipes.subprocess_client",
    "PipesTempFileContextInjector": "servo.worker.pipes.transport",
    "PipesTempFileMessageReader": "servo.worker.pipes.transport",
    "ResourceParam": "servo.sdk.resources",
    "RetryPolicy": "servo.sdk.retries",
    "RetryRequested": "servo.sdk.results",
    "RunConfig": "servo.sdk.run_config",
    "RunStatus": "servo.worker.instance_records",
    "RunsFilter": "servo.worker.instance_records",
    "Secret": "servo.sdk.secrets",
    "SecretProvider": "servo.sdk.secrets",
    "ServoInstance": "servo.worker.instance",
    "Skip": "servo.sdk.results",
    "SourceAsset": "servo.sdk.observable",
    "TableColumn": "servo.sdk.metadata",
    "TableColumnDep": "servo.sdk.metadata",
    "TableColumnLineage": "servo.sdk.metadata",
    "TableRecord": "servo.sdk.metadata",
    "TableSchema": "servo.sdk.metadata",
    "asset": "servo.sdk.asset",
    "asset_check": "servo.sdk.checks",
    "build_asset_check_context": "servo.worker.built_contexts",
    "build_asset_context": "servo.worker.built_contexts",
    "build_hook_context": "servo.sdk.hooks",
    "build_init_resource_context": "servo.sdk.resources",
    "build_input_context": "servo.sdk.io_context",
    "build_op_context": "servo.worker.built_contexts",
    "build_output_context": "servo.sdk.io_context",
    "build_resources": "servo.sdk.resources",
    "define_asset_job": "servo.sdk.jobs",
    "external_asset_from_spec": "servo.sdk.observable",
    "external_assets_from_specs": "servo.sdk.observable",
    "failure_hook": "servo.sdk.hooks",
    "file_relative_path": "servo.worker.source_paths",
    "in_process_executor": "servo.sdk.executors",
    "io_manager": "servo.sdk.io_manager",
    "load_asset": "servo.worker.loading",
    "load_asset_checks_from_current_module": "servo.sdk.gathering",
    "load_asset_checks_from_modules": "servo.sdk.gathering",
    "load_asset_checks_from_package_module": "servo.sdk.gathering",
    "load_asset_checks_from_package_name": "servo.sdk.gathering",
    "load_assets_from_current_module": "servo.sdk.gathering",
    "load_assets_from_modules": "servo.sdk.gathering",
    "load_assets_from_package_module": "servo.sdk.gathering",
    "load_assets_from_package_name": "servo.sdk.gathering",
    "materialize": "servo.worker.materialize",
    "materialize_to_memory": "servo.worker.materialize",
    "mem_io_manager": "servo.sdk.io_manager",
    "multi_asset": "servo.sdk.multi_asset",
    "multi_asset_check": "servo.sdk.checks",
    "multi_or_in_process_executor": "servo.sdk.executors",
    "multiprocess_executor": "servo.sdk.executors",
    "observable_source_asset": "servo.sdk.observable",
    "open_pipes_session": "servo.worker.pipes.session",
    "resource": "servo.sdk.resources",
    "success_hook": "servo.sdk.hooks",
}


def __getattr__(name: str) -> Any:
    """Load a public name from where it is defined."""
    if name not in _PLACES:
        raise AttributeError(f"module 'servo' has no attribute {name!r}")
    value = getattr(import_module(_PLACES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
