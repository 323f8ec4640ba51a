"""The context of a multi-asset sensor: materializations of each asset since its cursor.

    @multi_asset_sensor(monitored_assets=["orders", "customers"], target="report")
    def both(context):
        records = context.latest_materialization_records_by_key()
        if all(records.values()):
            context.advance_all_cursors()
            return RunRequest()

The cursor holds, for each asset, which materializations the sensor has consumed. It counts by
ledger order and never by time, so nothing is missed or repeated. Consuming one partition does not
consume the others: of those materialized earlier, the newest of each partition stays unconsumed
until it is consumed as well.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from servo.core.keys import AssetKey
from servo.errors import Invalid
from servo.sdk.assets.specs import to_key
from servo.sdk.resources.resources import Resources
from servo.sdk.triggers.sensors import SensorEvaluationContext

_MaterializationsOf = Callable[[AssetKey, int], Sequence[Any]]
"""The materializations of an asset after a ledger entry, oldest first."""


class Consumed(msgspec.Struct, frozen=True, array_like=True):
    """Everything up to entry `seq` is consumed, except the newest output of these partitions."""

    seq: int = 0
    besides: dict[str, int] = {}

    def holds(self, event: Any) -> bool:
        """Whether a materialization is consumed."""
        return event.storage_id <= self.seq and not self.is_left(event)

    def is_left(self, event: Any) -> bool:
        """Whether a materialization was left unconsumed when a later one was consumed."""
        return self.besides.get(event.partition_key or "") == event.storage_id

    def with_(self, events: Sequence[Any], record: Any) -> "Consumed":
        """The same with one more output consumed, and the earlier ones of its partition."""
        seq = max(self.seq, record.storage_id)
        besides: dict[str, int] = {}
        for event in events:
            before = event.storage_id <= record.storage_id
            same = before and event.partition_key == record.partition_key
            if (
                event.partition_key
                and event.storage_id <= seq
                and not same
                and not self.holds(event)
            ):
                besides[event.partition_key] = event.storage_id
        return Consumed(seq, besides)

    @property
    def floor(self) -> int:
        """The entry after which all unconsumed materializations are."""
        return min([self.seq, *(seq - 1 for seq in self.besides.values())])


class MultiAssetSensorEvaluationContext(SensorEvaluationContext):
    """The context of a multi-asset sensor: unconsumed materializations, and the cursors."""

    def __init__(
        self, *, monitored: Iterable[AssetKey], made: _MaterializationsOf, **options: Any
    ) -> None:
        super().__init__(**options)
        self._monitored = tuple(monitored)
        self._made = made
        self._read: dict[AssetKey, Sequence[Any]] = {}
        self._done = _decoded(self.cursor)
        self.handled = False

    @property
    def asset_keys(self) -> Sequence[AssetKey]:
        """The monitored assets."""
        return self._monitored

    def latest_materialization_records_by_key(
        self, asset_keys: Iterable[Any] | None = None
    ) -> Mapping[AssetKey, Any]:
        """The latest materialization of each asset since the cursor; None if there is none."""
        keys = self._monitored if asset_keys is None else [self._key(key) for key in asset_keys]
        made = {key: self._after(key) for key in keys}
        return {key: found[-1] if found else None for key, found in made.items()}

    def materialization_records_for_key(
        self, asset_key: Any, limit: int | None = None
    ) -> Sequence[Any]:
        """The materializations of an asset since the cursor, oldest first."""
        return self._after(self._key(asset_key))[:limit]

    def get_trailing_unconsumed_events(self, asset_key: Any) -> Sequence[Any]:
        """The unconsumed materializations of partitions before the cursor, oldest first."""
        key = self._key(asset_key)
        return [event for event in self._open(key) if self._done_with(key).is_left(event)]

    def latest_materialization_records_by_partition(self, asset_key: Any) -> Mapping[str, Any]:
        """The latest unconsumed materialization of each partition of an asset."""
        found = self._open(self._key(asset_key))
        newest = {event.partition_key: event for event in found if event.partition_key is not None}
        return dict(sorted(newest.items(), key=lambda item: item[1].storage_id))

    def latest_materialization_records_by_partition_and_asset(
        self,
    ) -> Mapping[str, Mapping[AssetKey, Any]]:
        """The same for all assets, by partition first."""
        found: dict[str, dict[AssetKey, Any]] = {}
        for key in self._monitored:
            for name, event in self.latest_materialization_records_by_partition(key).items():
                found.setdefault(name, {})[key] = event
        return found

    def advance_cursor(self, materialization_records_by_key: Mapping[Any, Any]) -> None:
        """Consume these materializations, and all earlier ones of the same asset.

        For a partitioned asset, only the earlier ones of the same partition.
        """
        for given, record in materialization_records_by_key.items():
            key = self._key(given)
            if record is not None:
                done = self._done_with(key).with_(self._events(key), record)
                self._done[key.canonical()] = done
        self._moved()

    def advance_all_cursors(self) -> None:
        """Consume all materializations so far."""
        for key in self._monitored:
            newest = [event.storage_id for event in self._open(key)]
            done = Consumed(max([self._done_with(key).seq, *newest]))
            if done.seq:
                self._done[key.canonical()] = done
        self._moved()

    def update_cursor(self, cursor: str | None) -> None:
        """Not supported: use `advance_cursor` or `advance_all_cursors`."""
        del cursor
        raise _own_cursor(self.sensor_name)

    def _moved(self) -> None:
        self.handled = True
        held = sorted(self._done.items())
        told = {key: done if done.besides else done.seq for key, done in held}
        self.cursor = msgspec.json.encode(told).decode()

    def _done_with(self, key: AssetKey) -> Consumed:
        return self._done.get(key.canonical(), Consumed())

    def _events(self, key: AssetKey) -> Sequence[Any]:
        """The materializations of an asset, from the first that was unconsumed at the start."""
        if key not in self._read:
            self._read[key] = self._made(key, self._done_with(key).floor)
        return self._read[key]

    def _open(self, key: AssetKey) -> Sequence[Any]:
        """The unconsumed materializations of an asset."""
        return [event for event in self._events(key) if not self._done_with(key).holds(event)]

    def _after(self, key: AssetKey) -> Sequence[Any]:
        """Those of them that came after all consumed ones."""
        done = self._done_with(key)
        return [event for event in self._events(key) if event.storage_id > done.seq]

    def _key(self, given: Any) -> AssetKey:
        key = to_key(given)
        if key not in self._monitored:
            raise Invalid(
                f"sensor {self.sensor_name} does not monitor {key}",
                remedy="add it to monitored_assets",
            )
        return key


def build_multi_asset_sensor_context(
    monitored_assets: Iterable[Any],
    instance: Any = None,
    cursor: str | None = None,
    resources: Mapping[str, Any] | None = None,
    **rest: Any,
) -> MultiAssetSensorEvaluationContext:
    """Build a context to call the function of a multi-asset sensor in a test."""

    def made(key: AssetKey, after: int) -> Sequence[Any]:
        found = instance.fetch_materializations(key, ascending=True).records if instance else ()
        return [event for event in found if event.storage_id > after]

    return MultiAssetSensorEvaluationContext(
        monitored=[to_key(key) for key in monitored_assets],
        made=made,
        cursor=cursor,
        instance=instance,
        resources=Resources(resources),
        sensor_name=rest.get("sensor_name") or "",
    )


def check_handled(context: MultiAssetSensorEvaluationContext, *, asks: bool, moves: bool) -> None:
    """Raise `Invalid` if a sensor requests runs without advancing a cursor."""
    if moves:
        raise _own_cursor(context.sensor_name)
    if asks and not context.handled:
        raise Invalid(
            f"sensor {context.sensor_name} requests runs without advancing its cursor",
            remedy="call context.advance_all_cursors() or context.advance_cursor(…)",
        )


def _own_cursor(name: str) -> Invalid:
    return Invalid(
        f"sensor {name} sets its own cursor",
        remedy="use context.advance_all_cursors() or context.advance_cursor(…)",
    )


def _decoded(cursor: str | None) -> dict[str, Consumed]:
    if cursor is None:
        return {}
    try:
        found = msgspec.json.decode(cursor, type=dict[str, int | Consumed])
        return {
            key: Consumed(done) if isinstance(done, int) else done for key, done in found.items()
        }
    except msgspec.DecodeError:
        raise Invalid(
            f"the cursor {cursor!r} is not a multi-asset sensor cursor",
            remedy="reset it with `servo sensor cursor NAME --reset`",
        ) from None
