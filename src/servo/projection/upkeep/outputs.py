"""Outputs: what is no longer kept expires, and what nothing needs is deleted.

**Expiring** is a fact of the ledger before anything is deleted. A round looks through all
materializations and says which ones `servo.core.retention` no longer keeps; whoever leads brings
them into the ledger. **Deleting** is looking through the folders of outputs and removing every
object that is older than `gc_min_age` by the store's time and whose folder is garbage. A folder is
garbage if

1. no materialization that has not expired names it, published or still in the leader's memory;
2. its execution is not running;
3. its execution is named by no batch that is parked, and by none in the inbox.

So data that expired and data that nobody ever accepted are the same thing, and a crash between the
event and the delete, or between two deletes, leaves garbage for the next round. The marker goes
before the files it names.

**Why no report of garbage can still be accepted.** An execution writes its outputs after its claim
was granted, and an output is accepted only from the execution that its task is running under (see
`servo.core.fold.tasks`). An object that is old was written long before this step looked at the
state, so its grant is in it; if the execution is not running there, it has ended, was given up or
was refused, and stays so: ids of executions are not used twice, and a task that was left never
comes back to one. Whether its report is on the way to the leader does not matter then. A batch that
is parked or in the inbox could bring grant and report together; that is what the third rule is for.
What is accepted while a round goes on was running when the step before looked, and is in memory or
in a new file of the manifest when the next one looks: every step reads the files that are new.

**Another leader** may have granted executions that this one does not know of. A step begins by
looking whether there is one, and what it granted since is younger than `gc_min_age`.

Folders are compared by a hash of their names, in which two may be equal by chance: then garbage is
kept, and nothing else. A round needs some bytes of memory for each materialization until it ends.
"""

import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime

import msgspec

from servo.config import Settings
from servo.core.events.assets import OutputsExpired
from servo.core.events.tasks import Gate
from servo.core.manifest import FileEntry, Manifest, Tier
from servo.core.retention import Bounds, RetentionRule, Version, expired, rule_of
from servo.core.state.rows.assets import MaterializationRow
from servo.core.state.state import State
from servo.core.state.tables import TABLES
from servo.errors import Corrupt, NotFound
from servo.ledger.paths import Paths, execution_of
from servo.ports.object_store import ObjectMeta, ObjectStore
from servo.projection.files.arrow import ArrowTable, pa, pc
from servo.projection.files.files import fetch
from servo.projection.files.manifest_store import ManifestStore
from servo.projection.files.parquet import conform, live, read
from servo.projection.files.schema import DELETED, VERSION
from servo.projection.files.store_time import StoreTime
from servo.projection.read.load import load_state
from servo.projection.read.replay import Replay
from servo.projection.upkeep.gc import KEYS_PER_DELETE, PAGE, STEP, GcReport, still_ours

TABLE = "materializations"
_ID = "materialization_id"
ROWS_PER_STEP = 200_000
IDS_PER_EVENT = 200
"""As many as fit into an event, however long they are."""

_COLUMNS = (
    _ID,
    "asset_key",
    "partition_key",
    "output_uri",
    "gating_decision",
    "promoted",
    "decided_at",
    "created_at",
    "created_seq",
    "expired_at",
    VERSION,
)


class Claims(msgspec.Struct, frozen=True, kw_only=True):
    """What the leader's memory says about outputs, at the same entry as its last manifest or later.

    `running` are executions that may still report, `handed_since` when the oldest of them was
    dispatched, `unpublished` what is not in the manifest yet, `parked` batches that wait.
    """

    rules: Mapping[str, RetentionRule]
    running: frozenset[str]
    handed_since: datetime | None
    unpublished: tuple[MaterializationRow, ...]
    parked: tuple[str, ...]


def claims_of(state: State) -> Claims:
    """What a state says about outputs. An asset that is no longer defined keeps what it has."""
    rules = {
        row.asset_key: rule
        for row in state.assets.values()
        if row.defined
        and (rule := rule_of(row.retention_versions, row.retention_age_ms)) is not None
    }
    active = [state.tasks.rows[key] for key in (*state.index.running, *state.index.dispatched)]
    return Claims(
        rules=rules,
        running=frozenset(row.exec_id for row in active if row.exec_id),
        handed_since=min(
            (row.dispatched_at or row.transitioned_at for row in active), default=None
        ),
        unpublished=tuple(state.materializations.values()),
        parked=tuple(row.batch for row in state.parked.values()),
    )


class _Read(msgspec.Struct, frozen=True):
    """What is remembered of a file: names and ids of what it keeps, and what it says has expired.

    `versions` are those of assets with a retention, by asset and id, each with its row's version.
    """

    names: Sequence[int]
    ids: Sequence[int]
    gone: frozenset[int]
    versions: Mapping[str, Mapping[str, tuple[int, Version]]]


class OutputCollector:
    """Expires and collects the outputs of one workspace, a bounded step at a time.

    `limit` bounds a step: so many ids that expire, so many objects deleted.
    """

    def __init__(
        self, store: ObjectStore, paths: Paths, settings: Settings, *, limit: int = STEP
    ) -> None:
        self._store = store
        self._paths = paths
        self._settings = settings
        self._limit = limit
        self._manifests = ManifestStore(store, paths)
        self._time = StoreTime(store, paths, patience=settings.gc_min_age / 4)
        self._files: dict[str, _Read] = {}
        self._kept: Sequence[int] | None = None
        self._expiring: list[str] | None = None
        self._cursor = ""
        self.dry_run = False

    def step(self, *, current: Manifest, claims: Claims, now: datetime) -> GcReport:
        """Do a bounded part of a round; `claims` must be as new as `current`, or newer."""
        try:
            present = self._present(current, now)
            if not self._read_files(current, claims.rules):
                return GcReport(more=True)
            report = self._expire(claims, present)
            if not report.more:
                report += self._sweep(claims, present)
        except (Corrupt, NotFound) as error:
            # Nothing is deleted on the strength of what cannot be read.
            report = GcReport(problems=(str(error),))
        if not report.more:
            self._files, self._kept, self._expiring, self._cursor = {}, None, None, ""
        return report

    def _present(self, current: Manifest, now: datetime) -> datetime:
        newest = still_ours(self._manifests, current)
        after = self._paths.manifest(newest.v - 1)
        prefix = self._paths.manifest_prefix
        self._time.note(self._store.list_after(prefix, after=after, limit=1))
        return self._time.present(now)

    # --- what is recorded -------------------------------------------------------------------

    def _read_files(self, current: Manifest, rules: Mapping[str, RetentionRule]) -> bool:
        """Read the files that are new; False if that takes another step."""
        files = {file.key: file for tier in Tier for file in current.files(TABLE, tier)}
        if self._files.keys() != files.keys():
            self._kept = None
            self._files = {key: found for key, found in self._files.items() if key in files}
        rows = 0
        for file in files.values():
            if file.key not in self._files:
                if rows > ROWS_PER_STEP:
                    return False
                self._files[file.key] = self._remember(file, rules)
                rows += file.rows
        return True

    def _remember(self, file: FileEntry, rules: Mapping[str, RetentionRule]) -> _Read:
        table = read(fetch(self._store, file), what=file.key, only=[*_COLUMNS, DELETED])
        table = live(conform(TABLES[TABLE], table, only=_COLUMNS))
        names, ids = table.column("output_uri").to_pylist(), table.column(_ID).to_pylist()
        kept = table.column("expired_at").is_null().to_pylist()
        here = [place for place, name in enumerate(names) if name and kept[place]]
        return _Read(
            names=array("q", [hash(names[place]) for place in here]),
            ids=array("q", [hash(ids[place]) for place in here]),
            gone=frozenset(hash(ids[place]) for place, there in enumerate(kept) if not there),
            versions=self._versions_in(table, rules),
        )

    def _versions_in(
        self, table: ArrowTable, rules: Mapping[str, RetentionRule]
    ) -> dict[str, dict[str, tuple[int, Version]]]:
        """The materializations of assets with a retention."""
        versions: dict[str, dict[str, tuple[int, Version]]] = {}
        retained = pa.array(list(rules), pa.string())
        for row in table.filter(pc.is_in(table.column("asset_key"), retained)).to_pylist():
            version = Version(
                materialization_id=row[_ID],
                partition_key=row["partition_key"],
                created_at=row["created_at"],
                created_seq=row["created_seq"],
                stored=self._is_ours(row["output_uri"]),
                promoted=row["promoted"],
                gate=Gate(row["gating_decision"]),
                decided_at=row["decided_at"],
                expired=row["expired_at"] is not None,
            )
            versions.setdefault(row["asset_key"], {})[row[_ID]] = row[VERSION], version
        return versions

    def _is_ours(self, uri: str) -> bool:
        """Whether the data lies where outputs lie, and not where an IO manager put it."""
        return uri.startswith(self._paths.assets_prefix)

    # --- what expires -----------------------------------------------------------------------

    def _expire(self, claims: Claims, present: datetime) -> GcReport:
        """Say what is no longer kept, so much at a time."""
        if self._expiring is None:
            self._expiring = self._no_longer_kept(claims, present)
        said, self._expiring = self._expiring[: self._limit], self._expiring[self._limit :]
        return GcReport(expired=tuple(said), more=bool(self._expiring))

    def _no_longer_kept(self, claims: Claims, present: datetime) -> list[str]:
        bounds = Bounds(
            present=present,
            least_age=self._settings.gc_min_age,
            handed_since=claims.handed_since,
        )
        recent: dict[str, list[MaterializationRow]] = {}
        for row in claims.unpublished:
            recent.setdefault(row.asset_key, []).append(row)
        return [
            name
            for asset_key, rule in claims.rules.items()
            for name in expired(self._versions(asset_key, recent.get(asset_key, ())), rule, bounds)
        ]

    def _versions(self, asset_key: str, recent: Iterable[MaterializationRow]) -> Iterable[Version]:
        """The materializations of an asset as they are now: memory is newer than any file."""
        newest: dict[str, tuple[int, Version]] = {}
        for found in self._files.values():
            for name, (row_version, version) in found.versions.get(asset_key, {}).items():
                if name not in newest or newest[name][0] <= row_version:
                    newest[name] = row_version, version
        for row in recent:
            newest[row.materialization_id] = row.row_version, self._version(row)
        return [version for _, version in newest.values()]

    def _version(self, row: MaterializationRow) -> Version:
        return Version(
            materialization_id=row.materialization_id,
            partition_key=row.partition_key,
            created_at=row.created_at,
            created_seq=row.created_seq,
            stored=self._is_ours(row.output_uri),
            promoted=row.promoted,
            gate=row.gating_decision,
            decided_at=row.decided_at,
            expired=row.expired_at is not None,
        )

    # --- what is deleted --------------------------------------------------------------------

    def _sweep(self, claims: Claims, present: datetime) -> GcReport:
        found, scanned_all = self._garbage(claims, present - self._settings.gc_min_age)
        found = self._without_announced(found, claims.parked)
        for meta in found:
            if not self.dry_run:
                self._store.delete(meta.key)
        return GcReport(
            outputs=len({self._paths.output_of(meta.key) for meta in found}),
            bytes=sum(meta.size for meta in found),
            deleted=tuple(meta.key for meta in found),
            more=not scanned_all,
        )

    def _garbage(self, claims: Claims, old: datetime) -> tuple[list[ObjectMeta], bool]:
        """The next objects of garbage folders, and whether that was the end."""
        unpublished = {row.output_uri for row in claims.unpublished}
        found: list[ObjectMeta] = []
        for _ in range(0, self._limit * KEYS_PER_DELETE, PAGE):
            prefix = self._paths.assets_prefix
            page = self._store.list_after(prefix, after=self._cursor, limit=PAGE)
            for meta in page:
                if len(found) == self._limit:
                    return found, False
                self._cursor = meta.key
                folder = self._paths.output_of(meta.key)
                if meta.modified > old or folder is None or folder in unpublished:
                    continue
                if execution_of(folder) not in claims.running and not self._is_kept(folder):
                    found.append(meta)
            if len(page) < PAGE:
                return found, True
        return found, False

    def _is_kept(self, folder: str) -> bool:
        """Whether a materialization that is published and has not expired names a folder."""
        if self._kept is None:
            gone = frozenset[int]().union(*(found.gone for found in self._files.values()))
            named = (
                name
                for found in self._files.values()
                for name, made in zip(found.names, found.ids, strict=True)
                if made not in gone
            )
            self._kept = array("q", sorted(named))
        wanted = hash(folder)
        place = bisect_left(self._kept, wanted)
        return place < len(self._kept) and self._kept[place] == wanted

    def _without_announced(
        self, found: list[ObjectMeta], parked: Sequence[str]
    ) -> list[ObjectMeta]:
        """Without the outputs of executions that a batch on its way into the ledger names."""
        if not found:
            return found
        executions = {meta.key: _execution(meta.key).encode() for meta in found}
        for data in (*(text.encode() for text in parked), *self._inbox()):
            executions = {key: name for key, name in executions.items() if name not in data}
        return [meta for meta in found if meta.key in executions]

    def _inbox(self) -> Iterator[bytes]:
        for meta in self._store.list_after(self._paths.inbox_prefix):
            with suppress(NotFound):  # the leader has taken it: it is in the state, or comes to it
                yield self._store.get(meta.key).data


def collect_outputs(
    store: ObjectStore,
    paths: Paths,
    *,
    current: Manifest,
    now: datetime,
    settings: Settings,
    dry_run: bool = False,
) -> GcReport:
    """Do a whole round without leading; with `dry_run` say what it would delete.

    What runs is learned from the ledger to its end. Whatever is accepted later was running then.
    """
    collector = OutputCollector(store, paths, settings, limit=sys.maxsize // KEYS_PER_DELETE)
    collector.dry_run = dry_run
    try:
        state = load_state(store, current, paths.tenant, paths.workspace)
        Replay(store, paths).forward(state, current)
    except (Corrupt, NotFound) as error:
        return GcReport(problems=(str(error),))
    claims = claims_of(state)
    report = collector.step(current=current, claims=claims, now=now)
    while report.more:
        report += collector.step(current=current, claims=claims, now=now)
    return report


def expiry_events(names: Sequence[str]) -> list[OutputsExpired]:
    """What the ledger is told of outputs that are no longer kept."""
    return [
        OutputsExpired(materialization_ids=tuple(names[place : place + IDS_PER_EVENT]))
        for place in range(0, len(names), IDS_PER_EVENT)
    ]


def _execution(key: str) -> str:
    return execution_of(key.rpartition("/")[0])
