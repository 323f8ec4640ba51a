"""Backfills that are paused, resumed, cancelled and repeated, under every fault there is."""

import pytest

from servo.core.events.backfills import BackfillState
from simulation.backfilling import world_of_backfills
from simulation.run import Simulation

ENDS = {BackfillState.SUCCEEDED, BackfillState.FAILED, BackfillState.CANCELLED}


@pytest.mark.parametrize(
    "seed", [5, 6, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (0, 1, 2, 3, 4, 7))]
)
def test_whatever_happens_backfills_end_and_count_what_there_is(seed: int) -> None:
    simulation = Simulation(seed, world_of_backfills(seed))
    outcome = simulation.run()
    assert outcome.violation is None, f"seed {seed}: {outcome.violation}"
    rows = simulation.oracle.live.state.backfills.rows.values()
    assert rows
    assert all(row.finished_at is not None for row in rows)


@pytest.mark.slow
def test_the_worlds_see_every_way_in_which_a_backfill_ends() -> None:
    ends: set[BackfillState] = set()
    repeated = False
    for seed in range(60):
        simulation = Simulation(seed, world_of_backfills(seed))
        _ = simulation.run()
        rows = simulation.oracle.live.state.backfills.rows.values()
        ends |= {row.state for row in rows}
        repeated |= any(row.parent_backfill_id for row in rows)
        if repeated and ends == ENDS:
            return
    pytest.fail(f"seen: {sorted(ends)}, repeated: {repeated}")
