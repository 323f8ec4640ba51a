"""Servo: a data orchestrator whose only database is a bucket.

Names are loaded when they are first used, so that `import servo` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from servo.core.keys import AssetKey
    from servo.sdk.asset import asset
    from servo.sdk.assets_definition import AssetsDefinition
    from servo.sdk.checks import (
        AssetCheckKey,
        AssetCheckResult,
        AssetChecksDefinition,
        AssetCheckSeverity,
        AssetCheckSpec,
        asset_check,
    )
    from servo.sdk.config import Config, EnvVar, PermissiveConfig, RunConfig
    from servo.sdk.context import AssetExecutionContext
    from servo.sdk.definitions import Definitions
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
    from servo.sdk.retention import Retention
    from servo.sdk.retries import Backoff, Jitter, RetryPolicy
    from servo.sdk.selection import AssetSelection
    from servo.sdk.specs import AssetDep, AssetIn, AssetSpec
    from servo.worker.filesystem_io import FilesystemIOManager
    from servo.worker.loading import load_asset
    from servo.worker.materialize import materialize

__version__ = "0.1.0"

__all__ = [
    "AssetCheckKey",
    "AssetCheckResult",
    "AssetCheckSeverity",
    "AssetCheckSpec",
    "AssetChecksDefinition",
    "AssetDep",
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
    "Config",
    "ConfigurableIOManager",
    "ConfigurableResource",
    "DataVersion",
    "Definitions",
    "EnvVar",
    "Failure",
    "FilesystemIOManager",
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
    "ResourceParam",
    "Retention",
    "RetryPolicy",
    "RetryRequested",
    "RunConfig",
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
    "build_init_resource_context",
    "build_input_context",
    "build_output_context",
    "build_resources",
    "define_asset_job",
    "external_asset_from_spec",
    "external_assets_from_specs",
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
    "mem_io_manager",
    "multi_asset",
    "observable_source_asset",
    "resource",
]

_PLACES = {
    "AssetCheckKey": "servo.sdk.checks",
    "AssetCheckResult": "servo.sdk.checks",
    "AssetCheckSeverity": "servo.sdk.checks",
    "AssetCheckSpec": "servo.sdk.checks",
    "AssetChecksDefinition": "servo.sdk.checks",
    "AssetDep": "servo.sdk.specs",
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
    "Config": "servo.sdk.config",
    "ConfigurableIOManager": "servo.sdk.io_manager",
    "ConfigurableResource": "servo.sdk.resources",
    "DataVersion": "servo.sdk.results",
    "Definitions": "servo.sdk.definitions",
    "EnvVar": "servo.sdk.config",
    "Failure": "servo.sdk.results",
    "FilesystemIOManager": "servo.worker.filesystem_io",
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
    "ResourceParam": "servo.sdk.resources",
    "Retention": "servo.sdk.retention",
    "RetryPolicy": "servo.sdk.retries",
    "RetryRequested": "servo.sdk.results",
    "RunConfig": "servo.sdk.config",
    "Skip": "servo.sdk.results",
    "SourceAsset": "servo.sdk.observable",
    "TableColumn": "servo.sdk.metadata",
    "TableColumnDep": "servo.sdk.metadata",
    "TableColumnLineage": "servo.sdk.metadata",
    "TableRecord": "servo.sdk.metadata",
    "TableSchema": "servo.sdk.metadata",
    "asset": "servo.sdk.asset",
    "asset_check": "servo.sdk.checks",
    "build_init_resource_context": "servo.sdk.resources",
    "build_input_context": "servo.sdk.io_context",
    "build_output_context": "servo.sdk.io_context",
    "build_resources": "servo.sdk.resources",
    "define_asset_job": "servo.sdk.jobs",
    "external_asset_from_spec": "servo.sdk.observable",
    "external_assets_from_specs": "servo.sdk.observable",
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
    "mem_io_manager": "servo.sdk.io_manager",
    "multi_asset": "servo.sdk.multi_asset",
    "observable_source_asset": "servo.sdk.observable",
    "resource": "servo.sdk.resources",
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
