"""The shapes that the benchmarks measure, under every fault there is."""

import pytest

from servo.core.state.states import RunState
from simulation.run import Simulation
from simulation.workloads import GRAPHS, world_of


@pytest.mark.parametrize(
    "seed", [3, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (0, 1, 2, 4, 5))]
)
@pytest.mark.parametrize("name", GRAPHS)
def test_whatever_happens_every_task_succeeds_and_is_made_once(name: str, seed: int) -> None:
    simulation = Simulation(seed, world_of(name, seed))
    outcome = simulation.run()
    assert outcome.violation is None, f"seed {seed} of {name}: {outcome.violation}"
    state = simulation.oracle.live.state
    (run,) = state.runs.values()
    assert run.state is RunState.SUCCEEDED
    assert run.tasks_succeeded == len(GRAPHS[name])
    made = [row.asset_key for row in state.materializations.values()]
    planned = [key for row in state.tasks.values() for key in (row.asset_key, *row.also_makes)]
    assert sorted(made) == sorted(set(planned))
