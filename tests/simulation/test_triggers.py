"""Schedules, sensors, messages and conditions under every fault there is."""

import pytest

from servo.core.events.schedules import TickStatus
from servo.core.events.sensors import SensorEvalStatus
from servo.core.state.state import State
from simulation.run import Simulation
from simulation.triggering import world_of_triggers

# Worlds of triggers that broke a rule at some time, and must not again: ticks that overtook each
# other, and a stretch of missed ticks that was taken for a shorter one.
ONCE_BROKEN = (4, 26)


@pytest.mark.parametrize(
    "seed",
    [7, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (0, 1, 3, 6, *ONCE_BROKEN))],
)
def test_whatever_happens_each_cause_has_its_runs_and_has_them_once(seed: int) -> None:
    outcome = Simulation(seed, world_of_triggers(seed)).run()
    assert outcome.violation is None, f"seed {seed}: {outcome.violation}"
    assert outcome.runs > 1


@pytest.mark.slow
def test_the_worlds_see_whatever_can_become_of_a_trigger() -> None:
    evaluations = (SensorEvalStatus.TRIGGERED, SensorEvalStatus.FAILED)
    missing = {f"tick {status}" for status in TickStatus}
    missing |= {f"evaluation {status}" for status in evaluations} | {*RARE}
    for seed in (*TELLING, *range(60)):
        simulation = Simulation(seed, world_of_triggers(seed))
        _ = simulation.run()
        missing -= seen_in(simulation.oracle.live.state)
        if not missing:
            return
    assert not missing


TELLING = (4, 11, 14, 26)
"""Worlds in which everything was seen last. Traces change; then others are searched."""

RARE = ("a stretch of skipped ticks", "a stale evaluation", "a conflict", "a condition that asked")


def seen_in(state: State) -> set[str]:
    """What became of the triggers of one world."""
    ticks, evaluations = state.schedule_ticks.values(), state.sensor_evals.values()
    rare = (
        any(row.skipped_count > 1 for row in ticks),
        any(row.stale for row in evaluations),
        len(state.run_key_conflicts) > 0,
        any(row.requested_count for row in state.automation_evaluations.values()),
    )
    statuses = {f"tick {row.status}" for row in ticks}
    statuses |= {f"evaluation {row.status}" for row in evaluations}
    return statuses | {name for name, seen in zip(RARE, rare, strict=True) if seen}


def test_the_same_seed_is_the_same_world_of_triggers() -> None:
    first, second = (Simulation(5, world_of_triggers(5)).run() for _ in range(2))
    assert first == second


def test_swarms_differ_in_what_there_is_to_trigger() -> None:
    worlds = [found for seed in range(40) if (found := world_of_triggers(seed).triggers)]
    for kind in ("schedules", "polls", "pushes", "conditions", "beside_leaders"):
        assert {getattr(world, kind) for world in worlds} == {True, False}
    assert {world.hosts for world in worlds} == {0, 1, 2}
    assert all(world.beside_leaders or world.hosts for world in worlds)
