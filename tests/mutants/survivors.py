"""Mutants that are known to survive, each with the reason: `survivors.toml`."""

from pathlib import Path

import msgspec

from tests.mutants.changes import Mutant

LIST = Path(__file__).with_name("survivors.toml")


class Survivor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A mutant that survives, and why that is right or accepted."""

    path: str
    scope: str
    was: str
    now: str
    equivalent: bool
    """Whether it behaves like the original, so that no test could kill it."""
    reason: str


class Survivors(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The list."""

    survivor: tuple[Survivor, ...] = ()

    def find(self, mutant: Mutant) -> Survivor | None:
        """The entry of a mutant, wherever its lines are now."""
        told = (mutant.path, mutant.scope, mutant.was, mutant.now)
        return next((s for s in self.survivor if (s.path, s.scope, s.was, s.now) == told), None)


def known(file: Path = LIST) -> Survivors:
    """Read the list."""
    return msgspec.toml.decode(file.read_bytes(), type=Survivors)
