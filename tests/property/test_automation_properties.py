"""Laws of the fold, on generated histories of schedules, sensors, backfills and assets.

A history is a list of moves. A move is turned into a batch when its turn comes, from the state as
it then is, so that most of them apply; where it matters a move looks at a version or a time that
is a little off, as a controller with an old view would.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from enum import Enum
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject, SearchStrategy

from servo.core.events.assets import (
    AssetDefinition,
    AssetObserved,
    AssetReported,
    AssetWiped,
    CheckEvaluated,
    DefinitionsDeployed,
    DynamicPartitionsChanged,
    OutputsExpired,
    QuarantineDecided,
)
from servo.core.events.automation import AutomationEvaluated, AutomationTicked
from servo.core.events.backfills import (
    BackfillChunkPlanned,
    BackfillCreated,
    BackfillState,
    BackfillStateChanged,
    ExplicitSelector,
)
from servo.core.events.dispatch import DispatchRequested, Handover
from servo.core.events.envelope import Batch, Event, Status
from servo.core.events.freshness import FreshnessChanged
from servo.core.events.runs import (
    AutomationSource,
    BackfillSource,
    PlanCreated,
    RunCancelRequested,
    RunRequested,
    ScheduleSource,
    SensorSource,
    SourceRef,
)
from servo.core.events.schedules import (
    SchedulePaused,
    ScheduleRemoved,
    ScheduleResumed,
    ScheduleTicked,
    ScheduleUpserted,
    TicksSkipped,
    TickStatus,
)
from servo.core.events.sensors import (
    PollTrigger,
    PushTrigger,
    SensorCursorReset,
    SensorEvalStatus,
    SensorEvaluated,
    SensorMessageReceived,
    SensorMode,
    SensorPaused,
    SensorRemoved,
    SensorResumed,
    SensorUpserted,
)
from servo.core.events.tasks import CommittedOutput, Gate, TaskFinished, TaskOutcome
from servo.core.fold import assets, automation, backfills, freshness, schedules, sensors
from servo.core.fold.apply import apply_batch, apply_entry, needs, needs_now
from servo.core.freshness import FreshnessState
from servo.core.keys import TaskOperation, task_key_text
from servo.core.plan import TaskSpec
from servo.core.retry import RetryRules
from servo.core.state import derived
from servo.core.state.rows.assets import PartitionStatusRow
from servo.core.state.rows.automation import BackfillRow
from servo.core.state.state import State
from servo.core.state.states import TERMINAL_RUN_STATES, ChunkState
from servo.core.state.tables import TABLES, Residency
from servo.testing.builders import Story, dump

FAMILIES = (schedules, sensors, automation, backfills, assets, freshness)
ONCE = RetryRules(max_attempts=1, max_infra_retries=0)
DAYS = tuple(f"day=d:2025-01-{day:02}" for day in range(1, 8))
TERMINAL = {BackfillState.SUCCEEDED, BackfillState.FAILED, BackfillState.CANCELLED}
MINUTE = timedelta(minutes=1)

few = st.integers(0, 2)
off_by_one = st.sampled_from([0, 0, 0, -1, 1])


# --- moves ----------------------------------------------------------------------------------------


def run_request(key: str, source: SourceRef) -> RunRequested:
    return RunRequested(run_id=f"run:{key}", run_key=key, request_fingerprint="fp", source=source)


def schedule_move(story: Story, draw: DataObject) -> tuple[Event, ...]:
    name = draw.draw(st.sampled_from(["s0", "s0", "s1"]))
    match draw.draw(st.integers(0, 9)):
        case 0:
            crons = draw.draw(st.sampled_from([("* * * * *",), ("0 10 * * *",), ("bad",)]))
            chosen = (f"ns/{draw.draw(few)}",)
            return (
                ScheduleUpserted(schedule_id=name, cron_expressions=crons, asset_selection=chosen),
            )
        case 1:
            return (SchedulePaused(schedule_id=name),)
        case 2:
            return (ScheduleResumed(schedule_id=name, catchup=draw.draw(st.booleans())),)
        case 3:
            return (ScheduleRemoved(schedule_id=name),)
        case 4:
            return (skip(story, draw, name),)
        case _:
            return tick(story, draw, name)


def low_water(story: Story, name: str) -> datetime:
    row = story.state.schedule_state.rows.get(name)
    return story.now - MINUTE if row is None else row.low_water


def skip(story: Story, draw: DataObject, name: str) -> TicksSkipped:
    first = low_water(story, name) + draw.draw(st.sampled_from([0, 1, 1, 1])) * MINUTE
    last = first + draw.draw(st.sampled_from([0, 0, 1])) * MINUTE
    return TicksSkipped(schedule_id=name, first=first, last=last, count=1, reason="old")


def tick(story: Story, draw: DataObject, name: str) -> tuple[Event, ...]:
    when = low_water(story, name) + draw.draw(st.sampled_from([0, 1, 1, 1, 2])) * MINUTE
    manual = draw.draw(st.sampled_from([False, False, True]))
    tick_id = f"{name}:{'manual' if manual else when.isoformat()}"
    head = ScheduleTicked(
        schedule_id=name,
        tick_id=tick_id,
        scheduled_for=when,
        definition_version=1,
        status=draw.draw(st.sampled_from(TickStatus)),
        run_key=f"sched:{tick_id}",
        manual=manual,
    )
    source = ScheduleSource(schedule_id=name, tick_id=tick_id)
    follower = run_request(f"sched:{tick_id}", source)
    return draw.draw(st.sampled_from([(head, follower), (head,), (follower,)]))


def sensor_move(story: Story, draw: DataObject) -> tuple[Event, ...]:
    name = draw.draw(st.sampled_from(["n0", "n0", "n1"]))
    match draw.draw(st.integers(0, 9)):
        case 0:
            mode = draw.draw(st.sampled_from(SensorMode))
            return (SensorUpserted(sensor_id=name, min_interval_ms=draw.draw(few), mode=mode),)
        case 1:
            return (SensorPaused(sensor_id=name),)
        case 2:
            return (SensorResumed(sensor_id=name),)
        case 3:
            return (draw.draw(st.sampled_from([SensorRemoved, SensorCursorReset]))(sensor_id=name),)
        case 4 | 5:
            return (SensorMessageReceived(sensor_id=name, message_id=f"m{draw.draw(few)}"),)
        case _:
            return evaluation(story, draw, name)


def evaluation(story: Story, draw: DataObject, name: str) -> tuple[Event, ...]:
    row = story.state.sensor_state.rows.get(name)
    version = 0 if row is None else row.state_version
    poll = draw.draw(st.booleans())
    eval_id = f"e{draw.draw(st.integers(0, 9))}"
    head = SensorEvaluated(
        sensor_id=name,
        eval_id=eval_id,
        trigger=PollTrigger(poll_epoch=draw.draw(st.integers(0, 9)))
        if poll
        else PushTrigger(message_id=f"m{draw.draw(few)}"),
        expected_state_version=version + draw.draw(off_by_one) if poll else None,
        cursor_after=draw.draw(st.sampled_from([None, "c1", "c2"])),
        status=draw.draw(st.sampled_from(SensorEvalStatus)),
    )
    source = SensorSource(sensor_id=name, eval_id=eval_id)
    key = f"{name}:{version}:{eval_id}"
    return (head, run_request(key, source)) if draw.draw(st.booleans()) else (head,)


def backfill_move(story: Story, draw: DataObject) -> tuple[Event, ...]:
    name = draw.draw(st.sampled_from(["b0", "b1"]))
    row = story.state.backfills.rows.get(name)
    if row is None:
        count = draw.draw(st.integers(0, len(DAYS)))
        return (
            BackfillCreated(
                backfill_id=name,
                client_request_id=name,
                request_fingerprint="fp",
                asset_selection=("ns/a",),
                selector=ExplicitSelector(count=count),
                partition_keys=DAYS[:count],
                total_partitions=count,
                chunk_size=draw.draw(st.integers(1, 3)),
                max_concurrent_runs=draw.draw(st.integers(1, 3)),
                stop_on_failure=draw.draw(st.booleans()),
                max_failed_partitions=draw.draw(st.none() | st.integers(0, 3)),
            ),
        )
    match draw.draw(st.integers(0, 9)):
        case 0:
            to = draw.draw(st.sampled_from(BackfillState))
            version = row.state_version + draw.draw(off_by_one)
            force = draw.draw(st.booleans())
            return (
                BackfillStateChanged(
                    backfill_id=name, to_state=to, expected_state_version=version, force=force
                ),
            )
        case 1 | 2 | 3 | 4:
            index = row.planned_chunks + draw.draw(off_by_one)
            return chunk(row, index, row.state_version + draw.draw(off_by_one))
        case _:
            return progress(story, draw)


def chunk(row: BackfillRow, index: int, version: int) -> tuple[Event, Event]:
    source = BackfillSource(backfill_id=row.backfill_id, chunk_index=index)
    run = run_request(f"backfill:{row.backfill_id}:{index}", source)
    slice_of = row.partition_keys[index * row.chunk_size : (index + 1) * row.chunk_size]
    head = BackfillChunkPlanned(
        backfill_id=row.backfill_id,
        chunk_index=index,
        expected_state_version=version,
        partition_keys=slice_of,
        run_key=run.run_key,
        request_fingerprint="fp",
    )
    return head, run


def open_runs(story: Story) -> list[str]:
    rows = story.state.runs.rows
    return [run_id for run_id, row in rows.items() if row.state not in TERMINAL_RUN_STATES]


def progress(story: Story, draw: DataObject) -> tuple[Event, ...]:
    """Take some open run one step on: plan it, start a task, end a task, or cancel it."""
    runs = open_runs(story)
    if not runs:
        return ()
    run_id = draw.draw(st.sampled_from(runs))
    if draw.draw(st.integers(0, 19)) == 0:
        return (RunCancelRequested(run_id=run_id),)
    return advance(story, run_id, draw.draw(outcomes), draw.draw(st.sampled_from(Gate)))


outcomes = st.sampled_from([TaskOutcome.SUCCEEDED, *TaskOutcome])


def advance(story: Story, run_id: str, outcome: TaskOutcome, gate: Gate) -> tuple[Event, ...]:
    state = story.state
    if not state.runs.rows[run_id].plan_fingerprint:
        return (PlanCreated(run_id=run_id, fingerprint="p", tasks=tasks_of(story, run_id)),)
    for key in state.index.run_tasks[run_id]:
        row = state.tasks.rows[run_id, key]
        if (run_id, key) in state.index.running:
            made = CommittedOutput(materialization_id=row.exec_id, uri="mem", gate=gate)
            return (
                TaskFinished(
                    run_id=run_id,
                    task_key=key,
                    attempt_id=row.attempt_id,
                    exec_id=row.exec_id,
                    outcome=outcome,
                    output=made if outcome is TaskOutcome.SUCCEEDED else None,
                ),
            )
        if row.state.value == "READY":
            handover = Handover(exec_id=f"x:{run_id}:{key}")
            return (DispatchRequested(run_id=run_id, task_key=key, attempt=1, handover=handover),)
    raise AssertionError(f"{run_id} is open and nothing of it can go on")


def tasks_of(story: Story, run_id: str) -> tuple[TaskSpec, ...]:
    """The tasks of a run: one for each partition of its chunk, or a single one."""
    source = story.state.runs.rows[run_id].source
    partitions: tuple[str | None, ...] = (None,)
    if isinstance(source, BackfillSource):
        row = story.state.chunks.rows.get((source.backfill_id, source.chunk_index))
        partitions = () if row is None else row.partition_keys
    return tuple(
        TaskSpec(
            task_key=task_key_text("ns/a", partition, TaskOperation.MATERIALIZE),
            asset_key="ns/a",
            partition=partition,
            retry=ONCE,
        )
        for partition in partitions
    )


def asset_move(story: Story, draw: DataObject) -> tuple[Event, ...]:
    name = draw.draw(st.sampled_from(["ns/a", "ns/b"]))
    match draw.draw(st.integers(0, 8)):
        case 0:
            version, kept = f"v{draw.draw(few)}", draw.draw(st.none() | few)
            defined = AssetDefinition(asset_key=name, code_version=version, retention_versions=kept)
            return (DefinitionsDeployed(deployment_id="d", assets=(defined,)),)
        case 1:
            keys = draw.draw(st.sampled_from([(), DAYS[:1]]))
            return (AssetWiped(asset_key=name, partition_keys=keys),)
        case 2:
            return (AssetObserved(asset_key=name, data_version=f"v{draw.draw(few)}"),)
        case 3:
            added, removed = draw.draw(st.sampled_from([(("x",), ()), ((), ("x",))]))
            return (DynamicPartitionsChanged(set_name="set", added=added, removed=removed),)
        case 4:
            return check(story, draw)
        case _:
            return output_move(story, draw)


def output_move(story: Story, draw: DataObject) -> tuple[Event, ...]:
    """Let outputs expire, or decide about one that is held back."""
    made = story.state.materializations.rows
    if draw.draw(few) == 0:
        gone = draw.draw(st.lists(st.sampled_from(list(made) or ["none"]), max_size=2))
        return (OutputsExpired(materialization_ids=tuple(gone)),)
    held = [name for name, row in made.items() if not row.promoted] or ["none"]
    chosen, yes = draw.draw(st.sampled_from(held)), draw.draw(st.booleans())
    return (QuarantineDecided(materialization_id=chosen, approved=yes),)


def check(story: Story, draw: DataObject) -> tuple[Event, ...]:
    held = list(story.state.index.running)
    if not held:
        return ()
    row = story.state.tasks.rows[draw.draw(st.sampled_from(held))]
    return (
        CheckEvaluated(
            run_id=row.run_id,
            task_key=row.task_key,
            attempt_id=row.attempt_id,
            exec_id=row.exec_id,
            asset_key=row.asset_key,
            check_name="rows",
            passed=draw.draw(st.booleans()),
        ),
    )


def condition_move(story: Story, draw: DataObject) -> tuple[Event, ...]:
    """An evaluation of conditions, or a change of freshness, that saw about what there is."""
    if draw.draw(few) == 0:
        return freshness_move(story, draw)
    name = draw.draw(st.sampled_from(["n0", "n1"]))
    row = story.state.automation_sensors.rows.get(name)
    tick = (0 if row is None else row.tick) + 1 + draw.draw(off_by_one)
    head = AutomationTicked(
        sensor_id=name,
        tick=tick,
        eval_id=f"e{draw.draw(few)}",
        applied_seq=story.state.seq,
        ticked_at=story.now,
        requested_count=draw.draw(few),
    )
    assets = draw.draw(st.lists(st.sampled_from(["ns/a", "ns/b"]), max_size=2))
    told = [
        AutomationEvaluated(
            sensor_id=name,
            tick=tick,
            asset_key=asset,
            cursor=draw.draw(st.sampled_from([None, "c"])),
            requested_count=draw.draw(few),
        )
        for asset in assets
    ]
    asked = run_request(f"{name}:{tick}", AutomationSource(evaluation_id=head.eval_id))
    return (head, *told, asked) if draw.draw(st.booleans()) else (head, *told)


def freshness_move(story: Story, draw: DataObject) -> tuple[Event, ...]:
    name = draw.draw(st.sampled_from(["ns/a", "ns/b"]))
    asset, row = story.state.assets.rows.get(name), story.state.freshness.rows.get(name)
    return (
        FreshnessChanged(
            asset_key=name,
            state=draw.draw(st.sampled_from(FreshnessState)),
            expected_version=(0 if row is None else row.version) + draw.draw(off_by_one),
            materialization_seq=None if asset is None else asset.last_materialization_seq,
            changed_at=story.now,
        ),
    )


BUSY = (schedule_move, sensor_move, condition_move, backfill_move, asset_move, progress, progress)
DATA = (backfill_move, asset_move, condition_move, progress, progress, progress)


def tell_moves(story: Story, draw: DataObject) -> Iterator[tuple[Batch, Status, Any]]:
    """Tell up to forty moves; after each the batch, its fate, and the rows before it."""
    story.tell(ScheduleUpserted(schedule_id="s0", cron_expressions=("* * * * *",)))
    story.tell(SensorUpserted(sensor_id="n0"))
    moves = draw.draw(
        st.sampled_from([BUSY, DATA, (schedule_move,), (sensor_move,), (condition_move,)])
    )
    for _ in range(draw.draw(st.integers(1, 4)) * 10):
        story.wait(minutes=draw.draw(st.sampled_from([0, 1, 5])))
        events = draw.draw(st.sampled_from(moves))(story, draw)
        if events:
            before = dump(story.state)
            batch = story.batch(*events)
            (answer,) = story.commit(batch)
            yield batch, answer.status, before


# --- the laws -------------------------------------------------------------------------------------


@given(st.data())
def test_an_accepted_batch_inserted_again_later_changes_nothing(data: DataObject) -> None:
    story = Story()
    accepted: list[Batch] = []
    for batch, status, _ in tell_moves(story, data):
        if status is Status.APPLIED:
            accepted.append(batch)
        if accepted:
            story.wait(seconds=data.draw(st.integers(1, 90)))
            before = dump(story.state)
            (answer,) = story.commit(data.draw(st.sampled_from(accepted)))
            assert dump(story.state) == before, answer


def test_a_command_that_changed_nothing_changes_nothing_later_either() -> None:
    story = Story()
    story.tell(SensorUpserted(sensor_id="n0"))
    resume = story.batch(SensorResumed(sensor_id="n0"))
    story.commit(resume)
    story.tell(SensorPaused(sensor_id="n0"))
    before = dump(story.state)
    story.commit(resume)
    assert dump(story.state) == before


@given(st.data())
def test_a_refused_batch_leaves_nothing_but_the_record_of_a_stale_evaluation(
    data: DataObject,
) -> None:
    story = Story()
    for _, status, before in tell_moves(story, data):
        if status is Status.APPLIED:
            continue
        after = dump(story.state)
        recorded = after["sensor_evals"].keys() - before["sensor_evals"].keys()
        assert all(after["sensor_evals"][key].stale for key in recorded)
        assert len(recorded) <= 1
        for table in after.keys() - ({"sensor_evals", "ledger_index"} if recorded else set()):
            assert after[table] == before[table]


def evict(state: State, archive: dict[str, dict[Any, Any]]) -> None:
    """Let go of all that may leave memory: published history, and runs that are over."""
    over = set(state.index.runs_over)
    for name, table in state.tables.items():
        residency = TABLES[name].residency
        for key, row in list(table.rows.items()):
            left = residency is Residency.HISTORY
            if left or (residency is Residency.RUN and row.run_id in over):
                archive[name][key] = row
                table.evict(key)


def folded_with_rows_away(story: Story) -> State:
    """The same entries by a fold that keeps as little as it may, and all of it brought back."""
    state = State("acme", "prod")
    archive: dict[str, dict[Any, Any]] = {name: {} for name in TABLES}
    for entry, _, digest in story.entries:
        for batch in entry.batches:
            while away := [item for item in needs_now(state, batch) if item[1] in archive[item[0]]]:
                for table, key in dict.fromkeys(away):
                    state.hydrate(table, [archive[table].pop(key)])
        apply_entry(state, entry, digest)
        evict(state, archive)
    for name, rows in archive.items():
        state.hydrate(name, rows.values())
    return state


@given(st.data())
def test_a_fold_that_lets_rows_go_and_fetches_them_again_is_the_same_fold(
    data: DataObject,
) -> None:
    story = Story()
    for _ in tell_moves(story, data):
        pass
    assert dump(folded_with_rows_away(story)) == dump(story.state)


def made(name: str) -> AssetReported:
    return AssetReported(asset_key="ns/a", partition_key=DAYS[0], materialization_id=name)


WIPED = AssetWiped(asset_key="ns/a")
OBSERVED = AssetObserved(asset_key="ns/a", partition_key=DAYS[0], data_version="v1")


@pytest.mark.parametrize(
    "told",
    [
        pytest.param((made("m1"), WIPED), id="and stays away"),
        pytest.param((made("m1"), WIPED, OBSERVED), id="and comes back"),
        pytest.param((made("m1"), WIPED, made("m2")), id="and is made again"),
        pytest.param((made("m1"), WIPED, made("m2"), WIPED), id="and is wiped twice"),
    ],
)
def test_a_partition_that_left_memory_is_wiped_with_its_asset(told: tuple[Event, ...]) -> None:
    story = Story()
    for event in told:
        assert story.tell(event).applied
    folded = folded_with_rows_away(story)
    assert dump(folded) == dump(story.state)
    (row,) = derived.rows(folded, "partition_status")
    assert isinstance(row, PartitionStatusRow)
    assert row.last_materialization_id == (None if told[-1] in (WIPED, OBSERVED) else "m2")


def test_a_run_that_comes_after_its_tick_has_left_memory_asks_for_it() -> None:
    source = ScheduleSource(schedule_id="s0", tick_id="s0:1")
    batch = Batch(id="b", events=(run_request("sched:s0:1", source),))
    assert ("schedule_ticks", "s0:1") in needs(batch)


def test_every_row_that_is_fetched_by_key_is_in_an_indexed_table() -> None:
    asked: set[str] = set()
    for family in FAMILIES:
        assert {*family.NEEDS, *family.FURTHER_NEEDS} <= set(family.RULES)
        for kind, ask in family.NEEDS.items():
            asked.update(table for table, _ in ask(example_of(kind)))
    assert asked
    assert [name for name in sorted(asked) if not TABLES[name].indexed] == []


# --- what no event may do -------------------------------------------------------------------------

KNOWN = ("s0", "n0", "b0", "ns/a", "e0", "run_1", "ns/a:materialize", "", DAYS[0])
numbers = st.integers(-3, 3) | st.sampled_from([2**31, -(2**63) - 1, 2**63, 10**30])
strings = st.sampled_from(KNOWN) | st.text(max_size=5)
instants = st.sampled_from(
    [
        datetime.min,  # noqa: DTZ901 - a naive one, as it may come over the wire
        datetime(2026, 1, 1),  # noqa: DTZ001 - the same
        datetime(2026, 1, 1, 0, 1, tzinfo=UTC),
        datetime.max.replace(tzinfo=timezone(-timedelta(hours=23))),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=23))),
    ]
)
PLAIN: dict[Any, SearchStrategy[Any]] = {
    str: strings,
    int: numbers,
    bool: st.booleans(),
    datetime: instants,
    type(None): st.none(),
}


def values_of(kind: Any) -> SearchStrategy[Any]:
    """Anything a field of this type can hold."""
    origin, args = get_origin(kind), get_args(kind)
    if kind in PLAIN:
        return PLAIN[kind]
    if origin is Literal:
        return st.sampled_from(args)
    if origin is tuple:
        return st.lists(values_of(args[0]), max_size=3).map(tuple)
    if origin is dict:
        return st.dictionaries(strings, strings, max_size=2)
    if args:
        return st.one_of([values_of(arg) for arg in args])
    return st.sampled_from(list(kind)) if issubclass(kind, Enum) else structs_of(kind)


def structs_of(kind: type[Any]) -> SearchStrategy[Any]:
    hints = get_type_hints(kind)
    return st.builds(kind, **{name: values_of(hints[name]) for name in kind.__struct_fields__})


def example_of(kind: type[Event]) -> Event:
    values = {
        str: "x",
        int: 1,
        datetime: datetime(2026, 1, 1, tzinfo=UTC),
        bool: True,
    }
    fields = {
        field.name: values.get(field.type, ())
        for field in msgspec.structs.fields(kind)
        if field.required
    }
    return kind(**{**fields, **SPECIAL.get(kind, {})})


SPECIAL: dict[type[Event], dict[str, Any]] = {
    ScheduleTicked: {"status": TickStatus.TRIGGERED, "run_key": "k"},
    SensorEvaluated: {"trigger": PushTrigger(message_id="m"), "status": SensorEvalStatus.FAILED},
}


@pytest.fixture(scope="module")
def populated() -> Story:
    """A workspace with something of everything in it."""
    story = Story()
    story.plan({"a": ()})
    story.start("a", exec_id="e0")
    story.tell(ScheduleUpserted(schedule_id="s0", cron_expressions=("* * * * *",)))
    story.tell(SensorUpserted(sensor_id="n0"))
    story.tell(DefinitionsDeployed(deployment_id="d", assets=(AssetDefinition(asset_key="ns/a"),)))
    created = BackfillCreated(
        backfill_id="b0",
        client_request_id="b0",
        request_fingerprint="",
        asset_selection=(),
        selector=ExplicitSelector(count=2),
        partition_keys=DAYS[:2],
        total_partitions=2,
        chunk_size=1,
    )
    story.tell(created)
    story.tell(*chunk(story.state.backfills.rows["b0"], 0, 1))
    story.wait(minutes=10)
    assert story.tell(DynamicPartitionsChanged(set_name="s0", added=("e0",))).applied
    return story


@pytest.mark.hypothesis
@pytest.mark.parametrize("kind", [kind for family in FAMILIES for kind in family.RULES])
def test_no_event_makes_a_rule_fail(kind: type[Event], populated: Story) -> None:
    state = populated.state

    @given(st.lists(structs_of(kind), min_size=1, max_size=2))
    def never_raises(events: list[Event]) -> None:
        before = dump(state)
        batch = Batch(id="generated", events=tuple(events))
        assert needs_now(state, batch) is not None
        answer = apply_batch(state, batch, 0)
        state.rollback(0)
        assert answer.status is not Status.QUARANTINED, answer
        assert dump(state) == before

    never_raises()


# --- backfills always end, and count what there is ------------------------------------------------


def recount(story: Story, row: BackfillRow) -> None:
    """Check every counter of a backfill against its chunks."""
    chunks = [
        story.state.chunks.rows[key] for key in story.state.chunks.rows if key[0] == row.backfill_id
    ]
    states = [chunk.state for chunk in chunks]
    assert [chunk.chunk_index for chunk in chunks] == list(range(row.planned_chunks))
    assert row.active_chunks == states.count(ChunkState.RUNNING)
    assert row.active_chunks <= row.max_concurrent_runs
    assert row.completed_chunks == states.count(ChunkState.SUCCEEDED)
    assert row.failed_chunks == states.count(ChunkState.FAILED)
    assert row.cancelled_chunks == states.count(ChunkState.CANCELLED)
    over = [chunk for chunk in chunks if chunk.state is not ChunkState.RUNNING]
    assert row.partitions_failed == sum(len(chunk.failed_partition_keys) for chunk in over)
    judged = row.partitions_succeeded + row.partitions_failed + row.partitions_skipped
    assert judged == sum(len(chunk.partition_keys) for chunk in over)
    planned = tuple(key for chunk in chunks for key in chunk.partition_keys)
    assert planned == row.partition_keys[: len(planned)]
    assert (row.finished_at is not None) == (row.state in TERMINAL)
    if row.state is BackfillState.SUCCEEDED:
        assert row.partitions_failed == 0
        assert judged == row.total_partitions


def drive(story: Story, name: str) -> None:
    """What a controller and healthy workers do until there is nothing left to do."""
    for _ in range(200):
        row = story.state.backfills.rows[name]
        if row.state in TERMINAL:
            return
        if row.state is BackfillState.PAUSED:
            story.tell(BackfillStateChanged(backfill_id=name, to_state=BackfillState.RUNNING))
        for run_id in open_runs(story):
            story.tell(*advance(story, run_id, TaskOutcome.SUCCEEDED, Gate.PROMOTED))
        story.tell(*chunk(row, row.planned_chunks, row.state_version))
    raise AssertionError(f"{story.state.backfills.rows[name]} does not end")


@given(st.data())
def test_backfills_count_what_there_is_and_always_end(data: DataObject) -> None:
    story = Story()
    finished: dict[str, BackfillRow] = {}
    for _ in range(data.draw(st.integers(1, 40))):
        move = data.draw(st.sampled_from([backfill_move, backfill_move, progress]))
        if events := move(story, data):
            story.tell(*events)
        for name, row in story.state.backfills.rows.items():
            recount(story, row)
            if row.state in TERMINAL:
                assert finished.setdefault(name, row) == row, "what is over stays as it ended"
    for name in list(story.state.backfills.rows):
        drive(story, name)
        recount(story, story.state.backfills.rows[name])
    assert not story.state.index.backfills_open


# --- schedules only move forward ------------------------------------------------------------------


@given(st.data())
def test_a_schedule_only_moves_forward_and_never_ahead_of_time(data: DataObject) -> None:
    story = Story()
    seen: dict[str, datetime] = {}
    ticked: dict[str, list[datetime]] = {}
    for _ in range(data.draw(st.integers(1, 40))):
        story.wait(minutes=data.draw(st.integers(0, 3)))
        events = schedule_move(story, data)
        applied = story.tell(*events).applied
        for name, row in story.state.schedule_state.rows.items():
            assert seen.get(name, row.low_water) <= row.low_water <= story.state.ts
            seen[name] = row.low_water
        head = events[0]
        if applied and isinstance(head, ScheduleTicked) and not head.manual:
            ticked.setdefault(head.schedule_id, []).append(head.scheduled_for)
    for instants_of in ticked.values():
        distinct = list(dict.fromkeys(instants_of))
        assert distinct == sorted(distinct)


# --- every item a sensor finds makes one run ------------------------------------------------------


@given(st.data())
def test_every_item_makes_exactly_one_run_whoever_finds_it(data: DataObject) -> None:
    """Evaluators look at any time and commit at any later time, in any order."""
    story = Story()
    story.tell(SensorUpserted(sensor_id="n0"))
    under_way: list[tuple[Event, ...]] = []
    items = 0

    def look(number: int) -> tuple[Event, ...]:
        row = story.state.sensor_state.rows["n0"]
        head = SensorEvaluated(
            sensor_id="n0",
            eval_id=f"e{number}",
            trigger=PollTrigger(poll_epoch=number),
            expected_state_version=row.state_version,
            cursor_after=str(items),
            status=SensorEvalStatus.TRIGGERED,
        )
        found = range(int(row.cursor or 0), items)
        source = SensorSource(sensor_id="n0", eval_id=head.eval_id)
        return head, *(run_request(f"{number}/item/{item}", source) for item in found)

    for number in range(data.draw(st.integers(1, 25))):
        items += data.draw(st.integers(0, 2))
        if data.draw(st.booleans()):
            under_way.append(look(number))
        if under_way and data.draw(st.booleans()):
            batch = data.draw(st.sampled_from(under_way))
            story.tell(*batch)
    story.tell(*look(1000))
    found = [key.rpartition("/")[2] for key in story.state.run_keys.rows]
    assert found == [str(item) for item in range(items)]
