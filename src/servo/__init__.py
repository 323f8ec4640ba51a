"""Servo: a data orchestrator whose only database is a bucket.

Names are loaded when they are first used, so that `import servo` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from servo.core.keys import AssetKey
    from servo.sdk.asset import asset
    from servo.sdk.assets_definition import AssetsDefinition
    from servo.sdk.context import AssetExecutionContext
    from servo.sdk.definitions import Definitions, load_assets_from_modules
    from servo.sdk.results import (
        DataVersion,
        Failure,
        MaterializeResult,
        Output,
        RetryRequested,
        Skip,
    )
    from servo.sdk.retries import Backoff, Jitter, RetryPolicy
    from servo.sdk.selection import AssetSelection
    from servo.sdk.specs import AssetDep, AssetIn, AssetSpec
    from servo.worker.materialize import materialize

__version__ = "0.1.0"

__all__ = [
    "AssetDep",
    "AssetExecutionContext",
    "AssetIn",
    "AssetKey",
    "AssetSelection",
    "AssetSpec",
    "AssetsDefinition",
    "Backoff",
    "DataVersion",
    "Definitions",
    "Failure",
    "Jitter",
    "MaterializeResult",
    "Output",
    "RetryPolicy",
    "RetryRequested",
    "Skip",
    "__version__",
    "asset",
    "load_assets_from_modules",
    "materialize",
]

_PLACES = {
    "AssetDep": "servo.sdk.specs",
    "AssetExecutionContext": "servo.sdk.context",
    "AssetIn": "servo.sdk.specs",
    "AssetKey": "servo.core.keys",
    "AssetSelection": "servo.sdk.selection",
    "AssetSpec": "servo.sdk.specs",
    "AssetsDefinition": "servo.sdk.assets_definition",
    "Backoff": "servo.sdk.retries",
    "DataVersion": "servo.sdk.results",
    "Definitions": "servo.sdk.definitions",
    "Failure": "servo.sdk.results",
    "Jitter": "servo.sdk.retries",
    "MaterializeResult": "servo.sdk.results",
    "Output": "servo.sdk.results",
    "RetryPolicy": "servo.sdk.retries",
    "RetryRequested": "servo.sdk.results",
    "Skip": "servo.sdk.results",
    "asset": "servo.sdk.asset",
    "load_assets_from_modules": "servo.sdk.definitions",
    "materialize": "servo.worker.materialize",
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
