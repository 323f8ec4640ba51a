"""The laws of the fold, on histories that nobody wrote."""

from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servo.controllers import anti_entropy, dispatch, planning, timers
from servo.controllers.fairness import Fairness
from servo.core.events.codec import decode_entry
from servo.core.events.dispatch import Handover
from servo.core.events.envelope import Batch, Status
from servo.core.events.quotas import PoolLimitSet, QuotaSet
from servo.core.events.registry import EVENTS
from servo.core.events.runs import RunCancelRequested
from servo.core.events.tasks import TaskOutcome
from servo.core.fold.apply import apply_batch, apply_entry, open_entry
from servo.core.retry import RetryRules
from servo.core.state import derived
from servo.core.state.state import State
from servo.core.state.states import TERMINAL_RUN_STATES, TaskState
from servo.testing.arbitrary import struct
from servo.testing.builders import Story, dump

RETRY = RetryRules(max_attempts=3, max_infra_retries=2, delay_ms=1_000)
SEEDS = st.integers(0, 2**32)


def history(seed: int, steps: int = 60) -> Story:
    """A story in which runs are planned, executed, lost, retried and cancelled at random."""
    rng = Random(seed)
    story = Story()
    runs = 0
    for _ in range(steps):
        choice = rng.random()
        if choice < 0.1 and runs < 3:
            runs += 1
            story.plan(_graph(rng), f"run_{runs}", retry=RETRY, pool=rng.choice(("", "io")))
        elif choice < 0.15:
            story.tell(QuotaSet(max_concurrent_tasks=rng.randint(1, 4)))
        elif choice < 0.18:
            story.tell(PoolLimitSet(pool="io", limit=rng.randint(0, 2)))
        elif choice < 0.21 and runs:
            story.tell(RunCancelRequested(run_id=f"run_{rng.randint(1, runs)}"))
        else:
            _work(story, rng)
    return story


def _graph(rng: Random) -> dict[str, tuple[str, ...]]:
    names = [f"t{i}" for i in range(rng.randint(0, 6))]
    return {
        name: tuple(rng.sample(names[:i], rng.randint(0, min(i, 2))))
        for i, name in enumerate(names)
    }


def _work(story: Story, rng: Random) -> None:
    state = story.state
    story.wait(seconds=rng.choice((0, 0, 1, 20, 400)))
    actions = [
        *dispatch.dispatch(state, Fairness())[0],
        *timers.reconcile(state, story.now),
        *anti_entropy.reconcile(state, story.now, {}),
        *planning.reconcile(state),
    ]
    busy = [*state.index.dispatched, *state.index.running]
    if busy and rng.random() < 0.7:
        run_id, key = rng.choice(busy)
        name = key.removeprefix("ns/").removesuffix(":materialize")
        if state.tasks.rows[run_id, key].state is TaskState.DISPATCHED:
            story.claim(name, run_id, exec_id=f"x{rng.randint(0, 10**9)}")
        else:
            story.finish(name, rng.choice(list(TaskOutcome)), run_id)
    elif actions:
        story.tell(*rng.choice(actions).events)


@given(SEEDS)
def test_every_fold_of_the_same_ledger_gives_the_same_rows(seed: int) -> None:
    story = history(seed)
    again = State("acme", "prod")
    for entry, data, digest in story.entries:
        assert decode_entry(data, what="entry") == (entry, digest)
        apply_entry(again, entry, digest)
    assert dump(again) == dump(story.state)


@given(SEEDS)
def test_an_edge_is_resolved_when_the_task_above_it_ends_and_never_says_anything_else(
    seed: int,
) -> None:
    story = history(seed)
    state = State("acme", "prod")
    before: dict[Any, Any] = {}
    for entry, _, digest in story.entries:
        apply_entry(state, entry, digest)
        edges = dump(state)["dep_satisfaction"]
        for key, edge in edges.items():
            above = state.tasks.rows[key[0], key[1]]
            assert edge.resolution == derived.RESOLUTION.get(above.state)
            assert edge.satisfied == (above.state is TaskState.SUCCEEDED)
            if key in before and (before[key].resolution or not edge.resolution):
                assert edge == before[key]
            else:
                ended = edge.resolution is not None
                assert edge.row_version == state.seq
                assert edge.satisfied_at == (state.ts if ended else None)
                assert edge.satisfying_attempt == (above.attempt if ended else None)
        before = edges


@given(SEEDS, st.integers(0, 100))
def test_a_snapshot_of_any_prefix_and_the_rest_fold_to_the_whole(seed: int, percent: int) -> None:
    story = history(seed)
    cut = len(story.entries) * percent // 100
    prefix = State("acme", "prod")
    for entry, _, digest in story.entries[:cut]:
        apply_entry(prefix, entry, digest)
    resumed = State("acme", "prod")
    for name in prefix.tables:
        resumed.hydrate(name, derived.rows(prefix, name))
    resumed.seq, resumed.epoch, resumed.ts = prefix.seq, prefix.epoch, prefix.ts
    resumed.last_hash = prefix.last_hash
    for entry, _, digest in story.entries[cut:]:
        apply_entry(resumed, entry, digest)
    assert dump(resumed) == dump(story.state)


@given(SEEDS)
def test_an_accepted_batch_inserted_anywhere_later_changes_nothing(seed: int) -> None:
    story = history(seed)
    rng = Random(seed)
    state = story.state
    for entry, _, _ in story.entries:
        batch = rng.choice(entry.batches)
        before = dump(state)
        open_entry(state, seq=state.seq + 1, epoch=state.epoch, ts=state.ts, stall=False)
        apply_batch(state, batch, 0)
        changed = {(table.spec.name, key) for table, key, _, _ in state.journal}
        renewed = {name for name, _ in changed} <= {"tasks", "ledger_index"} and any(
            type(event).__name__ == "TaskStarted" for event in batch.events
        )
        assert not changed or renewed, (batch, changed)
        state.rollback(0)
        state.seq -= 1
        assert dump(state) == before


@given(SEEDS)
def test_left_alone_with_time_every_run_ends(seed: int) -> None:
    story = history(seed)
    story.tell(QuotaSet(max_concurrent_tasks=5))
    story.tell(PoolLimitSet(pool="io", limit=5))
    for _ in range(60):
        story.wait(minutes=15)
        for action in (
            *planning.reconcile(story.state),
            *timers.reconcile(story.state, story.now),
            *anti_entropy.reconcile(story.state, story.now, {}),
            *dispatch.dispatch(story.state, Fairness())[0],
        ):
            story.tell(*action.events)
    assert all(run.state in TERMINAL_RUN_STATES for run in story.state.runs.values())
    assert not story.state.index.active


@given(SEEDS)
def test_counters_and_indexes_are_what_a_recount_says(seed: int) -> None:
    story = history(seed)
    state = story.state
    fresh = State("acme", "prod")
    for name, table in state.tables.items():
        fresh.hydrate(name, table.values())
    for name in (
        "running",
        "dispatched",
        "runs_active",
        "runs_over",
        "runs_waiting",
        "ready_count",
    ):
        mine, theirs = getattr(state.index, name), getattr(fresh.index, name)
        assert mine == theirs, name
    assert state.index.pool_active == fresh.index.pool_active
    assert state.index.downstream == fresh.index.downstream


@given(SEEDS)
def test_no_event_that_decodes_can_make_the_fold_fail(seed: int) -> None:
    rng = Random(seed)
    story = history(seed, steps=10)
    kinds = list(EVENTS.values())
    for number in range(30):
        events = tuple(struct(rng.choice(kinds), rng) for _ in range(rng.randint(1, 3)))
        batch = Batch(id=f"wild-{number}", events=events, parkable=rng.random() < 0.3)
        raw = msgspec.json.encode(batch)
        assert raw
        (answer,) = story.commit(batch)
        assert answer.status is not Status.QUARANTINED, (events, answer.reason)


@given(SEEDS)
def test_taking_back_a_batch_leaves_no_trace(seed: int) -> None:
    story = history(seed, steps=30)
    rng = Random(seed)
    state = story.state
    before = dump(state)
    open_entry(state, seq=state.seq + 1, epoch=state.epoch, ts=state.ts, stall=True)
    for number in range(10):
        events = (struct(rng.choice(list(EVENTS.values())), rng),)
        apply_batch(state, Batch(id=f"gone-{number}", events=events), number)
    state.rollback(0)
    assert dump(state) == before


def test_a_rule_that_fails_sets_its_batch_aside_and_the_ledger_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> None:
        message = "a bug"
        raise ZeroDivisionError(message)

    story = Story()
    rules = {**apply_batch.__globals__["RULES"], RunCancelRequested: broken}
    monkeypatch.setitem(apply_batch.__globals__, "RULES", rules)
    poison = story.batch(RunCancelRequested(run_id="run_1"))
    assert story.commit(poison)[0].status is Status.QUARANTINED
    assert story.plan({"a": ()}).applied
    (letter,) = story.state.dead_letter.rows.values()
    assert (letter.batch_id, letter.reason) == (poison.id, "ZeroDivisionError: a bug")


def test_a_handed_over_task_is_granted_in_its_dispatch() -> None:
    story = Story()
    story.plan({"a": ()})
    answer = story.dispatch("a", handover=Handover(exec_id="mine", worker_id="w"))
    assert answer.data["fencing_token"] == story.state.seq
    assert story.task("a").state is TaskState.RUNNING
    assert not story.state.outbox.rows
