"""Servo: a data orchestrator whose only database is a bucket.

Names are loaded when they are first used, so that `import servo` costs next to nothing.
"""

from importlib import import_module

__version__ = "0.1.0"

# The public names, by the modules that define them. Type checkers and editors read them in
# `__init__.pyi`, which `python tests/golden/record_public_names.py` writes from this table.
_EXPORTS = {
    "servo.checks": (
        "build_last_update_freshness_checks",
        "build_time_partition_freshness_checks",
    ),
    "servo.code.conditions.tester": (
        "evaluate_automation_conditions",
        "EvaluateAutomationConditionsResult",
    ),
    "servo.code.source_paths": ("file_relative_path",),
    "servo.core.keys": ("AssetKey",),
    "servo.execution.built_contexts": (
        "build_asset_check_context",
        "build_asset_context",
        "build_op_context",
    ),
    "servo.execution.outputs.filesystem_io": ("FilesystemIOManager",),
    "servo.execution.pipes.handler": ("PipesMessageHandler",),
    "servo.execution.pipes.session": (
        "open_pipes_session",
        "PipesClientCompletedInvocation",
        "PipesSession",
    ),
    "servo.execution.pipes.subprocess_client": (
        "PipesExecutionError",
        "PipesSubprocessClient",
    ),
    "servo.execution.pipes.transport": (
        "PipesContextInjector",
        "PipesEnvContextInjector",
        "PipesFileContextInjector",
        "PipesFileMessageReader",
        "PipesMessageReader",
        "PipesTempFileContextInjector",
        "PipesTempFileMessageReader",
    ),
    "servo.execution.secret_files": ("FileSecrets",),
    "servo.host.loading": ("load_asset",),
    "servo.host.materialize": (
        "materialize",
        "materialize_to_memory",
    ),
    "servo.sdk.assets.asset": ("asset",),
    "servo.sdk.assets.assets_definition": ("AssetsDefinition",),
    "servo.sdk.assets.context": ("AssetExecutionContext",),
    "servo.sdk.assets.freshness": ("FreshnessPolicy",),
    "servo.sdk.assets.hooks": (
        "build_hook_context",
        "failure_hook",
        "HookContext",
        "HookDefinition",
        "success_hook",
    ),
    "servo.sdk.assets.multi_asset": (
        "AssetOut",
        "multi_asset",
    ),
    "servo.sdk.assets.observable": (
        "external_asset_from_spec",
        "external_assets_from_specs",
        "observable_source_asset",
        "SourceAsset",
    ),
    "servo.sdk.assets.results": (
        "AssetMaterialization",
        "AssetObservation",
        "DataVersion",
        "Failure",
        "MaterializeResult",
        "ObserveResult",
        "Output",
        "RetryRequested",
        "Skip",
    ),
    "servo.sdk.assets.retention": ("Retention",),
    "servo.sdk.assets.retries": (
        "Backoff",
        "Jitter",
        "RetryPolicy",
    ),
    "servo.sdk.assets.specs": (
        "AssetDep",
        "AssetIn",
        "AssetSpec",
    ),
    "servo.sdk.automation.condition": ("AutomationCondition",),
    "servo.sdk.checks.context": ("AssetCheckExecutionContext",),
    "servo.sdk.checks.definition": (
        "asset_check",
        "AssetCheckKey",
        "AssetCheckResult",
        "AssetChecksDefinition",
        "AssetCheckSeverity",
        "AssetCheckSpec",
        "multi_asset_check",
    ),
    "servo.sdk.checks.gating": ("CheckPolicy",),
    "servo.sdk.definitions.definitions": ("Definitions",),
    "servo.sdk.definitions.executors": (
        "ExecutorDefinition",
        "in_process_executor",
        "multi_or_in_process_executor",
        "multiprocess_executor",
    ),
    "servo.sdk.definitions.gathering": (
        "load_asset_checks_from_current_module",
        "load_asset_checks_from_modules",
        "load_asset_checks_from_package_module",
        "load_asset_checks_from_package_name",
        "load_assets_from_current_module",
        "load_assets_from_modules",
        "load_assets_from_package_module",
        "load_assets_from_package_name",
    ),
    "servo.sdk.definitions.jobs": ("define_asset_job",),
    "servo.sdk.metadata.entries": (
        "MetadataValue",
        "TableColumn",
        "TableColumnDep",
        "TableColumnLineage",
        "TableRecord",
        "TableSchema",
    ),
    "servo.sdk.partitions.definition": (
        "AddDynamicPartitionsRequest",
        "DeleteDynamicPartitionsRequest",
        "DynamicPartitionsDefinition",
        "MultiPartitionKey",
        "MultiPartitionsDefinition",
        "PartitionKeyRange",
        "PartitionsDefinition",
        "StaticPartitionsDefinition",
    ),
    "servo.sdk.partitions.mapping": (
        "AllPartitionMapping",
        "BackfillPolicy",
        "DimensionPartitionMapping",
        "IdentityPartitionMapping",
        "LastPartitionMapping",
        "MultiPartitionMapping",
        "MultiToSingleDimensionPartitionMapping",
        "PartitionMapping",
        "SpecificPartitionsPartitionMapping",
        "StaticPartitionMapping",
        "TimeWindowPartitionMapping",
    ),
    "servo.sdk.partitions.time_partitions": (
        "ScheduleType",
        "TimeWindow",
    ),
    "servo.sdk.resources.config": (
        "Config",
        "PermissiveConfig",
    ),
    "servo.sdk.resources.configurable": (
        "ConfigurableIOManager",
        "ConfigurableResource",
    ),
    "servo.sdk.resources.environment": ("EnvVar",),
    "servo.sdk.resources.io_context": (
        "build_input_context",
        "build_output_context",
        "InputContext",
        "OutputContext",
    ),
    "servo.sdk.resources.io_manager": (
        "io_manager",
        "IOManager",
        "mem_io_manager",
    ),
    "servo.sdk.resources.resources": (
        "build_init_resource_context",
        "build_resources",
        "InitResourceContext",
        "resource",
        "ResourceParam",
    ),
    "servo.sdk.resources.run_config": ("RunConfig",),
    "servo.sdk.resources.secrets": (
        "EnvSecrets",
        "Secret",
        "SecretProvider",
    ),
    "servo.sdk.selection.selection": ("AssetSelection",),
    "servo.sdk.triggers.freshness_sensors": ("build_sensor_for_freshness_checks",),
    "servo.sdk.triggers.multi_asset_sensors": (
        "build_multi_asset_sensor_context",
        "MultiAssetSensorEvaluationContext",
    ),
    "servo.sdk.triggers.push_sensors": (
        "build_push_sensor_context",
        "push_sensor",
        "PushSensorContext",
        "PushSensorDefinition",
    ),
    "servo.sdk.triggers.run_requests": (
        "DefaultScheduleStatus",
        "DefaultSensorStatus",
        "RunRequest",
        "RunStatus",
        "SensorResult",
        "SkipReason",
    ),
    "servo.sdk.triggers.schedules": (
        "build_schedule_context",
        "build_schedule_from_partitioned_job",
        "MissedTicks",
        "schedule",
        "ScheduleDefinition",
        "ScheduleEvaluationContext",
    ),
    "servo.sdk.triggers.sensors": (
        "asset_sensor",
        "AssetSensorDefinition",
        "AutomationConditionSensorDefinition",
        "build_run_status_sensor_context",
        "build_sensor_context",
        "multi_asset_sensor",
        "MultiAssetSensorDefinition",
        "run_failure_sensor",
        "run_status_sensor",
        "RunStatusSensorContext",
        "RunStatusSensorDefinition",
        "sensor",
        "SensorDefinition",
        "SensorEvaluationContext",
    ),
    "servo.workspace.clocked_partitions": (
        "DailyPartitionsDefinition",
        "HourlyPartitionsDefinition",
        "MonthlyPartitionsDefinition",
        "TimeWindowPartitionsDefinition",
        "WeeklyPartitionsDefinition",
    ),
    "servo.workspace.instance.instance": ("ServoInstance",),
    "servo.workspace.instance.records": (
        "AssetEventType",
        "EventRecordsFilter",
        "RunsFilter",
    ),
}
_PLACES = {name: module for module, names in _EXPORTS.items() for name in names}
_MODULES = ("checks",)
_NAMES = (*_PLACES, *_MODULES, "__version__")

__all__ = list(_NAMES)  # pyright: ignore[reportUnsupportedDunderAll] - it reads the stub


def __getattr__(name: str) -> object:
    """Load a public name from where it is defined."""
    if name in _MODULES:  # Python keeps a module here once it has been imported
        return import_module(f"servo.{name}")
    if name not in _PLACES:
        raise AttributeError(f"module 'servo' has no attribute {name!r}")
    value = getattr(import_module(_PLACES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
