"""Which of Dagster's names are supported, and why the others are not.

Names that `servo` exports are not listed: they are available automatically.
"""

from importlib import import_module
from types import MappingProxyType
from typing import Any

LOCAL = MappingProxyType(
    {
        "asset": "servo.dagster.assets",
        "multi_asset": "servo.dagster.assets",
        "map_asset_specs": "servo.dagster.assets",
        "with_resources": "servo.dagster.assets",
        "AutoMaterializePolicy": "servo.dagster.auto_materialize",
        "AutoMaterializeRule": "servo.dagster.auto_materialize",
        "Any": "servo.dagster.config_types",
        "Array": "servo.dagster.config_types",
        "Bool": "servo.dagster.config_types",
        "BoolSource": "servo.dagster.config_types",
        "DagsterType": "servo.dagster.config_types",
        "Dict": "servo.dagster.config_types",
        "Enum": "servo.dagster.config_types",
        "EnumValue": "servo.dagster.config_types",
        "Field": "servo.dagster.config_types",
        "Float": "servo.dagster.config_types",
        "Int": "servo.dagster.config_types",
        "IntSource": "servo.dagster.config_types",
        "List": "servo.dagster.config_types",
        "Map": "servo.dagster.config_types",
        "Noneable": "servo.dagster.config_types",
        "Nothing": "servo.dagster.config_types",
        "Optional": "servo.dagster.config_types",
        "Permissive": "servo.dagster.config_types",
        "PythonObjectDagsterType": "servo.dagster.config_types",
        "ScalarUnion": "servo.dagster.config_types",
        "Selector": "servo.dagster.config_types",
        "Set": "servo.dagster.config_types",
        "Shape": "servo.dagster.config_types",
        "String": "servo.dagster.config_types",
        "StringSource": "servo.dagster.config_types",
        "Tuple": "servo.dagster.config_types",
        "TypeCheck": "servo.dagster.config_types",
        "BetaWarning": "servo.dagster.legacy",
        "BindResourcesToJobs": "servo.dagster.legacy",
        "PipesClient": "servo.dagster.legacy",
        "ExperimentalWarning": "servo.dagster.legacy",
        "PreviewWarning": "servo.dagster.legacy",
        "SupersessionWarning": "servo.dagster.legacy",
        "get_dagster_logger": "servo.dagster.legacy",
        "instance_for_test": "servo.dagster.legacy",
        "make_values_resource": "servo.dagster.legacy",
        "definitions": "servo.dagster.loading",
        "load_definitions_from_current_module": "servo.dagster.loading",
        "load_definitions_from_module": "servo.dagster.loading",
        "load_definitions_from_modules": "servo.dagster.loading",
        "load_definitions_from_package_module": "servo.dagster.loading",
        "load_definitions_from_package_name": "servo.dagster.loading",
        "load_from_defs_folder": "servo.dagster.loading",
    }
)
"""Names that exist only for compatibility with Dagster."""

NEEDED = MappingProxyType({"multi_asset": "multi_asset", "instance_for_test": "ServoInstance"})
"""The name of `servo` that each of these requires."""

RENAMED = MappingProxyType(
    {
        "AssetCheckExecutionContext": "AssetExecutionContext",
        "DagsterInstance": "ServoInstance",
        "DagsterRunStatus": "RunStatus",
        "OpExecutionContext": "AssetExecutionContext",
        "RunFailureSensorContext": "RunStatusSensorContext",
        "ScheduleExecutionContext": "ScheduleEvaluationContext",
        "SensorExecutionContext": "SensorEvaluationContext",
        "build_op_context": "build_asset_context",
    }
)
"""Names that `servo` exports under another name."""

ELSEWHERE = MappingProxyType(
    {
        "DagsterError": "servo.errors:ServoError",
        "DagsterInvalidConfigDefinitionError": "servo.errors:Invalid",
        "DagsterInvalidConfigError": "servo.errors:Invalid",
        "DagsterInvalidDefinitionError": "servo.errors:Invalid",
        "DagsterInvalidInvocationError": "servo.errors:Invalid",
        "DagsterInvalidSubsetError": "servo.errors:Invalid",
        "DagsterInvariantViolationError": "servo.errors:Invalid",
        "DagsterRunNotFoundError": "servo.errors:NotFound",
        "DagsterUnknownPartitionError": "servo.errors:NotFound",
        "DagsterUnknownResourceError": "servo.sdk.resources.resources:UnknownResource",
        "DagsterExecutionInterruptedError": "builtins:KeyboardInterrupt",
        "DagsterExecutionStepNotFoundError": "servo.errors:NotFound",
        "DagsterResourceFunctionError": "servo.host.materialize:MaterializationFailed",
        "DagsterStepOutputNotFoundError": "servo.errors:NotFound",
        "DagsterUnmetExecutorRequirementsError": "servo.errors:Invalid",
        "DagsterExecutionStepExecutionError": "servo.host.materialize:MaterializationFailed",
        "DagsterUserCodeExecutionError": "servo.host.materialize:MaterializationFailed",
        "ExecuteInProcessResult": "servo.host.materialize:MaterializedRun",
        "DagsterLogManager": "logging:Logger",
        "ConfigurableIOManagerFactory": "servo.sdk.resources.configurable",
        "IOManagerDefinition": "servo.sdk.resources.io_manager",
        "InMemoryIOManager": "servo.sdk.resources.io_manager",
        "InputManager": "servo.sdk.resources.io_manager",
        "ResourceDefinition": "servo.sdk.resources.resources",
        "ResourceDependency": "servo.sdk.resources.configurable",
        "fs_io_manager": "servo.execution.outputs.filesystem_io",
        "BoolMetadataValue": "servo.sdk.metadata.entries",
        "DagsterAssetMetadataValue": "servo.sdk.metadata.entries:AssetMetadataValue",
        "DagsterJobMetadataValue": "servo.sdk.metadata.entries:JobMetadataValue",
        "DagsterRunMetadataValue": "servo.sdk.metadata.entries:RunMetadataValue",
        "FloatMetadataValue": "servo.sdk.metadata.entries",
        "IntMetadataValue": "servo.sdk.metadata.entries",
        "JsonMetadataValue": "servo.sdk.metadata.entries",
        "MarkdownMetadataValue": "servo.sdk.metadata.entries",
        "NotebookMetadataValue": "servo.sdk.metadata.entries",
        "NullMetadataValue": "servo.sdk.metadata.entries",
        "PathMetadataValue": "servo.sdk.metadata.entries",
        "PythonArtifactMetadataValue": "servo.sdk.metadata.entries",
        "TableColumnConstraints": "servo.sdk.metadata.entries",
        "TableColumnLineageMetadataValue": "servo.sdk.metadata.entries",
        "TableConstraints": "servo.sdk.metadata.entries",
        "TableMetadataValue": "servo.sdk.metadata.entries",
        "TableSchemaMetadataValue": "servo.sdk.metadata.entries",
        "TextMetadataValue": "servo.sdk.metadata.entries",
        "TimestampMetadataValue": "servo.sdk.metadata.entries",
        "UrlMetadataValue": "servo.sdk.metadata.entries",
    }
)
"""Names that Servo has but `servo` does not export."""

NOT_SUPPORTED = MappingProxyType(
    {
        "there are assets and no ops; write the function as an @asset": (
            "ConfigMapping DependencyDefinition DynamicOut DynamicOutput GraphDefinition GraphIn "
            "GraphOut In InputMapping JobDefinition MultiDependencyDefinition NodeInvocation "
            "OpDefinition Out OutputMapping PendingNodeInvocation config_mapping graph graph_asset "
            "graph_multi_asset job op solid pipeline"
        ),
        "use Definitions": (
            "RepositoryData RepositoryDefinition create_repository_using_definitions_args "
            "repository"
        ),
        "use define_asset_job and Config instead of configured jobs": (
            "PartitionedConfig configured config_from_files config_from_pkg_resources "
            "config_from_yaml_strings daily_partitioned_config dynamic_partitioned_config "
            "hourly_partitioned_config monthly_partitioned_config partitioned_config "
            "static_partitioned_config validate_run_config weekly_partitioned_config"
        ),
        "components are written in Python here; use assets and load_from_defs_folder": (
            "Component ComponentLoadContext ComponentTree ComponentTypeSpec DefinitionsComponent "
            "DefsFolderComponent FunctionComponent Model PythonScriptComponent ResolutionContext "
            "Resolvable ResolvedAssetCheckSpec ResolvedAssetKey ResolvedAssetSpec Resolver "
            "ScaffoldRequest Scaffolder SqlComponent StateBackedComponent TemplatedSqlComponent "
            "UvRunComponent "
            "build_component_defs build_defs_for_component component_instance load_defs "
            "scaffold_component scaffold_with template_var"
        ),
        "what an asset logs is captured as it is; use context.log": (
            "InitLoggerContext JsonLogFormatter LoggerDefinition build_init_logger_context "
            "colored_console_logger default_loggers default_system_loggers json_console_logger "
            "logger"
        ),
        "the ledger is read as tables; use `servo sql`": (
            "AssetRecordsFilter DagsterEvent DagsterEventType DagsterRun EventLogEntry "
            "EventLogRecord EventRecordsResult RunRecord RunShardedEventsCursor "
            "RunStatusChangeRecordsFilter"
        ),
        "use a Python type as the annotation, and an @asset_check": (
            "DagsterTypeCheckDidNotPass DagsterTypeCheckError DagsterTypeLoader "
            "DagsterTypeLoaderContext TypeCheckContext check_dagster_type dagster_type_loader "
            "make_python_type_usable_as_dagster_type usable_as_dagster_type"
        ),
        "runs are launched by the workers of a workspace": (
            "DefaultRunLauncher Executor ExecutorRequirement InitExecutorContext "
            "JobExecutionResult MultiprocessExecutor QueuedRunCoordinator ReexecutionOptions "
            "StepExecutionContext StepLauncher StepRunRef SubmitRunContext "
            "build_reconstructable_job default_executors execute_job executor "
            "external_instance_from_step_run_ref multiple_process_executor_requirements "
            "reconstructable run_step_from_ref step_context_to_step_run_ref "
            "step_run_ref_to_step_context"
        ),
        "not yet supported": (
            "DataVersionsByPartition LegacyFreshnessPolicy PipesBlobStoreMessageReader "
            "apply_freshness_policy build_column_schema_change_checks "
            "build_metadata_bounds_checks "
            "make_email_on_run_failure_sensor multi_observable_source_asset"
        ),
        "bring an IOManager of your own": (
            "FileHandle InputManagerDefinition LocalFileHandle UPathIOManager "
            "custom_path_fs_io_manager input_manager local_file_manager"
        ),
        "part of Dagster's own machinery": (
            "AnchorBasedFilePathMapping CodeLocationSelector FilePathMapping "
            "AssetAttributesModel AssetCheckEvaluation CacheableAssetsDefinition ConfigSchema "
            "ConfigurableLegacyIOManagerAdapter ConfigurableLegacyResourceAdapter "
            "DagsterConfigMappingFunctionError DagsterEventLogInvalidForRun VersionStrategy "
            "AssetJobKey AssetPartitionStatus "
            "AutomationContext AutomationResult CodeReferencesMetadataValue DataProvenance "
            "ExpectationResult IAttachDifferentObjectToOpContext Injected JobSelector "
            "LocalFileCodeReference MetadataEntry PaginatedResults Partition RepositorySelector "
            "UrlCodeReference deserialize_value link_code_references_to_git migrate_io_storage "
            "raise_execution_interrupts serialize_value with_source_code_references"
        ),
    }
)
"""Unsupported names, by what to do instead."""

_REASONS = {name: why for why, names in NOT_SUPPORTED.items() for name in names.split()}


def exported() -> set[str]:
    """The names that `servo` exports."""
    # Imported by name: `servo` exports from layers above this one, on demand.
    top: Any = import_module("servo")
    return set(top.__all__) - {"__version__"}


def supported() -> set[str]:
    """All supported names."""
    known = exported()
    renamed = {name for name, target in RENAMED.items() if target in known}
    return known | renamed | set(ELSEWHERE) | {name for name in LOCAL if _is_there(name, known)}


def _is_there(name: str, known: set[str]) -> bool:
    """Whether the name of `servo` that this name wraps exists."""
    return name not in NEEDED or NEEDED[name] in known


def place_of(name: str) -> str | None:
    """Where a name is defined: a module, and the name there if it differs."""
    known = exported()
    if name in LOCAL and _is_there(name, known):
        return LOCAL[name]
    if name in known:
        return "servo"
    if name in ELSEWHERE:
        return ELSEWHERE[name]
    target = RENAMED.get(name)
    return f"servo:{target}" if target in known else None


def reason_against(name: str) -> str:
    """Why one of Dagster's names is not supported."""
    if name in RENAMED:
        return "not yet supported"
    return _REASONS.get(name, "")
