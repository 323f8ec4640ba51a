"""Commands on simulated machines: whatever is killed, nothing is lost or made twice."""

import pytest

from simulation.commands import world_of_commands
from tests.simulation.alone import adopts_alone, run_alone


@pytest.mark.parametrize(
    "seed", [4, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (0, 1, 2, 5, 9, 17))]
)
def test_whatever_happens_to_commands_every_run_ends_and_nothing_is_lost(seed: int) -> None:
    outcome = run_alone(seed, world="commands")
    assert outcome.violation is None, f"seed {seed}: {outcome.violation}"


def test_the_same_seed_is_the_same_world_of_commands() -> None:
    first, second = run_alone(3, world="commands"), run_alone(3, world="commands")
    assert first == second


@pytest.mark.slow
def test_the_worlds_see_adopted_results() -> None:
    assert any(adopts_alone(seed) for seed in range(30))


def test_worlds_differ_in_their_machines_and_faults() -> None:
    worlds = [found for seed in range(40) if (found := world_of_commands(seed).commands)]
    assert {world.machines for world in worlds} == {1, 2}
    assert {world.dev for world in worlds} == {True, False}
    assert {world.suspend > 0 for world in worlds} == {True, False}
