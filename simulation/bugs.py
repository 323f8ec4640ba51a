"""Bugs, planted on purpose: a simulator that does not find them proves nothing.

Each bug replaces one piece of the real code by a broken one while a world runs. Production code
has no switches for them. `seed` is a world that is known to find the bug.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType

from simulation import backfill_bugs, command_bugs, folding_bugs, leading_bugs, trigger_bugs
from simulation.planting import Bug

BUGS: Mapping[str, Bug] = MappingProxyType(
    {
        **leading_bugs.BUGS,
        **folding_bugs.BUGS,
        **backfill_bugs.BUGS,
        **trigger_bugs.BUGS,
        **command_bugs.BUGS,
    }
)


def planted(name: str) -> AbstractContextManager[None]:
    """A context in which the bug of this name is there; none for the empty name."""
    return BUGS[name].plant() if name else nullcontext()
