"""Is everything that is stored what was written, and does it say what the ledger says?

Seven questions, in this order, each answered for all there is and none stopping at the first fault:

    manifests     is every version intact, and does each continue the one before?
    ledger        is every entry intact, and does each continue the one before?
                  does every version stand on the entry that it names?
    files         has every file that a version names its size and its hash, and does it hold what
                  the version says: rows, tombstones, ranges of keys and versions, level, key index?
    plans         has every plan and list its hash, and is none missing that a run needs?
    dead letters  is every stored original of a dead letter there, with its hash?
    projection    is the newest version, row for row, what the ledger folds to, and does its active
                  tier hold everything that a leader loads?
    logs          has every log that an execution reported its size and its hash?

Outputs are an eighth, answered by `servo.execution.outputs.verification`. Logs and outputs are left
out of a quick verification: they are most of the bytes.

Reads only. A workspace that is in use can be verified: what is judged is what was there at first.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from enum import StrEnum
from hashlib import sha256
from itertools import islice

import msgspec

from servo.core.events.envelope import Encoding, Original
from servo.core.events.tasks import StoredLog, TaskFinished
from servo.core.manifest import FileEntry, Manifest, ObjectRef
from servo.core.state.state import State
from servo.core.state.tables import TABLES
from servo.errors import Corrupt, NotFound, ServoError
from servo.ledger.paths import Paths
from servo.ports.object_store import ObjectStore
from servo.projection.files.files import fetch
from servo.projection.files.manifest_store import ManifestStore
from servo.projection.read.reader import Snapshot
from servo.projection.read.replay import NOTHING, Replay
from servo.projection.read.time_travel import Overlaid, Past
from servo.projection.upkeep.rebuild import newest_intact
from servo.projection.upkeep.row_diff import RowDiff, row_diffs
from servo.projection.upkeep.verify_files import FileContents
from servo.projection.upkeep.verify_ledger import VerifiedEntry, check_ledger, ledger_end
from servo.projection.upkeep.verify_manifests import (
    REBUILD,
    DescribedFile,
    ManifestSurvey,
    Place,
    past,
)
from servo.projection.upkeep.verify_tiers import misplaced

MAX_DIFFS = 20


class ProblemPart(StrEnum):
    """What a problem was found in."""

    MANIFESTS = "manifests"
    LEDGER = "ledger"
    FILES = "files"
    PLANS = "plans"
    DEAD_LETTERS = "dead letters"
    PROJECTION = "projection"
    LOGS = "logs"
    OUTPUTS = "outputs"


RUNBOOKS = {
    ProblemPart.MANIFESTS: "corrupt-projection",
    ProblemPart.LEDGER: "corrupt-ledger-entry",
    ProblemPart.FILES: "corrupt-projection",
    ProblemPart.PLANS: "restore-from-backup",
    ProblemPart.DEAD_LETTERS: "restore-from-backup",
    ProblemPart.PROJECTION: "corrupt-projection",
    ProblemPart.LOGS: "damaged-output",
    ProblemPart.OUTPUTS: "damaged-output",
}


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is not as it should be, what to do about it, and the runbook that says more.

    `runbook` is the name of a page in `docs/runbooks`.
    """

    part: ProblemPart
    what: str
    remedy: str
    runbook: str


def problem_of(part: ProblemPart, error: ServoError) -> Problem:
    """What a check found, as it is reported."""
    runbook = RUNBOOKS[part]
    return Problem(part=part, what=error.message, remedy=error.remedy, runbook=runbook)


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
        self._survey = ManifestSurvey(paths)
        self._problems: list[Problem] = []
        self._quick = quick
        self._logs: dict[str, StoredLog] = {}
        self._originals: dict[str, Original] = {}
        self._places: dict[int, Place] = {}

    def run(self) -> VerifyReport:
        versions = self._manifests.versions()
        end = ledger_end(self._store, self._paths)
        self._check_manifests(versions)
        self._check_ledger(end)
        files, size = self._check_files()
        plans = self._check_plans()
        self._check_originals()
        newest = self._survey.newest or NOTHING
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
        self._problems.append(problem_of(part, error))

    # --- manifests --------------------------------------------------------------------------

    def _check_manifests(self, versions: Sequence[int]) -> None:
        for done, v in enumerate(versions, start=1):
            self._progress(ProblemPart.MANIFESTS, done, len(versions))
            try:
                found = self._manifests.read(v)
            except Corrupt as error:
                self._note(ProblemPart.MANIFESTS, error)
            except NotFound:
                continue  # collected meanwhile
            else:
                for problem in self._survey.add(found):
                    self._note(ProblemPart.MANIFESTS, problem)

    # --- ledger -----------------------------------------------------------------------------

    def _check_ledger(self, end: int) -> None:
        def step(done: int) -> None:
            self._progress(ProblemPart.LEDGER, done, end)

        applied = self._survey.applied

        def note(found: VerifiedEntry) -> None:
            if found.entry.seq in applied:
                place = Place(found.digest, found.epoch, found.ts)
                self._places[found.entry.seq] = place
            self._note_originals(found)
            if not self._quick:
                self._note_logs(found)

        damaged = 0
        for problem in check_ledger(self._store, self._paths, end, progress=step, note=note):
            self._note(ProblemPart.LEDGER, problem)
            damaged += 1
        # Entries that cannot be read are known by now; without them nothing can be compared.
        unread = {seq for seq in applied if seq <= end and seq not in self._places}
        for problem in self._survey.check_standing(self._places, unread if damaged else ()):
            self._note(ProblemPart.MANIFESTS, problem)

    def _note_originals(self, found: VerifiedEntry) -> None:
        for batch in found.entry.batches:
            original = batch.original
            if original is not None and original.encoding is Encoding.STORED:
                self._originals[self._paths.dead_letter(original.sha256)] = original

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

    def _note_logs(self, found: VerifiedEntry) -> None:
        for batch in found.entry.batches:
            for event in batch.events:
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

    # --- files ------------------------------------------------------------------------------

    def _check_files(self) -> tuple[int, int]:
        described = self._survey.described
        sizes: dict[str, int] = {}
        for done, (key, ways) in enumerate(described.items(), start=1):
            self._progress(ProblemPart.FILES, done, len(described))
            contents: dict[str, FileContents | None] = {}
            for one in ways:
                sizes[key] = one.file.size
                data = self._fetched(one, one.file)
                if data is None:
                    continue
                if one.table not in contents:
                    contents[one.table] = self._contents(one, data)
                self._check_described(one, contents[one.table])
                if one.file.bloom is not None:
                    sizes[one.file.bloom.key] = one.file.bloom.size
                    self._check_index(one, one.file.bloom, contents[one.table])
        return len(sizes), sum(sizes.values())

    def _fetched(self, one: DescribedFile, ref: FileEntry | ObjectRef) -> bytes | None:
        """The bytes of an object, if they are those that the manifest names."""
        try:
            return fetch(self._store, ref)
        except Corrupt as error:
            self._note_file(one, error)
        except NotFound:
            what = f"{ref.key} is missing, but manifest {self._version(one)} refers to it"
            self._note_file(one, Corrupt(what, remedy=REBUILD))
        return None

    def _contents(self, one: DescribedFile, data: bytes) -> FileContents | None:
        spec = TABLES.get(one.table)
        if spec is None:
            return None  # of a later version, which is known
        try:
            found = FileContents(spec, self._paths, data, what=one.file.key)
        except Corrupt as error:
            self._note_file(one, error)
            return None
        for fault in found.faults:
            what = f"{one.file.key} is not a file of {one.table} of this workspace: {fault}"
            self._note_file(one, Corrupt(what, remedy=REBUILD))
        return None if found.faults else found

    def _check_described(self, one: DescribedFile, contents: FileContents | None) -> None:
        for difference in () if contents is None else contents.differences(one.file):
            what = f"manifest {self._version(one)} describes {one.file.key} wrongly: {difference}"
            self._note_file(one, Corrupt(what, remedy=REBUILD))

    def _check_index(
        self, one: DescribedFile, ref: ObjectRef, contents: FileContents | None
    ) -> None:
        data = self._fetched(one, ref)
        if data is None or contents is None:
            return
        for fault in contents.index_faults(data):
            what = f"{ref.key} is not the key index of {one.file.key}: {fault}"
            self._note_file(one, Corrupt(what, remedy=REBUILD))

    def _version(self, one: DescribedFile) -> int:
        newest = self._survey.newest
        return newest.v if newest is not None and self._survey.is_current(one) else one.v

    def _note_file(self, one: DescribedFile, error: Corrupt) -> None:
        current = self._survey.is_current(one)
        self._note(ProblemPart.FILES, error if current else past(error.message, one.v))

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
        try:
            for found in islice(self._wrong_rows(newest, rebuilt), MAX_DIFFS):
                self._note(ProblemPart.PROJECTION, found)
        except (Corrupt, NotFound) as error:
            if ProblemPart.FILES not in broken:  # else it is known why it cannot be read
                self._note(ProblemPart.PROJECTION, error)
            return False
        return True

    def _wrong_rows(self, newest: Manifest, rebuilt: Overlaid) -> Iterator[Corrupt]:
        for diff in row_diffs(Snapshot(self._store, newest), rebuilt):
            yield Corrupt(describe(diff), remedy=REBUILD)
        yield from misplaced(self._store, newest, rebuilt.state)


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
