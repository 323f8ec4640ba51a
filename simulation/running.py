"""Running the world of a seed, of any kind."""

from simulation.command_world import CommandSimulation
from simulation.disk_world import DiskSimulation
from simulation.run import Outcome, Simulation
from simulation.worlds import PLAIN, WORLDS


def simulation_of(seed: int, *, world: str = PLAIN, trace: bool = False) -> Simulation:
    """The world of a seed, of this kind."""
    swarm = WORLDS[world](seed)
    kind = Simulation if swarm.commands is None else CommandSimulation
    kind = DiskSimulation if swarm.power_cuts else kind
    return kind(seed, swarm, trace=trace)


def run_seed(seed: int, *, world: str = PLAIN) -> Outcome:
    """Run the world of a seed, of this kind."""
    return simulation_of(seed, world=world).run()
