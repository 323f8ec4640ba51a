"""The simulator itself: it repeats itself, it finds what is planted, and it finds nothing else."""

import subprocess
import sys

import pytest

from simulation.bugs import BUGS
from simulation.kernel import Kernel, Violation
from simulation.running import run_seed
from simulation.swarm import draw
from simulation.worlds import IN_A_ROW, PLAIN, WORLDS, dealt
from tests.simulation.alone import run_alone

# Worlds that broke a rule at some time, and must not again.
ONCE_BROKEN = (2, 9, 22, 31, 493, 836)

# Bugs that take their worlds more than half a second to show.
LONG = frozenset(
    {
        "chunk_fails_as_a_whole",
        "conflict_not_told",
        "epoch_not_owner",
        "everyone_granted",
        "half_applied_batch",
        "last_try_counts",
        "message_known_by_evaluation",
        "missed_in_silence",
        "never_too_old",
        "news_lost",
        "no_claim",
        "no_refresh_on_takeover",
        "no_reread_after_claim",
        "no_reread_after_fence",
        "place_without_names",
        "progress_counted_twice",
        "ready_too_early",
        "report_sent_once",
        "stretches_that_begin_alike",
        "tick_by_another_clock",
        "ticks_at_once",
        "two_evaluations_count",
    }
)


def test_the_same_seed_is_the_same_world() -> None:
    first, second = run_seed(7), run_seed(7)
    assert first == second
    assert first.fingerprint != run_seed(8).fingerprint


@pytest.mark.slow
@pytest.mark.parametrize("seed", ONCE_BROKEN)
def test_a_world_that_once_broke_a_rule_keeps_it_now(seed: int) -> None:
    assert run_seed(seed).violation is None


@pytest.mark.parametrize(
    "name", [pytest.param(bug, marks=pytest.mark.slow) if bug in LONG else bug for bug in BUGS]
)
def test_a_planted_bug_is_found(name: str) -> None:
    bug = BUGS[name]
    assert run_alone(bug.seed, world=bug.world, bug=name).violation is not None


def test_a_world_that_is_busy_without_any_time_passing_breaks_a_rule() -> None:
    kernel = Kernel(0)

    def spin() -> None:
        kernel.at(0, spin)

    kernel.at(5, spin)
    with pytest.raises(Violation, match="loops for ever at 5"):
        kernel.run_until(10)


def test_without_a_kind_every_kind_of_world_has_its_turn() -> None:
    seeds = range(IN_A_ROW * len(WORLDS))
    assert {dealt(seed) for seed in seeds} == {*WORLDS}
    assert {dealt(seed) for seed in range(IN_A_ROW)} == {PLAIN}


def test_the_line_that_replays_a_seed_names_its_world() -> None:
    command = [sys.executable, "-m", "simulation", "--seeds", "18:19", "--jobs", "1"]
    found = subprocess.run(
        [*command, "--bug", "unknown_told_as_no"], capture_output=True, text=True, check=True
    )
    assert "replay: make sim SEEDS=18:19 WORLD=plain BUG=unknown_told_as_no TRACE=1" in found.stdout


def test_swarms_differ_in_what_they_switch_on() -> None:
    worlds = [draw(seed) for seed in range(50)]
    assert {world.store.late > 0 for world in worlds} == {True, False}
    assert {world.max_leaders for world in worlds} == {2, 3, 4, 5}
    assert {world.task_cap for world in worlds} == {None, 1, 3}
    assert {world.pool_limit for world in worlds} == {None, 1, 2}
