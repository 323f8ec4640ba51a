"""The local store on a disk that loses power."""

import pytest

from tests.simulation.alone import run_alone


@pytest.mark.parametrize("seed", range(5))
def test_what_the_local_store_acknowledged_survives_a_power_cut(seed: int) -> None:
    outcome = run_alone(seed, world="disks")
    assert outcome.violation is None
    assert outcome.faults["power_cut"] >= 3


def test_the_same_seed_is_the_same_world_of_disks() -> None:
    assert run_alone(6, world="disks") == run_alone(6, world="disks")
