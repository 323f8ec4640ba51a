"""Assets with the code that makes them."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import msgspec

from servo.core.keys import AssetKey
from servo.errors import Invalid
from servo.sdk.partition_mapping import BackfillPolicy
from servo.sdk.retries import RetryPolicy
from servo.sdk.signature import Signature
from servo.sdk.specs import AssetSpec


class Behaviour(msgspec.Struct, frozen=True, kw_only=True):
    """How the code of an asset is run."""

    retry_policy: RetryPolicy | None = None
    timeout: timedelta | None = None
    pool: str = ""
    priority: int = 0
    io_manager_key: str = ""
    required_resource_keys: frozenset[str] = frozenset()
    op_tags: Mapping[str, str] = {}
    backfill_policy: BackfillPolicy | None = None
    resource_defs: Mapping[str, Any] = {}
    config_schema: Any = None
    hooks: tuple[Any, ...] = ()
    output_required: bool = True
    quarantine: bool = False


class AssetsDefinition:
    """One function, and the assets it makes."""

    def __init__(
        self,
        fn: Callable[..., Any],
        specs: tuple[AssetSpec, ...],
        signature: Signature,
        *,
        input_keys: Mapping[str, AssetKey] | None = None,
        behaviour: Behaviour | None = None,
    ) -> None:
        self.fn = fn
        self.signature = signature
        self.input_keys = dict(input_keys or {})
        self.behaviour = behaviour or Behaviour()
        self._specs = {spec.key: spec for spec in specs}

    @property
    def key(self) -> AssetKey:
        """The key of the one asset that is made here."""
        if len(self._specs) != 1:
            raise Invalid(
                f"{self.name} makes {len(self._specs)} assets", remedy="use `keys` for all of them"
            )
        return next(iter(self._specs))

    @property
    def keys(self) -> set[AssetKey]:
        """The keys of everything that is made here."""
        return set(self._specs)

    @property
    def specs(self) -> tuple[AssetSpec, ...]:
        """What was said about each asset, in the order of definition."""
        return tuple(self._specs.values())

    def with_specs(self, specs: tuple[AssetSpec, ...]) -> "AssetsDefinition":
        """The same code for assets that are described otherwise, in the same order."""
        return AssetsDefinition(
            self.fn, specs, self.signature, input_keys=self.input_keys, behaviour=self.behaviour
        )

    @property
    def name(self) -> str:
        """The name of the function."""
        return getattr(self.fn, "__name__", "asset")

    @property
    def where(self) -> str:
        """The file and line of the code, for people to find it."""
        code = getattr(self.fn, "__code__", None)
        return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else "unknown"

    def __call__(self, *args: Any, **inputs: Any) -> Any:
        """Call the function itself, as a test does."""
        return self.fn(*args, **inputs)

    def __repr__(self) -> str:
        return f"<assets {', '.join(str(key) for key in self._specs)}>"
