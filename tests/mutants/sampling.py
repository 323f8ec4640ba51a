"""A sample of mutants that depends on nothing but a seed and the mutants themselves.

Mutants are put in an order by hashing their names with the seed. So a larger sample contains a
smaller one, and a change in one file leaves the choice from the others as it was.
"""

import hashlib
from collections.abc import Iterable

from tests.mutants.changes import Mutant


def in_order(mutants: Iterable[Mutant], seed: int) -> list[Mutant]:
    """All of them, shuffled by the seed."""
    return sorted(mutants, key=lambda m: hashlib.sha256(f"{seed} {m.name}".encode()).digest())


def shares(sizes: dict[str, int], sample: int) -> dict[str, int]:
    """How many to take from each package: equally many, as far as there are so many."""
    taken = dict.fromkeys(sizes, 0)
    left = min(sample, sum(sizes.values()))
    while left:
        for name in [name for name in sizes if taken[name] < sizes[name]][:left]:
            taken[name] += 1
            left -= 1
    return taken
