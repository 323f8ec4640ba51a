"""What the function of an asset may return or raise besides a plain value."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic

import msgspec

from servo.errors import Invalid
from servo.sdk.assets.specs import to_key
from servo.sdk.option_kinds import by_name, of_kind, several

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=Any)
else:
    from typing import TypeVar

    T = TypeVar("T")

_set = msgspec.structs.force_setattr

LONGEST_WAIT_SECONDS = 366 * 24 * 3600


class DataVersion(msgspec.Struct, frozen=True):
    """A string that changes when the data changes."""

    value: str


def _check_said(what: str, said: Any) -> None:
    """Check the types of the metadata, tags and data version of an output."""
    of_kind(said.metadata, Mapping, what=f"{what}: metadata", remedy='use {"name": value}')
    of_kind(said.tags, Mapping, what=f"{what}: tags", remedy='use {"name": "value"}')
    version = getattr(said, "data_version", None)
    of_kind(version, DataVersion, what=f"{what}: data_version", remedy='use DataVersion("...")')


class MaterializeResult(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """The result of a materialization: metadata, data version, tags and check results.

        return MaterializeResult(metadata={"rows": 12}, data_version=DataVersion("v2"))

    `value`, if given, is stored by the IO manager. In a `@multi_asset`, set `asset_key`.
    """

    asset_key: Any = None
    metadata: Mapping[str, Any] | None = None
    check_results: Sequence[Any] = ()
    data_version: DataVersion | None = None
    tags: Mapping[str, str] | None = None
    value: Any = msgspec.UNSET

    def __post_init__(self) -> None:
        if self.asset_key is not None:
            _set(self, "asset_key", to_key(self.asset_key, what="MaterializeResult"))
        _set(self, "check_results", several(self.check_results, what="check_results"))
        _check_said("MaterializeResult", self)


class Output(msgspec.Struct, Generic[T], frozen=True):
    """A value to store, with its metadata, data version and tags."""

    value: Any
    output_name: str = "result"
    metadata: Mapping[str, Any] | None = None
    data_version: DataVersion | None = None
    tags: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        _check_said("Output", self)


class Skip(msgspec.Struct, frozen=True):
    """Return it to skip the asset: neither it nor what is downstream of it is materialized."""

    reason: str = ""


class Failure(Exception):
    """Raise it to fail the asset with a description and metadata.

    With `allow_retries=False` the retry policy does not apply.
    """

    def __init__(
        self,
        description: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        allow_retries: bool | None = None,
    ) -> None:
        super().__init__(description or "")
        self.description = description
        self.metadata = by_name(metadata, what="Failure: metadata")
        self.allow_retries = True if allow_retries is None else allow_retries


class RetryRequested(Exception):
    """Raise it to request a retry, at most `max_retries` times, after `seconds_to_wait`."""

    def __init__(self, max_retries: int = 1, seconds_to_wait: float | None = None) -> None:
        if not 0 <= (seconds_to_wait or 0) <= LONGEST_WAIT_SECONDS:
            raise Invalid(
                f"RetryRequested: seconds_to_wait is {seconds_to_wait}",
                remedy="use 0 seconds to a year",
            )
        super().__init__(f"retry requested, at most {max_retries} times")
        self.max_retries = max_retries
        self.seconds_to_wait = seconds_to_wait


class ObserveResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an observation of an external asset: metadata, data version, check results."""

    asset_key: Any = None
    metadata: Mapping[str, Any] | None = None
    check_results: Sequence[Any] = ()
    data_version: DataVersion | None = None
    tags: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        if self.asset_key is not None:
            _set(self, "asset_key", to_key(self.asset_key, what="ObserveResult"))
        _set(self, "check_results", several(self.check_results, what="check_results"))
        _check_said("ObserveResult", self)


class AssetMaterialization(msgspec.Struct, frozen=True):
    """A materialization of an external asset: yield it, or pass it to `context.log_event`."""

    asset_key: Any
    description: str | None = None
    metadata: Mapping[str, Any] | None = None
    partition: str | None = None
    tags: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        _set(self, "asset_key", to_key(self.asset_key, what=type(self).__name__))
        _check_said(type(self).__name__, self)


class AssetObservation(AssetMaterialization, frozen=True):
    """An observation of an external asset: yield it, or pass it to `context.log_event`."""
