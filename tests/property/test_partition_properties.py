"""Laws of partitions: numbers and keys are one to one, and mappings agree in both directions."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple

from hypothesis import example, given
from hypothesis import strategies as st

from servo.core import bitmaps
from servo.core.cron import Cron
from servo.projection.files.arrow import pa
from servo.projection.partitions.newest import newest
from servo.projection.partitions.places import RowPlaces
from servo.projection.partitions.table import PartitionTable, StalenessPolicy, UpstreamTable
from servo.sdk.partitions.definition import (
    MultiPartitionsDefinition,
    PartitionsDefinition,
    StaticPartitionsDefinition,
)
from servo.sdk.partitions.mapping import (
    AllPartitionMapping,
    DimensionPartitionMapping,
    IdentityPartitionMapping,
    LastPartitionMapping,
    MultiPartitionMapping,
    MultiToSingleDimensionPartitionMapping,
    PartitionMapping,
    SpecificPartitionsPartitionMapping,
    StaticPartitionMapping,
    TimeWindowPartitionMapping,
)
from servo.sdk.partitions.mapping_resolution import Edge, Moment, edge_between
from servo.sdk.partitions.space import PartitionSpace
from servo.sdk.partitions.status import DisplayStatus, StaleReason
from servo.sdk.partitions.text import partitions_from_text, partitions_text
from servo.sdk.partitions.tick_index import instant_of, ticks_of
from servo.sdk.partitions.time_partitions import DATE, HOUR, TimeWindowPartitionsDefinition

ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",  # half an hour
    "Pacific/Apia",  # left out a day
    "Africa/Casablanca",  # changes four times a year
    "Asia/Kathmandu",
    "Antarctica/Troll",  # two hours
)
CRONS = (
    "0 * * * *",
    "30 * * * *",
    "*/20 * * * *",
    "0 0 * * *",
    "30 2 * * *",
    "15 1,2,3 * * *",
    "0 0 * * 0",
    "0 0 * * MON-FRI",
    "0 0 1 * *",
    "0 2 31 * *",
    "0 0 L * *",
    "0 12 * * 5#2",
    "*/7 */5 * * *",
)
MARCH = datetime(2024, 3, 20, tzinfo=UTC)
INSTANTS = st.datetimes(
    datetime(1970, 1, 1),  # noqa: DTZ001 - the strategy asks for it without a zone
    datetime(2040, 1, 1),  # noqa: DTZ001 - local to its zone
    timezones=st.just(UTC),
).map(lambda at: at.replace(microsecond=0))


@given(st.sampled_from(CRONS), st.sampled_from(ZONES), INSTANTS)
@example("0 * * * *", "Australia/Lord_Howe", datetime(2024, 4, 6, tzinfo=UTC))
@example("30 2 * * *", "Europe/Berlin", datetime(2024, 3, 30, tzinfo=UTC))
@example("0 0 * * *", "Pacific/Apia", datetime(2011, 12, 28, tzinfo=UTC))
@example("0 0 * * *", "America/New_York", datetime(1970, 1, 1, tzinfo=UTC))
def test_counted_ticks_are_those_of_the_calendar(cron: str, zone: str, at: datetime) -> None:
    ticks = ticks_of(cron, zone)
    walked = Cron(cron, zone).ticks_between(at, at + timedelta(days=800), 60)
    first = ticks.upto(at)
    assert [ticks.nth(first + n) for n in range(len(walked))] == walked
    seconds = ticks.seconds(first, first + len(walked))
    assert [instant_of(one) for one in seconds] == walked
    around = sorted(one + more for one in seconds for more in (-1, 0, 1, 1800))
    assert ticks.counts(around) == [ticks.upto(instant_of(one)) for one in around]
    for n, tick in enumerate(walked):
        assert ticks.upto(tick) == first + n + 1
        assert ticks.is_tick(tick)
        assert not ticks.is_tick(tick + timedelta(seconds=7)) or cron == "*/7 */5 * * *"


@st.composite
def windows(draw: st.DrawFn) -> TimeWindowPartitionsDefinition:
    cron = draw(st.sampled_from(CRONS))
    start = MARCH + timedelta(hours=draw(st.integers(0, 400)))
    left_out: list[Any] = []
    if draw(st.booleans()):
        left_out = [draw(st.sampled_from(("0 0 * * *", "0 * * * 6", "30 2 * * 1")))]
    return TimeWindowPartitionsDefinition(
        start=start,
        fmt=f"{HOUR}%z",
        cron_schedule=cron,
        timezone=draw(st.sampled_from(ZONES)),
        end_offset=draw(st.integers(-2, 2)),
        exclusions=left_out,
    )


def _short(made: TimeWindowPartitionsDefinition) -> TimeWindowPartitionsDefinition:
    return TimeWindowPartitionsDefinition(
        start=made.start,
        end=made.start + timedelta(hours=5),
        fmt=made.fmt,
        cron_schedule=made.cron_schedule,
        timezone=made.timezone,
    )


LISTED = st.lists(st.sampled_from("abcdef"), min_size=1, unique=True).map(
    StaticPartitionsDefinition
)
SHORT = st.one_of(LISTED, windows().map(_short))
SEVERAL = st.tuples(SHORT, SHORT).map(
    lambda two: MultiPartitionsDefinition({"x": two[0], "y": two[1]})
)
ANY = st.one_of(LISTED, windows(), SEVERAL)
NOW = MARCH + timedelta(days=20)
MOMENT = Moment(NOW)


@given(ANY)
def test_numbers_and_keys_are_one_to_one(definition: PartitionsDefinition) -> None:
    space = definition.space(NOW)
    keys = definition.get_partition_keys(NOW)
    assert space.count == len(keys) == len(set(keys))
    for number in {0, 1, len(keys) // 2, len(keys) - 1} & set(range(len(keys))):
        assert space.key(number) == keys[number]
        assert space.ordinal(keys[number]) == number
        assert definition.has_partition_key(keys[number], NOW)
        typed = definition.typed_key(keys[number]).canonical()
        assert definition.plain_key(typed) == keys[number]
        assert space.identity(number).canonical() == typed
    if keys:
        assert definition.get_first_partition_key(NOW) == keys[0]
        assert definition.get_last_partition_key(NOW) == keys[-1]


@given(windows())
def test_windows_are_those_of_a_walk_through_the_calendar(
    definition: TimeWindowPartitionsDefinition,
) -> None:
    cron = Cron(definition.cron_schedule, definition.timezone)
    early = definition.start.astimezone(UTC) - timedelta(seconds=1)
    late = NOW + timedelta(days=1000)
    limit, offset = NOW, definition.end_offset
    if offset > 0:
        limit = cron.ticks_between(NOW, late, offset)[-1]
    elif offset < 0:
        limit = cron.newest_between(early - timedelta(days=1000), NOW, 1 - offset)[0]
    ticks = cron.ticks_between(early, limit, 100_000)
    left_out = {
        at
        for item in definition.exclusions
        for at in Cron(str(item), definition.timezone).ticks_between(early, late, 100_000)
    }
    walked = [pair for pair in pairwise(ticks) if pair[0] not in left_out]
    found = definition.time_windows(NOW)
    assert [(w.start.astimezone(UTC), w.end.astimezone(UTC)) for w in found] == walked


# --- mappings -------------------------------------------------------------------------------------

OFFSETS = st.tuples(st.integers(-3, 3), st.integers(-3, 3), st.booleans())
OVERLAP = OFFSETS.map(lambda given: TimeWindowPartitionMapping(*given))


class Upper(PartitionMapping, frozen=True):
    """The keys that do not come later in the alphabet."""

    def upstream_keys(self, key: str, upstream: Any, downstream: Any) -> Iterable[str]:
        del downstream
        return [one for one in upstream.get_partition_keys() if one <= key]


@st.composite
def edges(draw: st.DrawFn) -> Edge:
    kind = draw(st.sampled_from(("time", "listed", "any", "several", "one", "usual")))
    above, below = draw(windows()), draw(windows())
    mapping: PartitionMapping | None = draw(OVERLAP)
    one, other = draw(LISTED), draw(LISTED)
    if kind == "listed":
        above, below = one, other
        ups, downs = (st.sampled_from(side.get_partition_keys()) for side in (one, other))
        pairs = draw(st.dictionaries(ups, st.lists(downs, unique=True)))
        kinds = (IdentityPartitionMapping(), StaticPartitionMapping(pairs), Upper())
        mapping = draw(st.sampled_from(kinds))
    elif kind == "any":
        above, below = draw(ANY), draw(st.one_of(ANY, st.none()))
        key = above.get_first_partition_key(NOW) or "none"
        lists = (
            SpecificPartitionsPartitionMapping([key]) if "|" not in key else LastPartitionMapping()
        )
        mapping = draw(st.sampled_from((AllPartitionMapping(), LastPartitionMapping(), lists)))
    elif kind == "several":
        days = _short(above), _short(below)
        above = MultiPartitionsDefinition({"x": one, "t": days[0]})
        below = MultiPartitionsDefinition({"y": other, "u": days[1]})
        by = {"x": DimensionPartitionMapping("y", IdentityPartitionMapping())}
        if draw(st.booleans()):
            by["t"] = DimensionPartitionMapping("u", mapping or AllPartitionMapping())
        mapping = MultiPartitionMapping(by)
    elif kind == "one":
        days = _short(above)
        many = MultiPartitionsDefinition({"x": one, "t": days})
        above, below = draw(st.sampled_from(((many, days), (days, many), (one, many))))
        mapping = MultiToSingleDimensionPartitionMapping("x" if above is one else "t")
    elif kind == "usual":
        above, below = draw(st.sampled_from(((one, other), (above, below), (one, None))))
        mapping = None
    return edge_between(above, below, mapping, MOMENT)


@given(edges(), st.randoms(use_true_random=False))
def test_mappings_agree_in_both_directions(edge: Edge, chance: Any) -> None:
    above = list(edge.above.keys())[:40]
    below = list(edge.below.keys())[:40]
    up = {key: edge.upstream_of(key) for key in below}
    down = {key: edge.downstream_of(key) for key in above}
    for key, mapped in up.items():
        assert len(set(mapped.keys)) == len(mapped.keys)
        assert not [one for one in mapped.keys if one not in edge.above]
        assert not [one for one in mapped.missing if one in edge.above]
        assert {one for one in above if one in mapped.keys} == {
            one for one in above if key in down[one]
        }
    some = chance.sample(below, len(below) // 2)
    wanted = {one for key in some for one in up[key].keys}
    assert set(edge.above.keys_of(edge.upstream_bits(edge.below.bits(some)))) == wanted
    some = chance.sample(above, len(above) // 2)
    reached = {one for key in some for one in down[key]}
    assert set(edge.below.keys_of(edge.downstream_bits(edge.above.bits(some)))) == reached
    assert edge.upstream_bits(bitmaps.EMPTY) == edge.downstream_bits(bitmaps.EMPTY) == 0


# --- strings and rows -----------------------------------------------------------------------------


@given(ANY)
def test_a_definition_is_made_again_from_its_text(definition: PartitionsDefinition) -> None:
    text = partitions_text(definition)
    again = partitions_from_text(text)
    assert again == definition
    assert partitions_text(again) == text
    assert again is not None
    assert again.get_partition_keys(NOW) == definition.get_partition_keys(NOW)


class Recorded(NamedTuple):
    """What is recorded of the partitions of an asset, in columns."""

    keys: list[str]
    made: list[int]
    versions: list[str]
    failed: list[bool]

    def table(self, space: PartitionSpace, definition: PartitionsDefinition) -> PartitionTable:
        at = [seq and EPOCH + timedelta(seconds=seq) for seq in self.made]
        keys = pa.chunked_array([self.keys[:3], self.keys[3:]], pa.string())
        rows = pa.table(
            {
                "partition_key": keys,
                "last_materialization_seq": pa.array([n or None for n in self.made], pa.int64()),
                "last_materialization_at": pa.array(
                    [one or None for one in at], pa.timestamp("us", "UTC")
                ),
                "last_materialization_code_version": pa.array(
                    [had or None for had in self.versions], pa.string()
                ),
                "last_attempt_outcome": pa.array(
                    ["FAILED" if one else None for one in self.failed], pa.string()
                ),
            }
        )
        return PartitionTable(space, rows, RowPlaces.of(rows["partition_key"], definition, space))


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ODD = (
    "partition=s:ZXU",
    "odd",
    "partition=t:no",
    "partition=t:2024-03-21T00:00:00.00000é",
    "partition=t:2024-03-21T00:00:00.500000Z",
    "x=i:1",
)


@st.composite
def recorded(draw: st.DrawFn) -> tuple[PartitionsDefinition, Recorded]:
    """A definition, and rows of some of its partitions and of some that it does not have."""
    definition = draw(st.one_of(windows(), windows().map(_daily), LISTED, SEVERAL))
    keys = definition.get_partition_keys(NOW)
    start = draw(st.integers(0, max(len(keys) - 1, 0)))
    dense = keys[start : start + draw(st.integers(0, 60))]
    chosen = {key for key in dense if draw(st.integers(0, 9))}
    typed: set[str] = {definition.typed_key(key).canonical() for key in chosen}
    other = draw(windows())
    strange = other.get_partition_keys(NOW)[: draw(st.integers(0, 5))]
    if isinstance(definition, TimeWindowPartitionsDefinition) and definition.exclusions:
        other = _unexcluded(definition)  # they were there before some were left out
        strange = other.get_partition_keys(NOW)[start : start + 60]
    typed |= {other.typed_key(key).canonical() for key in strange}
    rows = sorted(typed | draw(st.sets(st.sampled_from(ODD))))
    if draw(st.booleans()):
        rows = draw(st.permutations(rows))
    return definition, Recorded(
        keys=rows,
        made=[draw(st.integers(0, 3)) for _ in rows],
        versions=[draw(st.sampled_from(("", "1", "2"))) for _ in rows],
        failed=[draw(st.booleans()) for _ in rows],
    )


def _unexcluded(made: TimeWindowPartitionsDefinition) -> TimeWindowPartitionsDefinition:
    return TimeWindowPartitionsDefinition(
        start=made.start, fmt=made.fmt, cron_schedule=made.cron_schedule, timezone=made.timezone
    )


def _daily(made: TimeWindowPartitionsDefinition) -> TimeWindowPartitionsDefinition:
    return TimeWindowPartitionsDefinition(
        start=made.start.replace(hour=12),
        fmt=DATE,
        cron_schedule="0 5 * * *",
        timezone=made.timezone,
        exclusions=["0 5 * * 3"] if made.exclusions else [],
    )


@given(recorded())
def test_rows_are_found_by_their_partitions(given_: tuple[PartitionsDefinition, Recorded]) -> None:
    definition, rows = given_
    status = rows.table(definition.space(NOW), definition).status()
    keys = definition.get_partition_keys(NOW)
    slow: dict[str, int] = {
        definition.typed_key(key).canonical(): number for number, key in enumerate(keys)
    }
    there = {key: n for n, key in enumerate(rows.keys) if key in slow}
    assert list(status.outside) == sorted(key for key in rows.keys if key not in slow)
    assert set(bitmaps.numbers(status.made)) == {
        slow[key] for key, row in there.items() if rows.made[row]
    }
    assert set(bitmaps.numbers(status.failed)) == {
        slow[key] for key, row in there.items() if rows.failed[row]
    }
    shown = [status.shown(one) for one in DisplayStatus]
    assert sum(bits.bit_count() for bits in shown) == len(keys)


@given(recorded(), st.integers(-2, 2), st.integers(0, 2), st.data())
def test_what_is_stale_is_what_a_slow_look_finds(
    given_: tuple[PartitionsDefinition, Recorded], low: int, more: int, data: st.DataObject
) -> None:
    definition, rows = given_
    space = definition.space(NOW)
    mapping: PartitionMapping | None = None
    above = data.draw(st.sampled_from((definition, None)))
    if isinstance(definition, TimeWindowPartitionsDefinition):
        mapping = TimeWindowPartitionMapping(low, low + more)
        above = data.draw(st.one_of(st.just(definition), windows()))
    edge = edge_between(above, definition, mapping, MOMENT)
    made = _drawn(data, edge)
    found = rows.table(space, definition).stale(
        StalenessPolicy(code_version="2", fresh_since=EPOCH + timedelta(seconds=2)),
        [UpstreamTable(edge=edge, made=pa.array(made, pa.int64()), made_at=list)],
    )
    by_key = {key: n for n, key in enumerate(rows.keys)}
    for number in range(min(space.count, 80)):
        key = space.key(number)
        row = by_key.get(definition.typed_key(key).canonical())
        seq = 0 if row is None else rows.made[row]
        reason = None
        if row is None or not seq:
            reason = StaleReason.NEVER_MATERIALIZED
        elif rows.versions[row] not in ("", "2"):
            reason = StaleReason.CODE_CHANGED
        elif _slowly(edge, made, key) > seq:
            reason = StaleReason.UPSTREAM_CHANGED
        elif seq < 2:
            reason = StaleReason.FRESHNESS_POLICY
        assert [one for one in StaleReason if found[one] >> number & 1] == [reason] * bool(reason)


def _drawn(data: st.DataObject, edge: Edge) -> list[int]:
    seed = data.draw(st.integers(0, 1000))
    return [(number * number + seed) * 7_919 % 101 % 10 for number in range(edge.above.count)]


def _keys(edge: Edge) -> list[str]:
    return list(edge.below.keys())


def _slowly(edge: Edge, made: list[int], key: str) -> int:
    return max((made[edge.above.number(up)] for up in edge.upstream_of(key).keys), default=0)


@given(edges(), st.data())
def test_the_newest_of_all_is_the_newest_of_each(edge: Edge, data: st.DataObject) -> None:
    made = _drawn(data, edge)
    found = newest(edge, pa.array(made, pa.int64())).to_pylist()
    assert found == [_slowly(edge, made, key) for key in _keys(edge)]


@given(st.lists(st.sampled_from("abcdefgh"), min_size=2, max_size=6, unique=True), st.data())
def test_dimensions_are_followed_in_any_order(names: list[str], data: st.DataObject) -> None:
    """Some upstream belong to some of ours, the others to all, and the sizes are what they are."""
    cut = data.draw(st.integers(1, len(names) - 1))
    sides = [names[:cut] or names, names[cut:] or names]
    above, below = [
        MultiPartitionsDefinition(
            {name: StaticPartitionsDefinition(_listed(data)) for name in [*side, f"z{number}"]}
        )
        for number, side in enumerate(sides)
    ]
    free = data.draw(st.permutations(list(below.partitions_defs)))
    pairs: dict[str, DimensionPartitionMapping] = {}
    for up, down in zip(above.partitions_defs, free, strict=False):
        kind = data.draw(
            st.sampled_from((None, IdentityPartitionMapping(), Upper(), AllPartitionMapping()))
        )
        if kind is not None:
            pairs[up] = DimensionPartitionMapping(down, kind)
    edge = edge_between(above, below, MultiPartitionMapping(pairs), MOMENT)
    made = _drawn(data, edge)
    found = newest(edge, pa.array(made, pa.int64())).to_pylist()
    assert found == [_slowly(edge, made, key) for key in _keys(edge)]


def _listed(data: st.DataObject) -> list[str]:
    return list("abc")[: data.draw(st.integers(1, 3))]


@given(st.integers(-40, 40), st.integers(0, 40), st.integers(0, 30), st.data())
def test_any_number_of_windows_may_be_looked_back_on(
    low: int, more: int, later: int, data: st.DataObject
) -> None:
    days = TimeWindowPartitionsDefinition(start=MARCH, fmt=DATE, cron_schedule="0 0 * * *")
    fewer = TimeWindowPartitionsDefinition(
        start=MARCH + timedelta(days=later), fmt=DATE, cron_schedule="0 0 * * *"
    )
    above, below = data.draw(st.permutations([days, fewer]))
    edge = edge_between(above, below, TimeWindowPartitionMapping(low, low + more), MOMENT)
    made = _drawn(data, edge)
    found = newest(edge, pa.array(made, pa.int64())).to_pylist()
    assert found == [_slowly(edge, made, key) for key in _keys(edge)]


def test_ranges_that_overlap_much_are_looked_at_once() -> None:
    days = TimeWindowPartitionsDefinition(start=MARCH, fmt=DATE, cron_schedule="0 0 * * *")
    hours = TimeWindowPartitionsDefinition(start=MARCH, fmt=HOUR, cron_schedule="0 * * * *")
    edge = edge_between(hours, days, TimeWindowPartitionMapping(start_offset=-10), MOMENT)
    made = [number * 7_919 % 1_009 for number in range(edge.above.count)]
    found = newest(edge, pa.array(made, pa.int64())).to_pylist()
    assert found == [_slowly(edge, made, key) for key in _keys(edge)]
