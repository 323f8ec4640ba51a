"""Which chunks of which backfills are next."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from servo.controllers.backfills import ahead, chunk_slice, reconcile
from servo.core.events.backfills import BackfillState, ExplicitSelector
from servo.core.state.rows.automation import BackfillRow
from servo.core.state.rows.system import QuotaRow
from servo.core.state.state import State
from servo.testing.builders import START


def row(name: str = "bf", /, **changes: object) -> BackfillRow:
    made = BackfillRow(
        backfill_id=name,
        client_request_id=name,
        request_fingerprint="fp",
        asset_selection=("a",),
        selector=ExplicitSelector(count=50),
        state=BackfillState.RUNNING,
        total_partitions=45,
        total_chunks=5,
        chunk_size=10,
        max_concurrent_runs=2,
        created_at=START,
        row_version=1,
    )
    return replace(made, **changes)


def state_of(*rows: BackfillRow, quota: int | None = None, quotas: bool = True) -> State:
    state = State("t", "w")
    for one in rows:
        state.backfills.put(one.backfill_id, one)
    if quotas:
        limit = QuotaRow(
            scope="workspace",
            name="",
            max_backfill_concurrency=quota,
            updated_at=START,
            row_version=1,
        )
        state.quotas.put(("workspace", ""), limit)
    return state


def wanted(state: State, sent: dict[str, int] | None = None) -> list[tuple[str, int, int]]:
    return [
        (found.backfill.backfill_id, found.first, found.stop)
        for found in reconcile(state, sent or {})
    ]


def test_a_new_backfill_is_given_as_many_chunks_as_it_may_have_at_once() -> None:
    assert wanted(state_of(row(), quotas=False)) == [("bf", 0, 2)]


def test_a_chunk_that_has_ended_makes_room_for_the_next() -> None:
    assert wanted(state_of(row(planned_chunks=3, active_chunks=1))) == [("bf", 3, 4)]


def test_no_chunk_is_wanted_after_the_last() -> None:
    assert wanted(state_of(row(planned_chunks=4, max_concurrent_runs=9))) == [("bf", 4, 5)]
    assert wanted(state_of(row(planned_chunks=5, active_chunks=1))) == []


def test_what_is_on_its_way_is_not_wanted_again() -> None:
    assert wanted(state_of(row(max_concurrent_runs=4)), {"bf": 3}) == [("bf", 3, 4)]
    assert wanted(state_of(row()), {"bf": 2}) == []


def test_what_was_on_its_way_and_is_folded_counts_once() -> None:
    assert wanted(state_of(row(planned_chunks=2, active_chunks=1)), {"bf": 2}) == [("bf", 2, 3)]


@pytest.mark.parametrize("state", [BackfillState.PAUSED, BackfillState.CANCELLING])
def test_a_backfill_that_does_not_run_wants_nothing(state: BackfillState) -> None:
    assert wanted(state_of(row(state=state))) == []


def test_a_backfill_of_which_enough_has_failed_wants_nothing() -> None:
    assert wanted(state_of(row(stop_on_failure=True, failed_chunks=1))) == []
    few = row(max_failed_partitions=3, partitions_failed=3)
    assert wanted(state_of(few)) == [("bf", 0, 2)]
    assert wanted(state_of(replace(few, partitions_failed=4))) == []


def test_a_backfill_that_is_over_wants_nothing() -> None:
    assert wanted(state_of(row(finished_at=START))) == []


def test_the_more_urgent_and_then_the_older_comes_first() -> None:
    late = row("c", created_at=START + timedelta(seconds=1))
    names = [name for name, _, _ in wanted(state_of(late, row("b"), row("a", priority=5)))]
    assert names == ["a", "b", "c"]


def test_backfills_share_the_slots_of_the_workspace() -> None:
    both = row("a", active_chunks=1, planned_chunks=1), row("b", max_concurrent_runs=9)
    assert wanted(state_of(*both, quota=4)) == [("a", 1, 2), ("b", 0, 2)]
    assert wanted(state_of(*both, quota=4), {"b": 1}) == [("a", 1, 2), ("b", 1, 2)]
    assert wanted(state_of(*both, quota=1)) == []


def test_chunks_are_planned_ahead_only_while_the_backfill_runs() -> None:
    assert ahead(row(), 1, 2) == range(1, 3)
    assert ahead(row(), 3, 9) == range(3, 5)
    assert len(ahead(row(state=BackfillState.PAUSED), 0, 9)) == 0


def test_the_last_chunk_is_what_is_left() -> None:
    assert chunk_slice(row(), 0) == slice(0, 10)
    assert chunk_slice(row(), 4) == slice(40, 45)
