"""What a sensor of several assets is told: what was made of each since it last looked.

    @multi_asset_sensor(monitored_assets=["orders", "customers"], target="report")
    def both(context):
        made = context.latest_materialization_records_by_key()
        if all(made.values()):
            context.advance_all_cursors()
            return RunRequest()

The cursor says for each asset which of its outputs the sensor is done with. It counts by the order
of the ledger and never by time, so nothing is missed and nothing is told twice. Who is done with
one partition is not done with the others: of those that were made before it, the newest of each
stays to be told, until it is done with too.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from servo.core.keys import AssetKey
from servo.errors import Invalid
from servo.sdk.assets.specs import to_key
from servo.sdk.resources.resources import Resources
from servo.sdk.triggers.sensors import SensorEvaluationContext

Made = Callable[[AssetKey, int], Sequence[Any]]
"""What was made of an asset after an entry of the ledger, the oldest first."""


class Consumed(msgspec.Struct, frozen=True, array_like=True):
    """Done with everything up to the entry `seq`, but for the newest output of these partitions."""

    seq: int = 0
    besides: dict[str, int] = {}

    def holds(self, event: Any) -> bool:
        """Whether the sensor is done with an output."""
        return event.storage_id <= self.seq and not self.is_left(event)

    def is_left(self, event: Any) -> bool:
        """Whether an output was left behind when one that came after it was done with."""
        return self.besides.get(event.partition_key or "") == event.storage_id

    def with_(self, events: Sequence[Any], record: Any) -> "Consumed":
        """The same, done with one more of these outputs, and with those of its partition before."""
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
        """The entry after which everything is that the sensor is not done with."""
        return min([self.seq, *(seq - 1 for seq in self.besides.values())])


class MultiAssetSensorEvaluationContext(SensorEvaluationContext):
    """What a sensor of several assets is told, and where it says what it is done with."""

    def __init__(self, *, monitored: Iterable[AssetKey], made: Made, **options: Any) -> None:
        super().__init__(**options)
        self._monitored = tuple(monitored)
        self._made = made
        self._read: dict[AssetKey, Sequence[Any]] = {}
        self._done = _decoded(self.cursor)
        self.handled = False

    @property
    def asset_keys(self) -> Sequence[AssetKey]:
        """The assets it looks at."""
        return self._monitored

    def latest_materialization_records_by_key(
        self, asset_keys: Iterable[Any] | None = None
    ) -> Mapping[AssetKey, Any]:
        """The newest output of each asset since the cursor; None for those without."""
        keys = self._monitored if asset_keys is None else [self._key(key) for key in asset_keys]
        made = {key: self._after(key) for key in keys}
        return {key: found[-1] if found else None for key, found in made.items()}

    def materialization_records_for_key(
        self, asset_key: Any, limit: int | None = None
    ) -> Sequence[Any]:
        """The outputs of an asset since the cursor, the oldest first."""
        return self._after(self._key(asset_key))[:limit]

    def get_trailing_unconsumed_events(self, asset_key: Any) -> Sequence[Any]:
        """The outputs of partitions that were left behind by the cursor, the oldest first."""
        key = self._key(asset_key)
        return [event for event in self._open(key) if self._done_with(key).is_left(event)]

    def latest_materialization_records_by_partition(self, asset_key: Any) -> Mapping[str, Any]:
        """The newest output of each partition of an asset that the sensor is not done with."""
        found = self._open(self._key(asset_key))
        newest = {event.partition_key: event for event in found if event.partition_key is not None}
        return dict(sorted(newest.items(), key=lambda item: item[1].storage_id))

    def latest_materialization_records_by_partition_and_asset(
        self,
    ) -> Mapping[str, Mapping[AssetKey, Any]]:
        """The same of all assets, by partition first."""
        found: dict[str, dict[AssetKey, Any]] = {}
        for key in self._monitored:
            for name, event in self.latest_materialization_records_by_partition(key).items():
                found.setdefault(name, {})[key] = event
        return found

    def advance_cursor(self, materialization_records_by_key: Mapping[Any, Any]) -> None:
        """Say which output of each asset it is done with, and so with those before it.

        Of an asset with partitions these are those of the same partition.
        """
        for given, record in materialization_records_by_key.items():
            key = self._key(given)
            if record is not None:
                done = self._done_with(key).with_(self._events(key), record)
                self._done[key.canonical()] = done
        self._moved()

    def advance_all_cursors(self) -> None:
        """Say that it is done with everything that was made so far."""
        for key in self._monitored:
            newest = [event.storage_id for event in self._open(key)]
            done = Consumed(max([self._done_with(key).seq, *newest]))
            if done.seq:
                self._done[key.canonical()] = done
        self._moved()

    def update_cursor(self, cursor: str | None) -> None:
        """The cursor is kept for each asset apart."""
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
        """What was made of an asset, from the first on that it was not done with at the start."""
        if key not in self._read:
            self._read[key] = self._made(key, self._done_with(key).floor)
        return self._read[key]

    def _open(self, key: AssetKey) -> Sequence[Any]:
        """The outputs of an asset that it is not done with."""
        return [event for event in self._events(key) if not self._done_with(key).holds(event)]

    def _after(self, key: AssetKey) -> Sequence[Any]:
        """Those of them that came after all that it is done with."""
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
    """A context to call the function of a sensor of several assets with, in a test."""

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
    """`Invalid` if a sensor asks for runs and would be told of the same outputs again."""
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
