"""Checks that take too long are stopped, on whatever thread they are."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from coverage import Coverage

from servo import InputContext, IOManager, OutputContext, asset, asset_check, checks, materialize
from servo.execution.checks.limits import TookTooLong, limited, tell_limits


@pytest.fixture(autouse=True)
def _not_measured() -> Iterator[None]:
    """Coverage takes a lock for every new file: what is interrupted then never gives it back."""
    measuring = Coverage.current()
    if measuring is None:
        yield
        return
    measuring.stop()
    try:
        yield
    finally:
        measuring.start()


def on_main(call: Callable[[], Any]) -> Any:
    return call()


def elsewhere(call: Callable[[], Any]) -> Any:
    kept: list[Any] = []

    def work() -> None:
        try:
            kept.append(call())
        except BaseException as error:  # noqa: BLE001 - whatever it is
            kept.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(20)
    if isinstance(kept[0], BaseException):
        raise kept[0]
    return kept[0]


def nobody_is_left() -> bool:
    """Whether every thread of a check has ended, or does so soon."""
    left = [thread for thread in threading.enumerate() if thread.name == "servo-check"]
    for thread in left:
        thread.join(5)
    return not any(thread.is_alive() for thread in left)


PLACES = [on_main, elsewhere]


def forever() -> None:
    while True:
        time.sleep(0.01)  # noqa: TID251 - something that takes long


@pytest.mark.parametrize("place", PLACES)
def test_what_ends_in_time_is_as_it_would_be(place: Callable[..., Any]) -> None:
    assert place(lambda: limited(5, lambda: 7)) == 7
    with pytest.raises(ZeroDivisionError):
        place(lambda: limited(5, lambda: 1 // 0))


@pytest.mark.parametrize("place", PLACES)
def test_what_does_not_end_is_stopped(place: Callable[..., Any]) -> None:
    with pytest.raises(TookTooLong):
        place(lambda: limited(0.05, forever))


def test_a_thread_that_was_left_behind_ends() -> None:
    with pytest.raises(TookTooLong):
        elsewhere(lambda: limited(0.05, forever))
    assert nobody_is_left()


def test_one_that_swallows_the_alarm_is_told_again() -> None:
    heard: list[int] = []

    def stubborn() -> None:
        while True:
            try:
                forever()
            except BaseException:
                heard.append(1)
                if len(heard) == 2:
                    raise

    with pytest.raises(TookTooLong):
        limited(0.05, stubborn)


def test_what_a_library_makes_of_the_alarm_does_not_matter() -> None:
    def disguised() -> None:
        try:
            forever()
        except BaseException:  # noqa: BLE001 - the point
            raise RuntimeError("interrupted") from None

    def late() -> int:
        try:
            forever()
        except BaseException:  # noqa: BLE001 - the point
            return 7
        return 8

    for call in (disguised, late):
        with pytest.raises(TookTooLong):
            limited(0.05, call)


def test_the_alarm_of_somebody_else_is_left_as_it_was() -> None:
    rang: list[int] = []

    def ring(*_: object) -> None:
        rang.append(1)

    handler = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        assert limited(5, lambda: 1) == 1
        left, _ = signal.getitimer(signal.ITIMER_REAL)
        assert 0 < left <= 0.2
        signal.pause()
        assert rang == [1]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("blocking", [False, True])
def test_a_check_that_takes_too_long_has_failed(place: Callable[..., Any], blocking: bool) -> None:
    @asset
    def orders() -> int:
        return 1

    @asset_check(asset=orders, timeout=0.05, blocking=blocking)
    def slow() -> bool:
        forever()
        return True

    result = place(lambda: materialize([orders, slow], raise_on_error=False))
    assert result.success is not blocking
    if blocking:
        assert "took longer than 0.05 s" in next(iter(result.failures.values()))


QUERIES = {
    "computes": "select sum(a.range * b.range) > 0 from range(2000000) a, range(100000) b",
    "streams": "select true from range(1000000000000) a where a.range % 7 = 9",
    "reads the table": "select count(*) > 0 from asset a, asset b, asset c "
    "where a.id * b.id * c.id % 7 = 9",
    "goes round": "with recursive t(n) as (select 1 union all select n + 1 from t where n < 1e10) "
    "select count(*) > 0 from t",
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("query", QUERIES.values(), ids=list(QUERIES))
def test_a_query_that_takes_too_long_is_interrupted(place: Callable[..., Any], query: str) -> None:
    @asset
    def orders() -> list[dict[str, int]]:
        return [{"id": number} for number in range(2000)]

    slow = checks.sql(orders, query, timeout=0.2, blocking=True)
    result = place(lambda: materialize([orders, slow], raise_on_error=False))
    assert "took longer than 0.2 s" in next(iter(result.failures.values()))
    assert nobody_is_left()


def test_a_query_whose_tables_never_arrive_is_given_up_on_any_thread() -> None:
    class Stuck(IOManager):
        def handle_output(self, context: OutputContext, obj: Any) -> None:
            del context, obj

        def load_input(self, context: InputContext) -> Any:
            del context
            forever()

    @asset(io_manager_key="stuck")
    def customers() -> int:
        return 1

    @asset(deps=[customers])
    def orders() -> list[dict[str, int]]:
        return [{"id": 1}]

    slow = checks.sql(orders, "select count(*) > 0 from customers", timeout=0.2, blocking=True)
    result = elsewhere(
        lambda: materialize(
            [customers, orders, slow], resources={"stuck": Stuck()}, raise_on_error=False
        )
    )
    assert "took longer than 0.2 s" in next(iter(result.failures.values()))
    assert nobody_is_left()


def test_somebody_outside_is_told_what_runs_and_for_how_long_it_may() -> None:
    told: list[tuple[float, str]] = []
    tell_limits(lambda seconds, what: told.append((seconds, what)))
    try:
        assert limited(5, lambda: len(told), "the check a of b") == 1
    finally:
        tell_limits(lambda _seconds, _what: None)
    assert told == [(5, "the check a of b"), (0.0, "")]
