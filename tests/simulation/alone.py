"""Worlds in a process of their own.

Worlds of commands and disks replace `os`, `threading` and sockets in Servo's modules. A thread that
another test left in this process would meet the replacements.
"""

from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context

from simulation.bugs import planted
from simulation.command_world import CommandSimulation
from simulation.commands import world_of_commands
from simulation.run import Outcome
from simulation.running import run_seed


def run_alone(seed: int, *, world: str, bug: str = "") -> Outcome:
    """Run the world of a seed in another process, with a bug planted in it if given."""
    return _elsewhere().submit(_run, seed, world, bug).result()


def adopts_alone(seed: int) -> bool:
    """Whether a world of commands adopts the result of a process that was killed."""
    return _elsewhere().submit(_adopts, seed).result()


@cache
def _elsewhere() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, mp_context=get_context("spawn"))


def _run(seed: int, world: str, bug: str) -> Outcome:
    with planted(bug):
        return run_seed(seed, world=world)


def _adopts(seed: int) -> bool:
    simulation = CommandSimulation(seed, world_of_commands(seed))
    _ = simulation.run()
    return bool(simulation.outputs.adopted)
