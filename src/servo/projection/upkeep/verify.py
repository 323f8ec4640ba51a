"""Is everything that is stored what was written, and does it say what the ledger says?

Seven questions, in this order, each answered for all there is and none stopping at the first fault:

    ledger        is every entry intact, and does each continue the one before?
    manifests     is every version intact, and does each continue the one before?
    files         has every file that a version names its size and its hash?
    plans         has every plan and list its hash, and is none missing that a run needs?
    dead letters  is every stored original of a dead letter there, with its hash?
    projection    is the newest version, row for row, what the ledger folds to?
    logs          has every log that an execution reported its size and its hash?

Outputs are an eighth, answered by `servo.execution.outputs.verification`. Logs and outputs are left
out of a quick verification: they are most of the bytes.

Reads only. A workspace that is in use can be verified: what is judged is what was there at first.
"""

from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from hashlib import sha256
from itertools import islice, pairwise

import msgspec

from servo.core.events.envelope import Encoding, Entry, Original
from servo.core.events.tasks import StoredLog, TaskFinished
from servo.core.manifest import FileEntry, Manifest, ObjectRef, check_successor
from servo.core.state.state import State
from servo.errors import Corrupt, Internal, NotFound, ServoError
from servo.ledger.paths import Paths
from servo.ledger.reader import LedgerReader
from servo.ports.object_store import ObjectStore
from servo.projection.files.files import fetch
from servo.projection.files.manifest_store import ManifestStore
from servo.projection.read.reader import Snapshot
from servo.projection.read.replay import NOTHING, Replay
from servo.projection.read.time_travel import Overlaid, Past
from servo.projection.upkeep.rebuild import newest_intact, objects_of
from servo.projection.upkeep.row_diff import RowDiff, row_diffs
from servo.projection.upkeep.verify_ledger import check_ledger, ledger_end

MAX_DIFFS = 20


class ProblemPart(StrEnum):
    """What a problem was found in."""

    LEDGER = "ledger"
    MANIFESTS = "manifests"
    FILES = "files"
    PLANS = "plans"
    DEAD_LETTERS = "dead letters"
    PROJECTION = "projection"
    LOGS = "logs"
    OUTPUTS = "outputs"


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is not as it should be, and what to do about it."""

    part: ProblemPart
    what: str
    remedy: str


class VerifyReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was checked, and the problems found.

    `logs` and `outputs` are null if they were left out. `compared` is False if the ledger is
    incomplete, so that the projection could not be rebuilt for a comparison; everything else was
    still checked.
    """

    entries: int
    manifests: int
    files: int
    bytes: int
    plans: int
    dead_letters: int = 0
    applied_seq: int
    compared: bool
    logs: int | None = None
    outputs: int | None = None
    problems: tuple[Problem, ...] = ()

    @property
    def sound(self) -> bool:
        return not self.problems


VerifyProgress = Callable[[ProblemPart, int, int], None]


def ignore(part: ProblemPart, done: int, total: int) -> None:
    """Progress that nobody watches."""
    del part, done, total


def verify(
    store: ObjectStore, paths: Paths, *, quick: bool = False, progress: VerifyProgress = ignore
) -> VerifyReport:
    """Check one workspace, `quick` without its logs.

    `progress` gets what is done and how much there is.
    """
    return _Verification(store, paths, progress, quick=quick).run()


class _Verification:
    def __init__(
        self, store: ObjectStore, paths: Paths, progress: VerifyProgress, *, quick: bool
    ) -> None:
        self._store = store
        self._paths = paths
        self._progress = progress
        self._manifests = ManifestStore(store, paths)
        self._problems: list[Problem] = []
        self._quick = quick
        self._logs: dict[str, StoredLog] = {}
        self._originals: dict[str, Original] = {}

    def run(self) -> VerifyReport:
        versions = self._manifests.versions()
        end = ledger_end(self._store, self._paths)
        self._check_ledger(end)
        kept = self._check_manifests(versions, end)
        files, size = self._check_files(kept)
        plans = self._check_plans()
        self._check_originals()
        newest = kept[-1] if kept else NOTHING
        compared = self._compare(newest)
        if not self._quick:
            self._check_logs()
        return VerifyReport(
            entries=end,
            manifests=len(versions),
            files=files,
            bytes=size,
            plans=plans,
            dead_letters=len(self._originals),
            applied_seq=newest.applied_seq,
            compared=compared,
            logs=None if self._quick else len(self._logs),
            problems=tuple(self._problems),
        )

    def _note(self, part: ProblemPart, error: ServoError) -> None:
        self._problems.append(Problem(part=part, what=error.message, remedy=error.remedy))

    # --- ledger -----------------------------------------------------------------------------

    def _check_ledger(self, end: int) -> None:
        def step(done: int) -> None:
            self._progress(ProblemPart.LEDGER, done, end)

        for problem in check_ledger(
            self._store, self._paths, end, progress=step, note=self._note_stored
        ):
            self._note(ProblemPart.LEDGER, problem)

    def _note_stored(self, entry: Entry) -> None:
        """Note the objects that an entry names."""
        for batch in entry.batches:
            original = batch.original
            if original is not None and original.encoding is Encoding.STORED:
                self._originals[self._paths.dead_letter(original.sha256)] = original
            for event in () if self._quick else batch.events:
                if isinstance(event, TaskFinished) and event.log is not None:
                    self._logs[event.log.key] = event.log

    def _check_logs(self) -> None:
        for done, log in enumerate(self._logs.values(), start=1):
            self._progress(ProblemPart.LOGS, done, len(self._logs))
            try:
                data = self._store.get(log.key).data
            except NotFound:
                what = f"the log {log.key} is missing"
            else:
                if (len(data), sha256(data).hexdigest()) == (log.size, log.sha256):
                    continue
                what = f"the log {log.key} is not the one that was stored"
            remedy = "restore it from a backup; nothing else depends on it"
            self._note(ProblemPart.LOGS, Corrupt(what, remedy=remedy))

    def _check_originals(self) -> None:
        for done, (key, original) in enumerate(self._originals.items(), start=1):
            self._progress(ProblemPart.DEAD_LETTERS, done, len(self._originals))
            try:
                data = self._store.get(key).data
            except NotFound:
                what = f"{key} is missing: it is what {original.source} held"
            else:
                if sha256(data).hexdigest() == original.sha256:
                    continue
                what = f"{key} does not hold the bytes it is named after"
            remedy = "restore it from a backup; nothing else depends on it"
            self._note(ProblemPart.DEAD_LETTERS, Corrupt(what, remedy=remedy))

    # --- manifests --------------------------------------------------------------------------

    def _check_manifests(self, versions: list[int], end: int) -> list[Manifest]:
        kept: list[Manifest] = []
        for done, v in enumerate(versions, start=1):
            self._progress(ProblemPart.MANIFESTS, done, len(versions))
            try:
                kept.append(self._manifests.read(v))
            except Corrupt as error:
                self._note(ProblemPart.MANIFESTS, error)
            except NotFound:
                continue  # collected meanwhile
        for old, new in pairwise(kept):
            if new.v == old.v + 1:
                self._check_succession(old, new)
        if kept:
            self._check_reached(kept[-1], end)
        return kept

    def _check_succession(self, old: Manifest, new: Manifest) -> None:
        try:
            check_successor(old, new)
        except Internal as error:
            what = f"manifest {new.v} cannot follow manifest {old.v}: {error.message}"
            remedy = "rebuild the projection, and report this with both manifests"
            self._note(ProblemPart.MANIFESTS, Corrupt(what, remedy=remedy))

    def _check_reached(self, newest: Manifest, end: int) -> None:
        """The newest version must stand on an entry of this ledger."""
        seq = newest.applied_seq
        if not seq:
            return
        with suppress(Corrupt):  # a damaged entry is a problem of the ledger, and is known
            found = LedgerReader(self._store, self._paths).read(seq)
            if found is None or seq > end or found[1] != newest.last_hash:
                what = f"manifest {newest.v} applies entry {seq}, which is not in this ledger"
                remedy = "restore the ledger from a backup: its end is missing or it was replaced"
                self._note(ProblemPart.MANIFESTS, Corrupt(what, remedy=remedy))

    # --- files ------------------------------------------------------------------------------

    def _check_files(self, kept: list[Manifest]) -> tuple[int, int]:
        refs = {ref.key: (ref, manifest.v) for manifest in kept for ref in objects_of(manifest)}
        for done, (ref, v) in enumerate(refs.values(), start=1):
            self._progress(ProblemPart.FILES, done, len(refs))
            self._check_file(ref, v, newest=v == kept[-1].v)
        return len(refs), sum(ref.size for ref, _ in refs.values())

    def _check_file(self, ref: FileEntry | ObjectRef, v: int, *, newest: bool) -> None:
        try:
            _ = fetch(self._store, ref)
        except Corrupt as error:
            self._note(ProblemPart.FILES, error if newest else _past(error.message, v))
        except NotFound:
            what = f"{ref.key} is missing, but manifest {v} refers to it"
            remedy = "rebuild the projection from the ledger"
            self._note(
                ProblemPart.FILES, Corrupt(what, remedy=remedy) if newest else _past(what, v)
            )

    # --- plans ------------------------------------------------------------------------------

    def _check_plans(self) -> int:
        metas = self._store.list_after(self._paths.plans_prefix)
        for done, meta in enumerate(metas, start=1):
            self._progress(ProblemPart.PLANS, done, len(metas))
            with suppress(NotFound):
                data = self._store.get(meta.key).data
                if sha256(data).hexdigest() != meta.key.rpartition("/")[2]:
                    what = f"{meta.key} does not hold the bytes it is named after"
                    remedy = "restore it from a backup, or retry the runs that need it"
                    self._note(ProblemPart.PLANS, Corrupt(what, remedy=remedy))
        return len(metas)

    # --- projection -------------------------------------------------------------------------

    def _compare(self, newest: Manifest) -> bool:
        """Fold the ledger and compare; False if the ledger does not allow it."""
        broken = {problem.part for problem in self._problems}
        if broken & {ProblemPart.LEDGER, ProblemPart.PLANS}:
            return False
        if broken and newest_intact(self._store, self._paths).v != newest.v:
            return False  # it cannot be read, which is known

        def step(seq: int) -> None:
            self._progress(ProblemPart.PROJECTION, seq, newest.applied_seq)

        state = State(self._paths.tenant, self._paths.workspace)
        try:
            Replay(self._store, self._paths, progress=step).forward(
                state, NOTHING, until=newest.applied_seq
            )
        except (Corrupt, NotFound) as error:
            self._note(ProblemPart.PROJECTION, error)
            return False
        rebuilt = Overlaid(self._store, self._paths, Past(state=state, base=NOTHING))
        for diff in islice(row_diffs(Snapshot(self._store, newest), rebuilt), MAX_DIFFS):
            self._note(ProblemPart.PROJECTION, _differs(diff))
        return True


def _past(what: str, v: int) -> Corrupt:
    return Corrupt(
        f"{what} (in the past version {v})",
        remedy="the current version does not need it; `--as-of` falls back to an older version",
    )


def _differs(diff: RowDiff) -> Corrupt:
    return Corrupt(describe(diff), remedy="rebuild the projection from the ledger")


def describe(diff: RowDiff) -> str:
    """A difference in words."""
    row = f"{diff.table} {', '.join(map(str, diff.key))}"
    if not diff.rebuilt:
        return f"{row} is published but not in the ledger"
    if not diff.published:
        return f"{row} is in the ledger but not published"
    columns = ", ".join(
        f"{name} is {published!r}, but the ledger gives {rebuilt!r}"
        for name, (published, rebuilt) in diff.columns.items()
    )
    return f"{row}: {columns}"
