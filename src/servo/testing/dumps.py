"""What readers see of a workspace, for comparing it with what was folded."""

from servo.core.state.state import folded_tables
from servo.projection.read.reader import Snapshot
from servo.projection.upkeep.compare import Dump, canonical_rows


def dump_snapshot(snapshot: Snapshot) -> Dump:
    """Every folded table as readers see it."""
    return {name: canonical_rows(snapshot.rows(name)) for name in folded_tables()}
