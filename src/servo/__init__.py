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
    from servo.sdk.config import Config, PermissiveConfig
    from servo.sdk.context import AssetExecutionContext
    from servo.sdk.definitions import Definitions, load_assets_from_modules
    from servo.sdk.environment import EnvVar
    from servo.sdk.io_context import (
        InputContext,
        OutputContext,
        build_input_context,
        build_output_context,
    )
    from servo.sdk.io_manager import ConfigurableIOManager, IOManager, io_manager, mem_io_manager
    from servo.sdk.metadata import (
        MetadataValue,
        TableColumn,
        TableColumnDep,
        TableColumnLineage,
        TableRecord,
        TableSchema,
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
        DataVersion,
        Failure,
        MaterializeResult,
        Output,
        RetryRequested,
        Skip,
    )
    from servo.sdk.retries import Backoff, Jitter, RetryPolicy
    from servo.sdk.run_config import RunConfig
    from servo.sdk.secrets import EnvSecrets, Secret, SecretProvider
    from servo.sdk.selection import AssetSelection
    from servo.sdk.specs import AssetDep, AssetIn, AssetSpec
    from servo.worker.filesystem_io import FilesystemIOManager
    from servo.worker.loading import load_asset
    from servo.worker.materialize import materialize
    from servo.worker.secret_files import FileSecrets

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
    "AssetSelection",
    "AssetSpec",
    "AssetsDefinition",
    "Backoff",
    "Config",
    "ConfigurableIOManager",
    "ConfigurableResource",
    "DataVersion",
    "Definitions",
    "EnvSecrets",
    "EnvVar",
    "Failure",
    "FileSecrets",
    "FilesystemIOManager",
    "IOManager",
    "InitResourceContext",
    "InputContext",
    "Jitter",
    "MaterializeResult",
    "MetadataValue",
    "Output",
    "OutputContext",
    "PermissiveConfig",
    "ResourceParam",
    "RetryPolicy",
    "RetryRequested",
    "RunConfig",
    "Secret",
    "SecretProvider",
    "Skip",
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
    "io_manager",
    "load_asset",
    "load_assets_from_modules",
    "materialize",
    "mem_io_manager",
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
    "AssetSelection": "servo.sdk.selection",
    "AssetSpec": "servo.sdk.specs",
    "AssetsDefinition": "servo.sdk.assets_definition",
    "Backoff": "servo.sdk.retries",
    "Config": "servo.sdk.config",
    "ConfigurableIOManager": "servo.sdk.io_manager",
    "ConfigurableResource": "servo.sdk.resources",
    "DataVersion": "servo.sdk.results",
    "Definitions": "servo.sdk.definitions",
    "EnvSecrets": "servo.sdk.secrets",
    "EnvVar": "servo.sdk.environment",
    "Failure": "servo.sdk.results",
    "FileSecrets": "servo.worker.secret_files",
    "FilesystemIOManager": "servo.worker.filesystem_io",
    "IOManager": "servo.sdk.io_manager",
    "InitResourceContext": "servo.sdk.resources",
    "InputContext": "servo.sdk.io_context",
    "Jitter": "servo.sdk.retries",
    "MaterializeResult": "servo.sdk.results",
    "MetadataValue": "servo.sdk.metadata",
    "Output": "servo.sdk.results",
    "OutputContext": "servo.sdk.io_context",
    "PermissiveConfig": "servo.sdk.config",
    "ResourceParam": "servo.sdk.resources",
    "RetryPolicy": "servo.sdk.retries",
    "RetryRequested": "servo.sdk.results",
    "RunConfig": "servo.sdk.run_config",
    "Secret": "servo.sdk.secrets",
    "SecretProvider": "servo.sdk.secrets",
    "Skip": "servo.sdk.results",
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
    "io_manager": "servo.sdk.io_manager",
    "load_asset": "servo.worker.loading",
    "load_assets_from_modules": "servo.sdk.definitions",
    "materialize": "servo.worker.materialize",
    "mem_io_manager": "servo.sdk.io_manager",
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
