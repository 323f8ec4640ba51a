"""Commands on simulated machines: whatever is killed, nothing is lost or made twice."""

import pytest

from simulation.command_world import CommandSimulation
from simulation.commands import world_of_commands
from simulation.running import run_seed


@pytest.mark.parametrize(
    "seed", [4, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (0, 1, 2, 5, 9, 17))]
)
def test_whatever_happens_to_commands_every_run_ends_and_nothing_is_lost(seed: int) -> None:
    outcome = CommandSimulation(seed, world_of_commands(seed)).run()
    assert outcome.violation is None, f"seed {seed}: {outcome.violation}"


def test_the_same_seed_is_the_same_world_of_commands() -> None:
    first, second = run_seed(3, world="commands"), run_seed(3, world="commands")
    assert first == second


@pytest.mark.slow
def test_the_worlds_see_adopted_results() -> None:
    for seed in range(30):
        simulation = CommandSimulation(seed, world_of_commands(seed))
        _ = simulation.run()
        if simulation.outputs.adopted:
            return
    pytest.fail("nothing was adopted in any world")


def test_worlds_differ_in_their_machines_and_faults() -> None:
    worlds = [found for seed in range(40) if (found := world_of_commands(seed).commands)]
    assert {world.machines for world in worlds} == {1, 2}
    assert {world.dev for world in worlds} == {True, False}
    assert {world.suspend > 0 for world in worlds} == {True, False}
