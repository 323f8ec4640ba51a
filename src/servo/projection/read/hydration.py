"""Bringing back what a batch will look up, before the fold sees it.

Rows leave the leader's memory once they are published and done with; plans and lists too large
for an event stand in the store under their digest. The fold is a pure function and reads neither,
so whoever runs it calls `prepare` first. A row that is in memory is never touched: memory is
always newer than what was published.
"""

from collections.abc import Iterable, Mapping, Sequence

from servo.core.definitions import parse_definitions
from servo.core.events.assets import DefinitionsDeployed
from servo.core.events.envelope import Batch
from servo.core.events.runs import PlanSegmentExpanded
from servo.core.fold.apply import missing
from servo.core.ids import Digest
from servo.core.manifest import Manifest
from servo.core.plan import parse_chunk
from servo.core.state.state import State
from servo.errors import Corrupt, Invalid, NotFound
from servo.ledger.paths import Paths
from servo.ports.object_store import ObjectStore
from servo.projection.read.cold import ColdRows


class Hydrator:
    """Fetches published rows and stored plan segments by key."""

    def __init__(
        self,
        store: ObjectStore,
        paths: Paths,
        manifest: Manifest,
        *,
        cold: ColdRows | None = None,
    ) -> None:
        self._store = store
        self._paths = paths
        self.cold = ColdRows(store) if cold is None else cold
        self.manifest = manifest

    def prepare(
        self, state: State, batches: Iterable[Batch], *, lenient: bool = False
    ) -> dict[str, str]:
        """Load every row and plan segment that these batches may look up.

        A batch that is new may name something that was never stored: `lenient` leaves it out, and
        what is wrong is returned by the id of the batch. Such a batch must not go into the ledger
        with its events in force: what was folded before is read strictly, and what is not there
        then was lost.
        """
        held = tuple(batches)
        self._load_rows(state, held)
        wrong: dict[str, str] = {}
        for batch in held:
            if batch.verdict is not None:
                continue
            try:
                self._load_stored(state, batch)
            except (NotFound, Corrupt, Invalid) as error:
                if not lenient:
                    raise
                wrong[batch.id] = str(error)
        return wrong

    def _load_rows(self, state: State, batches: Sequence[Batch]) -> None:
        """Load the rows that batches look up, then those that follow from them, until all are."""
        asked: dict[str, dict[object, None]] = {}
        while wanted := _missing(state, batches, asked):
            for table, keys in wanted.items():
                state.hydrate(table, self.cold.fetch(self.manifest, table, list(keys)))
                asked.setdefault(table, {}).update(keys)

    def _load_stored(self, state: State, batch: Batch) -> None:
        """Load the plans and lists that a batch names by their digest."""
        for event in batch.events:
            if type(event) is PlanSegmentExpanded:
                self._load_segment(state, event.digest)
            elif type(event) is DefinitionsDeployed and event.definitions_digest:
                self._load_definitions(state, event.definitions_digest)

    def _load_definitions(self, state: State, digest: str) -> None:
        if digest not in state.definitions:
            data = self._store.get(self._paths.plan(digest)).data
            state.definitions[digest] = parse_definitions(data, Digest(digest))

    def _load_segment(self, state: State, digest: str) -> None:
        if digest not in state.plan_segments:
            data = self._store.get(self._paths.plan(digest)).data
            state.plan_segments[digest] = parse_chunk(data, Digest(digest)).tasks


def _missing(
    state: State, batches: Sequence[Batch], asked: Mapping[str, Mapping[object, None]]
) -> dict[str, dict[object, None]]:
    """The keys that batches look up and that nobody has asked for yet, by table."""
    wanted: dict[str, dict[object, None]] = {}
    for batch in batches:
        for table, key in missing(state, batch):
            if key not in asked.get(table, ()):
                wanted.setdefault(table, {})[key] = None
    return wanted
