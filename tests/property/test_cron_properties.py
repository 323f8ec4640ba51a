"""Cron against its definition: a look at the clock on the wall, every minute for days."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from servo.core.cron import Cron

# Around each of these days something happens to the clock: an hour, half an hour, two hours or a
# whole day is skipped or repeated, some of them at midnight.
CHANGES = [
    ("UTC", date(2025, 3, 30)),
    ("Europe/Berlin", date(2025, 3, 30)),
    ("Europe/Berlin", date(2025, 10, 26)),
    ("Europe/Dublin", date(2025, 10, 26)),
    ("America/New_York", date(2025, 3, 9)),
    ("America/New_York", date(2025, 11, 2)),
    ("America/Havana", date(2025, 3, 9)),
    ("America/Havana", date(2025, 11, 2)),
    ("Australia/Lord_Howe", date(2025, 4, 6)),
    ("Australia/Lord_Howe", date(2025, 10, 5)),
    ("Antarctica/Troll", date(2025, 3, 30)),
    ("Antarctica/Troll", date(2025, 10, 26)),
    ("Africa/Casablanca", date(2025, 2, 23)),
    ("Pacific/Apia", date(2011, 12, 30)),
]
MINUTE = timedelta(minutes=1)


def field(numbers: set[int], whole: int) -> str:
    return "*" if len(numbers) == whole else ",".join(str(number) for number in sorted(numbers))


@cache
def clock(zone: str, start: datetime) -> dict[datetime, datetime]:
    """What every minute of five days is called on the clock there, by instant."""
    instants = [start + MINUTE * number for number in range(5 * 1440)]
    return {at: at.astimezone(ZoneInfo(zone)).replace(tzinfo=None, fold=0) for at in instants}


def expected_ticks(
    minutes: set[int], hours: set[int], names: Mapping[datetime, datetime]
) -> list[datetime]:
    if len(hours) == 24:
        return [at for at, name in names.items() if name.minute in minutes]
    first = {name: at for at, name in reversed(list(names.items()))}
    wall, last = min(first), max(first)
    due: dict[datetime, None] = {}
    while wall <= last:
        if wall.hour in hours and wall.minute in minutes:
            shown = wall
            while shown not in first:
                shown += MINUTE
            due[first[shown]] = None
        wall += MINUTE
    return list(due)


@given(
    st.sampled_from(CHANGES),
    st.just({*range(60)}) | st.sets(st.integers(0, 59), min_size=1, max_size=3),
    st.just({*range(24)}) | st.sets(st.integers(0, 23), min_size=1, max_size=4),
    st.integers(1440, 4 * 1440),
    st.integers(0, 2 * 1440),
)
def test_cron_fires_as_the_clock_on_the_wall_says(
    change: tuple[str, date], minutes: set[int], hours: set[int], begin: int, length: int
) -> None:
    zone, day = change
    start = datetime(day.year, day.month, day.day, tzinfo=UTC) - timedelta(days=2)
    after = start + MINUTE * begin
    until = min(after + MINUTE * length, start + timedelta(days=4))
    ticks = expected_ticks(minutes, hours, clock(zone, start))
    expected = [tick for tick in ticks if after < tick <= until]
    cron = Cron(f"{field(minutes, 60)} {field(hours, 24)} * * *", zone)
    assert cron.ticks_between(after, until, 10_000) == expected
    assert cron.newest_between(after, until, 3) == expected[-3:]
