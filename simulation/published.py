"""What is published, as those outside the leader read it."""

from typing import Any

from servo.core.manifest import TableFiles
from servo.core.state.tables import TABLES
from servo.errors import ServoError
from servo.projection.read.reader import Reader
from simulation.kernel import Process
from simulation.world import SimulatedWorld


class Published:
    """What is published, as an actor outside the leader reads it."""

    def __init__(self, world: SimulatedWorld, process: Process) -> None:
        self._reader = Reader(world.store_of(process), world.paths)
        self._seen: dict[str, tuple[TableFiles | None, dict[Any, Any]]] = {}

    def rows(self, table: str) -> dict[Any, Any] | None:
        """The rows of a table by key; None if the store is not to be reached."""
        try:
            snapshot = self._reader.snapshot()
            files = snapshot.manifest.tables.get(table)
            known = self._seen.get(table)
            if known is not None and known[0] == files:
                return known[1]
            rows = snapshot.rows(table)
        except ServoError:
            return None
        key_of = TABLES[table].key_of
        self._seen[table] = (files, {key_of(row): row for row in rows})
        return self._seen[table][1]
