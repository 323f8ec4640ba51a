"""When a schedule is due: cron expressions in a time zone, as instants in UTC.

An expression has five fields (minute, hour, day of month, month, day of week), or six with seconds
in front, or is one of `@hourly @daily @weekly @monthly @yearly`. If neither day field begins with
`*` a day that matches either is enough. Several expressions are merged; an instant counts once.

When clocks change:

- An expression that fires in *every* hour of the day follows elapsed time. Local times that are
  skipped in spring do not fire, and those that happen twice in autumn fire twice, so that an hourly
  schedule stays hourly.
- Any other expression names times of the day, and each happens once a day. One that is skipped
  fires at the first instant after the gap (several skipped ones together, once); one that happens
  twice fires the first time.

The calendar is cronsim's, which is only asked about local time without a zone; this module decides
which instant a local time is. There are no ticks before 1970 or after 9900. The result depends on
the time zone database: a government that moves its clocks moves the ticks.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from heapq import merge
from itertools import dropwhile, groupby, islice, takewhile, tee
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import msgspec
from cronsim import CronSim, CronSimError

from servo.errors import Invalid

_ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_MAX_LENGTH = 256
_HOURS_A_DAY = 24
_FIRST = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = datetime(9900, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_EXAMPLE = "write it like '30 6 * * MON-FRI' (minute, hour, day of month, month, day of week)"


class Cron(msgspec.Struct, frozen=True):
    """One or more cron expressions in a time zone, checked when it is made."""

    expressions: tuple[str, ...]
    timezone: str = "UTC"

    if TYPE_CHECKING:

        def __init__(self, expressions: str | Sequence[str], timezone: str = "UTC") -> None: ...

    def __post_init__(self) -> None:
        given: str | Sequence[str] = self.expressions
        strings = (given,) if isinstance(given, str) else tuple(given)
        msgspec.structs.force_setattr(self, "expressions", strings)
        if not strings:
            raise Invalid("a schedule has no cron expression", remedy=_EXAMPLE)
        _ = _zone(self.timezone)
        for text in strings:
            _check_expression(text)

    def next_after(self, instant: datetime) -> datetime | None:
        """The first tick after `instant`; None if there is none within 50 years."""
        return next(self._forward(instant), None)

    def ticks_between(self, after: datetime, until: datetime, limit: int) -> list[datetime]:
        """The oldest `limit` ticks after `after`, up to and including `until`, in order."""
        due = takewhile(lambda tick: tick <= until, self._forward(after))
        return list(islice(due, max(limit, 0)))

    def newest_between(self, after: datetime, until: datetime, limit: int) -> list[datetime]:
        """The newest `limit` ticks after `after`, up to and including `until`, in order.

        The work follows `limit`, however long the window is.
        """
        due = takewhile(lambda tick: tick > after, self._backward(until))
        return list(islice(due, max(limit, 0)))[::-1]

    def _forward(self, after: datetime) -> Iterator[datetime]:
        ticks = takewhile(lambda tick: tick <= _LAST, self._ticks(after, reverse=False))
        return dropwhile(lambda tick: tick <= after, ticks)

    def _backward(self, until: datetime) -> Iterator[datetime]:
        ticks = takewhile(lambda tick: tick >= _FIRST, self._ticks(until, reverse=True))
        return dropwhile(lambda tick: tick > until, ticks)

    def _ticks(self, instant: datetime, *, reverse: bool) -> Iterator[datetime]:
        """All ticks in order, from a little before `instant` on."""
        zone, start = _zone(self.timezone), _clamped(instant)
        streams = [_instants(text, zone, start, reverse=reverse) for text in self.expressions]
        return (tick for tick, _ in groupby(merge(*streams, reverse=reverse)))


def _instants(text: str, zone: ZoneInfo, start: datetime, *, reverse: bool) -> Iterator[datetime]:
    """The ticks of one expression in order, from a little before `start` on."""
    local = start.astimezone(zone)
    # Where a local hour happens twice, a tick beyond `start` may have a local time on this side
    # of it, by as much as the clock goes back.
    slack = _offset(local, fold=0) - _offset(local, fold=1)
    naive = local.replace(tzinfo=None, fold=0, microsecond=0)
    walls = CronSim(expanded(text), naive + slack + _SECOND if reverse else naive - slack, reverse)
    if len(walls.hours) < _HOURS_A_DAY:
        return (_once(wall.replace(tzinfo=zone)) for wall in walls)
    first, second = tee(walls)
    passes = _existing(first, zone, fold=0), _existing(second, zone, fold=1)
    return merge(*passes, reverse=reverse)


def _existing(walls: Iterable[datetime], zone: ZoneInfo, *, fold: int) -> Iterator[datetime]:
    locals_ = (wall.replace(tzinfo=zone, fold=fold) for wall in walls)
    return (local.astimezone(UTC) for local in locals_ if not _is_skipped(local))


def _once(local: datetime) -> datetime:
    return _gap_end(local) if _is_skipped(local) else local.astimezone(UTC)


def _is_skipped(local: datetime) -> bool:
    # Before a gap the offset is the smaller one, before an overlap the larger.
    return _offset(local, fold=0) < _offset(local, fold=1)


def _gap_end(local: datetime) -> datetime:
    """The instant at which the clock jumped over `local`."""
    naive, zone = local.replace(tzinfo=UTC), local.tzinfo
    before, after = naive - _offset(local, fold=1), naive - _offset(local, fold=0)
    old = before.astimezone(zone).utcoffset()
    while after - before > _SECOND:
        middle = before + (after - before) // _SECOND // 2 * _SECOND
        if middle.astimezone(zone).utcoffset() == old:
            before = middle
        else:
            after = middle
    return after


def _offset(local: datetime, *, fold: int) -> timedelta:
    # Every zone has an offset at every time; `or` only tells the type checker so.
    return local.replace(fold=fold).utcoffset() or timedelta(0)


def _clamped(instant: datetime) -> datetime:
    if instant.tzinfo is None:
        raise Invalid(f"{instant} has no time zone", remedy="pass an aware datetime in UTC")
    return min(max(instant, _FIRST - _SECOND), _LAST)


def _zone(name: str) -> ZoneInfo:
    try:
        # These two are whatever the machine is set to.
        if name not in ("localtime", "posixrules"):
            return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        pass
    raise Invalid(
        f"there is no time zone {name!r}", remedy="use an IANA name, such as 'Europe/Berlin'"
    )


def expanded(text: str) -> str:
    """The expression that an alias stands for."""
    return _ALIASES.get(text.strip().lower(), text)


def _check_expression(text: str) -> None:
    if fault := _expression_fault(expanded(text)):
        raise Invalid(f"cron expression {text[:_MAX_LENGTH]!r}: {fault}", remedy=_EXAMPLE)


def _expression_fault(text: str) -> str:
    if len(text) > _MAX_LENGTH or not (text.isascii() and text.isprintable()):
        return f"not {_MAX_LENGTH} printable ASCII characters at most"
    try:
        ticks = CronSim(text, _FIRST.replace(tzinfo=None))
    except CronSimError as error:
        return str(error).lower()
    return "" if any(True for _ in ticks) else "never due, because no such day exists"
