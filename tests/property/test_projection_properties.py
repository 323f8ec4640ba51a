"""The law of the projection: whatever was published, moved, merged, lost or tried again, readers
see the newest version of every row, and what a leader keeps plus what it can look up is everything.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from types import UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import inspect
from msgspec.structs import replace

from servo.core.events.timers import TimerType
from servo.core.manifest import Manifest, encode, first_claim
from servo.core.state.rows.automation import RunKeyRow
from servo.core.state.rows.execution import (
    DepSatisfactionRow,
    DispatchOutboxRow,
    RunRow,
    TaskRow,
    TimerRow,
)
from servo.core.state.rows.row import Row
from servo.core.state.rows.system import ParkedBatchRow
from servo.core.state.state import State, folded_tables
from servo.core.state.states import (
    OutboxStatus,
    RunState,
    RunTransitionReason,
    TaskState,
    TimerState,
    TransitionReason,
)
from servo.core.state.tables import TABLES, Residency, TableSpec
from servo.errors import Unavailable
from servo.ledger.paths import Paths
from servo.ports.object_store import Blob, ObjectMeta
from servo.projection.files.bloom import BloomBuilder, probe
from servo.projection.files.manifest_store import ManifestStore
from servo.projection.files.parquet import decode
from servo.projection.files.parquet import encode as encode_rows
from servo.projection.files.schema import key_parts
from servo.projection.publish.capture import PendingPublish
from servo.projection.publish.merge import MergeResult
from servo.projection.publish.publisher import Publisher
from servo.projection.publish.tiering import MergePolicy
from servo.projection.read.cold import ColdRows
from servo.projection.read.load import load_state
from servo.projection.read.reader import Snapshot
from servo.projection.upkeep.compare import canonical_rows
from servo.storage.memory import MemoryStore
from servo.testing.clock import CountingEntropy, ManualClock

PATHS = Paths("acme", "prod")
START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


# --- every row of every table survives ------------------------------------------------------------

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
INSTANTS = st.datetimes(timezones=st.just(UTC))


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """Any value of a field's type, found by looking at the type."""
    if get_origin(hint) in (Union, UnionType):
        return st.one_of([values_of(member) for member in get_args(hint)])
    match inspect.type_info(hint):
        case inspect.EnumType(cls=kind):
            return st.sampled_from(list(kind))
        case inspect.VarTupleType():
            return st.lists(values_of(get_args(hint)[0]), max_size=3).map(tuple)
        case inspect.DictType():
            return st.dictionaries(TEXT, TEXT, max_size=3)
        case inspect.StructType(cls=kind):
            return structs(kind)
        case info:
            return scalars(info)


def scalars(info: inspect.Type) -> st.SearchStrategy[Any]:
    match info:
        case inspect.NoneType():
            return st.none()
        case inspect.StrType():
            return TEXT
        case inspect.IntType():
            return st.integers(-(2**63), 2**63 - 1)
        case inspect.BoolType():
            return st.booleans()
        case inspect.DateTimeType():
            return INSTANTS
        case _:
            raise AssertionError(info)


def structs(kind: type[Any]) -> st.SearchStrategy[Any]:
    hints = get_type_hints(kind)
    return st.builds(kind, **{name: values_of(hints[name]) for name in kind.__struct_fields__})


ROWS = {name: structs(spec.row) for name, spec in TABLES.items()}


@st.composite
def rows_of_a_table(draw: st.DrawFn) -> tuple[TableSpec, list[Row]]:
    spec = TABLES[draw(st.sampled_from(sorted(TABLES)))]
    return spec, draw(st.lists(ROWS[spec.name], max_size=5, unique_by=spec.key_of))


@given(rows_of_a_table())
def test_decoding_gives_back_every_row_of_every_table(held: tuple[TableSpec, list[Row]]) -> None:
    spec, rows = held
    found = decode(spec, encode_rows(spec, rows, [], PATHS))
    assert found == sorted(rows, key=key_parts(spec))


@given(rows_of_a_table(), st.integers(0, 5))
def test_a_file_gives_back_its_rows_and_none_of_its_tombstones(
    held: tuple[TableSpec, list[Row]], buried: int
) -> None:
    spec, rows = held
    tombstones = [(spec.key_of(row), 7) for row in rows[:buried]]
    found = decode(spec, encode_rows(spec, rows[buried:], tombstones, PATHS))
    assert found == sorted(rows[buried:], key=key_parts(spec))


@given(st.lists(st.tuples(TEXT, st.integers(-5, 5)), unique=True))
def test_a_filter_admits_every_key_it_was_given(keys: list[tuple[str, int]]) -> None:
    builder = BloomBuilder(len(keys))
    builder.add(keys)
    bloom = builder.build()
    assert [key for key in keys if not bloom.admits(probe(key))] == []


# --- a workspace under random changes, publishes, failures and merges -----------------------------


class Flaky:
    """A store whose next write can be refused, or applied without an answer."""

    def __init__(self) -> None:
        self.inner = MemoryStore(ManualClock())
        self.refuse_creates = False
        self.lose_answer = False

    def get(self, key: str) -> Blob:
        return self.inner.get(key)

    def get_range(self, key: str, *, start: int, length: int) -> bytes:
        return self.inner.get_range(key, start=start, length=length)

    def put(self, key: str, data: bytes) -> ObjectMeta:
        return self.inner.put(key, data)

    def create(self, key: str, data: bytes) -> ObjectMeta:
        if self.refuse_creates:
            raise Unavailable("the disk is full", may_have_applied=False)
        made = self.inner.create(key, data)
        if self.lose_answer:
            self.lose_answer = False
            raise Unavailable("no answer", may_have_applied=True)
        return made

    def replace_if(self, key: str, data: bytes, *, version: str) -> ObjectMeta:
        return self.inner.replace_if(key, data, version=version)

    def list_after(
        self, prefix: str, *, after: str = "", limit: int | None = None
    ) -> Sequence[ObjectMeta]:
        return self.inner.list_after(prefix, after=after, limit=limit)

    def delete(self, key: str) -> None:
        self.inner.delete(key)


Model = dict[str, dict[Any, Row]]


class Workspace:
    """A leader in small: changes between publishes, publishes in two halves, restarts."""

    def __init__(self) -> None:
        self.store = Flaky()
        self.entropy = CountingEntropy()
        self.now = START
        self.model: Model = {name: {} for name in folded_tables()}
        self.captured: Model = {}
        self.known: dict[str, dict[Any, None]] = {name: {} for name in folded_tables()}
        self.capture: PendingPublish | None = None
        self.merges: list[MergeResult] = []
        claim = first_claim(identity="ab" * 16, owner="me", nonce="first", ts=START)
        self.manifest: Manifest = encode(claim)[1]
        assert ManifestStore(self.store, PATHS).create(self.manifest) is None
        self.state = State("acme", "prod")
        self.start_leader()

    def start_leader(self) -> None:
        self.cold = ColdRows(self.store)
        self.publisher = Publisher(
            self.store, PATHS, self.entropy, cold=self.cold, policy=MergePolicy(fan_in=3)
        )

    # --- changes --------------------------------------------------------------------------------

    def open_entry(self) -> int:
        self.state.seq += 1
        self.state.epoch = 1
        self.state.ts = self.now
        return self.state.seq

    def close_entry(self) -> None:
        self.state.seal()
        self.state.last_hash = f"hash {self.state.seq}"

    def put(self, table: str, row: Row) -> None:
        key = TABLES[table].key_of(row)
        self.state.tables[table].put(key, row)
        self.model[table][key] = row
        self.known[table][key] = None

    def drop(self, table: str, key: object) -> None:
        self.state.tables[table].drop(key)
        self.model[table].pop(key, None)

    def bring_back(self, table: str, key: object) -> Any:
        """What a leader does before a fold that looks a key up."""
        held = self.state.tables[table]
        changed = {} if self.capture is None else self.capture.changed.get(table, {})
        if key not in held and key not in held.dirty and key not in changed:
            self.state.hydrate(table, self.cold.fetch(self.manifest, table, [key]))
        return held.get(key)

    def park_a_batch(self, number: int, again: bool) -> None:
        if f"b{number}" in self.model["parked_batches"] and not again:
            _ = self.open_entry()
            self.drop("parked_batches", f"b{number}")
            self.close_entry()
            return
        row = ParkedBatchRow(
            batch_id=f"b{number}",
            waits_for_run_id="r9",
            reason="early",
            batch="{}",
            parked_at=self.now,
            expires_at=self.now + HOUR,
            row_version=self.open_entry(),
        )
        self.put("parked_batches", row)
        self.close_entry()

    def record_a_run_key(self, number: int, __: bool) -> None:
        key = f"k{number}"
        known = self.bring_back("run_key_index", key)
        row = RunKeyRow(
            run_key=key,
            run_id="r" if known is None else known.run_id + "+",
            request_fingerprint="f",
            created_at=self.now,
            row_version=self.open_entry(),
        )
        self.put("run_key_index", row)
        self.close_entry()

    def drop_a_run_key(self, number: int, __: bool) -> None:
        _ = self.bring_back("run_key_index", f"k{number}")
        _ = self.open_entry()
        self.drop("run_key_index", f"k{number}")
        self.close_entry()

    def advance_a_run(self, number: int, __: bool) -> None:
        """Start a run that does not exist, finish one that does."""
        run = cast("RunRow | None", self.bring_back("runs", f"r{number}"))
        if f"r{number}" not in self.model["runs"]:
            for table, row in rows_of_a_run(f"r{number}", self.open_entry(), self.now):
                self.put(table, row)
            self.close_entry()
        elif run is not None and run.finished_at is None:
            over = replace(run, state=RunState.SUCCEEDED, row_version=self.open_entry())
            self.put("runs", replace(over, finished_at=self.now))
            self.close_entry()

    def report_on_a_task(self, number: int, task: bool) -> None:
        _ = self.bring_back("runs", f"r{number}")
        row = cast("TaskRow | None", self.bring_back("tasks", (f"r{number}", f"t{int(task)}")))
        if row is not None:
            changed = replace(row, attempt=row.attempt + 1, row_version=self.open_entry())
            self.put("tasks", changed)
            self.close_entry()

    def drop_a_task(self, number: int, task: bool) -> None:
        _ = self.bring_back("runs", f"r{number}")
        _ = self.bring_back("tasks", (f"r{number}", f"t{int(task)}"))
        _ = self.open_entry()
        self.drop("tasks", (f"r{number}", f"t{int(task)}"))
        self.close_entry()

    def look_at_a_task(self, number: int, task: bool) -> None:
        _ = self.bring_back("runs", f"r{number}")
        _ = self.bring_back("tasks", (f"r{number}", f"t{int(task)}"))

    def wait(self, _: int, __: bool) -> None:
        self.now += timedelta(minutes=61)

    # --- publishing -----------------------------------------------------------------------------

    def begin_to_publish(self, number: int, __: bool) -> None:
        if self.capture is None:
            self.capture = self.publisher.capture(
                self.state, now=self.now, close_after=HOUR, max_rows=(3, 6, 1000)[number]
            )
            self.captured = {name: dict(rows) for name, rows in self.model.items()}

    def publish(self, number: int, lost: bool) -> None:
        self.begin_to_publish(number, False)
        self.end_publishing(0, lost)

    def end_publishing(self, _: int, lost: bool) -> None:
        if self.capture is None:
            return
        self.store.lose_answer = lost
        self.write()
        self.publisher.release(self.state, self.capture)
        self.capture = None
        self.merges = []
        self.check_published()

    def fail_to_publish(self, _: int, __: bool) -> None:
        if self.capture is None:
            return
        self.store.refuse_creates = True
        with pytest.raises(Unavailable) as caught:
            self.write()
        assert not caught.value.may_have_applied
        self.store.refuse_creates = False
        self.publisher.restore(self.state, self.capture)
        self.capture = None

    def write(self) -> None:
        self.manifest = self.publisher.write(
            self.capture,
            self.manifest,
            epoch=1,
            owner="me",
            nonce=f"nonce{self.entropy.token_bytes(8).hex()}",
            ts=self.now,
            merges=self.merges,
        )

    def merge(self, _: int, __: bool) -> None:
        taken = [key for result in self.merges for key in result.inputs]
        plan = self.publisher.plan_merge(self.manifest, taken)
        if plan is not None:
            self.merges.append(self.publisher.merge(plan))

    def restart(self, _: int, __: bool) -> None:
        if self.capture is None and not is_dirty(self.state):
            self.state = load_state(self.store, self.manifest, "acme", "prod")
            self.merges = []
            self.start_leader()

    # --- the law --------------------------------------------------------------------------------

    def check_published(self) -> None:
        newest = ManifestStore(self.store, PATHS).latest()
        assert newest == self.manifest
        snapshot = Snapshot(self.store, self.manifest)
        loaded = load_state(self.store, self.manifest, "acme", "prod")
        fresh = ColdRows(self.store)
        for name, rows in self.captured.items():
            assert canonical_rows(snapshot.rows(name)) == canonical_rows(rows.values()), name
            self.check_recovered(name, loaded, fresh)

    def check_recovered(self, name: str, loaded: State, cold: ColdRows) -> None:
        """What a new leader loads, and what it finds by key, is what was captured."""
        spec, expected = TABLES[name], self.captured[name]
        held = loaded.tables[name].rows
        assert held.items() <= expected.items(), name
        if spec.residency is Residency.LIVE:
            assert held == expected, name
        if spec.residency is Residency.HISTORY:
            assert not held, name
        if spec.indexed:
            away = [key for key in self.known[name] if key not in held]
            found = cold.fetch(self.manifest, name, away)
            assert found == [expected[key] for key in away if key in expected], name

    def check_memory(self) -> None:
        for name, expected in self.model.items():
            held = self.state.tables[name].rows
            assert held.items() <= expected.items(), name
            away = [key for key in expected if key not in held]
            if away and TABLES[name].indexed:
                found = self.cold.fetch(self.manifest, name, away)
                assert found == [expected[key] for key in away], name


def is_dirty(state: State) -> bool:
    return any(table.dirty for table in state.tables.values())


def rows_of_a_run(run_id: str, seq: int, now: datetime) -> list[tuple[str, Row]]:
    """A run with two tasks, an edge, an outbox row and a timer."""
    tasks = [
        TaskRow(
            run_id=run_id,
            task_key=f"t{number}",
            state=TaskState.READY,
            reason=TransitionReason.PLANNED,
            transitioned_at=now,
            row_version=seq,
        )
        for number in range(2)
    ]
    run = RunRow(
        run_id=run_id,
        run_key=f"key of {run_id}",
        request_fingerprint="f",
        state=RunState.RUNNING,
        reason=RunTransitionReason.CREATED,
        transitioned_at=now,
        created_at=now,
        row_version=seq,
    )
    edge = DepSatisfactionRow(
        run_id=run_id, upstream_task_key="t0", downstream_task_key="t1", row_version=seq
    )
    outbox = DispatchOutboxRow(
        dispatch_id="d",
        cloud_task_id="c",
        run_id=run_id,
        task_key="t0",
        attempt=1,
        attempt_id=f"a-{run_id}",
        delivery=1,
        status=OutboxStatus.ACKED,
        worker_queue="",
        created_at=now,
        row_version=seq,
    )
    timer = TimerRow(
        timer_id=f"timer-{run_id}",
        cloud_task_id="c",
        timer_type=TimerType.RETRY,
        run_id=run_id,
        fire_at=now,
        state=TimerState.SCHEDULED,
        row_version=seq,
    )
    rest: list[tuple[str, Row]] = [
        ("dep_satisfaction", edge),
        ("dispatch_outbox", outbox),
        ("timers", timer),
    ]
    return [("runs", run), *(("tasks", task) for task in tasks), *rest]


COMMON = ("advance_a_run", "publish", "wait", "report_on_a_task", "merge", "look_at_a_task")
RARE = (
    "park_a_batch",
    "record_a_run_key",
    "drop_a_run_key",
    "drop_a_task",
    "begin_to_publish",
    "end_publishing",
    "fail_to_publish",
    "restart",
)
STEPS = st.tuples(st.sampled_from(COMMON * 3 + RARE), st.integers(0, 2), st.booleans())


@given(st.lists(STEPS, min_size=40, max_size=70))
def test_readers_see_and_leaders_find_the_newest_version_of_every_row(
    steps: list[tuple[str, int, bool]],
) -> None:
    workspace = Workspace()
    for name, number, flag in steps:
        getattr(workspace, name)(number, flag)
        workspace.check_memory()
