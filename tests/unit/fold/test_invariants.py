"""INV-1 to INV-10, one test each, as they must be stated to be true."""

import itertools
from datetime import timedelta

import pytest
from msgspec.structs import replace

from servo.controllers import anti_entropy, dispatch, timers
from servo.controllers.fairness import Fairness
from servo.core.events.dispatch import (
    DispatchAckTimedOut,
    DispatchRequested,
    LeaseExpired,
)
from servo.core.events.quotas import QuotaSet
from servo.core.events.runs import RunCancelRequested
from servo.core.events.tasks import TaskCost, TaskFinished, TaskOutcome, TaskStarted
from servo.core.fold.apply import apply_entry
from servo.core.fold.timers import firing_of
from servo.core.retry import RetryRules
from servo.core.state.state import State
from servo.core.state.states import Resolution, TaskState
from servo.testing.builders import Story, dump, task_key

ONCE = RetryRules(max_attempts=1, max_infra_retries=0)
FAN_IN = {"a": (), "b": (), "c": (), "d": ("a", "b", "c")}


def _ends(order: tuple[str, ...], outcomes: dict[str, TaskOutcome]) -> dict[str, str]:
    story = Story()
    story.plan(FAN_IN, retry=ONCE)
    for name in order:
        story.start(name)
    for name in order:
        story.finish(name, outcomes[name])
    return story.states() | {"run": story.run().state.value}


@pytest.mark.parametrize(
    "outcomes",
    [
        (TaskOutcome.SUCCEEDED, TaskOutcome.SUCCEEDED, TaskOutcome.SUCCEEDED),
        (TaskOutcome.FAILED, TaskOutcome.SKIPPED, TaskOutcome.SUCCEEDED),
        (TaskOutcome.FAILED, TaskOutcome.INTERRUPTED, TaskOutcome.SKIPPED),
    ],
)
def test_inv_01_every_order_of_worker_facts_gives_the_same_terminal_rows(
    outcomes: tuple[TaskOutcome, ...],
) -> None:
    given = dict(zip("abc", outcomes, strict=True))
    results = [_ends(order, given) for order in itertools.permutations("abc")]
    assert all(result == results[0] for result in results)


def test_inv_02_an_accepted_batch_inserted_again_changes_nothing() -> None:
    story = Story()
    story.plan({"a": (), "b": ("a",)})
    story.start("a")
    story.finish("a")
    story.start("b")
    story.finish("b", TaskOutcome.FAILED)
    before = dump(story.state)
    for entry, _, _ in list(story.entries):
        for batch in entry.batches:
            story.commit(batch)
    assert dump(story.state) == before


def test_inv_03_controllers_decide_the_same_from_the_same_state() -> None:
    story = Story()
    story.plan(dict.fromkeys("fbdace", ()))
    first = dispatch.dispatch(story.state, Fairness())
    assert first == dispatch.dispatch(story.state, Fairness())
    (action,) = first[0]
    assert len(action.events) == 6


def test_inv_04_an_attempt_is_granted_to_at_most_one_execution() -> None:
    story = Story()
    story.plan({"a": ()})
    story.dispatch("a")
    answers = [story.claim("a", exec_id=name) for name in ("one", "two", "one", "three")]
    assert [answer.status.value for answer in answers] == [
        "applied",
        "rejected",
        "applied",
        "rejected",
    ]
    assert story.task("a").exec_id == "one"


def test_inv_05_every_state_has_a_way_out() -> None:
    story = Story()
    story.plan({"a": ()}, retry=ONCE)
    story.dispatch("a")
    for _ in range(20):
        story.wait(days=1)
        for action in (
            *anti_entropy.reconcile(story.state, story.now, {}),
            *timers.reconcile(story.state, story.now),
        ):
            story.tell(*action.events)
    assert story.run().finished_at is not None


def test_inv_06_a_task_is_dispatched_only_when_every_upstream_succeeded() -> None:
    story = Story()
    story.plan({"a": (), "b": ("a",), "c": ("b",)})
    early = DispatchRequested(run_id="run_1", task_key=task_key("b"), attempt=1)
    assert story.tell(early).reason == "the task is not ready for this attempt"
    story.execute("a")
    assert story.states() == {"a": "SUCCEEDED", "b": "READY", "c": "BLOCKED"}


def test_inv_07_controllers_cannot_reach_a_store() -> None:
    """They get values and return values; the import contracts hold them to it."""
    story = Story()
    story.plan({"a": ()})
    before = dump(story.state)
    dispatch.dispatch(story.state, Fairness())
    timers.reconcile(story.state, story.now)
    anti_entropy.reconcile(story.state, story.now, {})
    assert dump(story.state) == before
    assert not story.state.journal


def test_inv_08_a_fact_of_a_former_attempt_counts_for_nothing() -> None:
    story = Story()
    story.plan({"a": ()})
    story.start("a")
    stale = story.finished("a", TaskOutcome.FAILED)
    row = story.task("a")
    story.wait(minutes=10)
    story.tell(
        LeaseExpired(
            run_id="run_1",
            task_key=row.task_key,
            attempt_id=row.attempt_id,
            exec_id=row.exec_id,
        )
    )
    story.wait(minutes=10)
    for action in timers.reconcile(story.state, story.now):
        story.tell(*action.events)
    story.start("a")
    before = story.task("a")
    assert before.attempt == 2
    assert story.tell(stale).status.value == "rejected"
    assert story.task("a") == before


def test_inv_09_a_timer_takes_effect_once_and_only_when_due() -> None:
    story = Story()
    story.plan({"a": ()})
    story.start("a")
    story.finish("a", TaskOutcome.FAILED)
    (timer,) = story.state.timers.rows.values()
    fired = firing_of(timer)
    assert story.tell(fired).reason == "the timer is not due"
    assert story.task("a").state is TaskState.RETRY_WAIT
    story.wait(seconds=31)
    assert story.tell(fired).applied
    assert story.task("a").state is TaskState.READY
    story.dispatch("a")
    assert story.tell(fired).reason == f"no timer {fired.timer_id} is scheduled"
    assert story.task("a").state is TaskState.DISPATCHED


def test_inv_10_a_failure_skips_everything_below_it() -> None:
    story = Story()
    story.plan({"a": (), "b": ("a",), "c": ("b",), "other": ()}, retry=ONCE)
    story.execute("a", TaskOutcome.FAILED)
    assert story.states() == {"a": "FAILED", "b": "SKIPPED", "c": "SKIPPED", "other": "READY"}
    edges = dump(story.state)["dep_satisfaction"]
    assert edges["run_1", task_key("a"), task_key("b")].resolution is Resolution.FAILED
    assert edges["run_1", task_key("b"), task_key("c")].resolution is Resolution.SKIPPED


def test_a_cancelled_upstream_wins_over_a_failed_one_in_either_order() -> None:
    for order in (("a", "b"), ("b", "a")):
        story = Story()
        story.plan({"a": (), "b": (), "d": ("a", "b")}, retry=ONCE)
        for name in order:
            story.start(name)
        story.tell(RunCancelRequested(run_id="run_1"))
        for name in order:
            outcome = TaskOutcome.FAILED if name == "a" else TaskOutcome.CANCELLED
            story.finish(name, outcome)
        assert story.states() == {"a": "CANCELLED", "b": "CANCELLED", "d": "CANCELLED"}


def test_a_ledger_replayed_from_its_bytes_gives_the_same_rows() -> None:
    story = Story()
    story.plan({"a": (), "b": ("a",)})
    story.start("a")
    story.finish("a")
    again = State("acme", "prod")
    for entry, _, digest in story.entries:
        apply_entry(again, entry, digest)
    assert dump(again) == dump(story.state)
    assert (again.seq, again.ts, again.last_hash) == (
        story.state.seq,
        story.state.ts,
        story.state.last_hash,
    )


def test_an_unclaimed_delivery_is_sent_again_under_another_name() -> None:
    story = Story()
    story.plan({"a": ()})
    story.dispatch("a")
    row = story.task("a")
    story.wait(seconds=31)
    overdue = DispatchAckTimedOut(
        run_id="run_1", task_key=row.task_key, attempt_id=row.attempt_id, delivery=1
    )
    assert story.tell(overdue).applied
    names = [sent.cloud_task_id for sent in story.state.outbox.values()]
    assert len(set(names)) == 2
    assert story.tell(overdue).status.value == "rejected"


def test_a_repeated_claim_renews_the_lease() -> None:
    story = Story()
    story.plan({"a": ()})
    story.start("a", exec_id="mine")
    story.wait(seconds=200)
    assert story.claim("a", exec_id="mine").data["grant"] == "granted"
    assert story.task("a").lease_expires_at == story.now + timedelta(minutes=5)


def test_a_finish_that_comes_before_the_cancel_stays() -> None:
    story = Story()
    story.plan({"a": (), "b": ("a",)})
    story.execute("a")
    story.tell(RunCancelRequested(run_id="run_1"))
    assert story.states() == {"a": "SUCCEEDED", "b": "CANCELLED"}
    assert story.run().state.value == "CANCELLED"


def test_a_success_after_the_cancel_is_recorded_and_not_promoted() -> None:
    story = Story()
    story.plan({"a": ()})
    story.start("a")
    story.tell(RunCancelRequested(run_id="run_1"))
    assert story.finish("a").data["task_state"] == "CANCELLED"
    row = story.task("a")
    assert (row.state, row.late_outcome) == (TaskState.CANCELLED, TaskOutcome.SUCCEEDED)
    assert not story.state.materializations.rows
    assert "ns/a" not in story.state.assets


def test_a_claim_for_another_attempt_is_denied() -> None:
    story = Story()
    story.plan({"a": ()})
    story.dispatch("a")
    wrong = TaskStarted(run_id="run_1", task_key=task_key("a"), attempt_id="att_other", exec_id="e")
    assert story.tell(wrong).reason == "denied: this is not the current attempt"


def test_a_report_of_another_execution_is_stale() -> None:
    story = Story()
    story.plan({"a": ()})
    story.start("a", exec_id="mine")
    report = replace(story.finished("a"), exec_id="theirs")
    assert isinstance(report, TaskFinished)
    assert story.tell(report).reason == "stale: not the current execution"


def test_what_a_failed_attempt_cost_is_recorded_too() -> None:
    story = Story()
    story.plan({"a": ()})
    story.start("a")
    story.finish("a", TaskOutcome.FAILED, cost=TaskCost(cpu_ms=7))
    assert story.state.task_costs.rows["run_1", task_key("a"), 1].cpu_ms == 7


def test_a_stall_does_not_use_up_the_time_of_an_execution() -> None:
    story = Story()
    story.plan({"a": ()}, timeout_ms=60_000)
    story.start("a")
    before = story.task("a").execution_deadline
    story.wait(hours=2)
    story.commit(stall=True)
    after = story.task("a").execution_deadline
    assert before is not None
    assert after is not None
    assert after - before >= timedelta(hours=2) - timedelta(seconds=1)


def test_deliveries_that_wait_for_a_worker_are_limited() -> None:
    story = Story()
    story.tell(QuotaSet(max_queued_tasks=1))
    story.plan({"a": (), "b": ()})
    assert len(dispatch.dispatch(story.state, Fairness())[0]) == 1
    story.dispatch("a")
    assert dispatch.dispatch(story.state, Fairness())[0] == []
    assert "too many tasks" in story.dispatch("b").reason


def test_what_comes_with_something_known_is_applied_all_the_same() -> None:
    story = Story()
    for run in ("run_1", "run_2"):
        story.plan({"a": ()}, run)
    assert story.tell(RunCancelRequested(run_id="run_1")).applied
    both = RunCancelRequested(run_id="run_1"), RunCancelRequested(run_id="run_2")
    answer = story.tell(*both)
    assert answer.applied
    assert not answer.repeated
    assert story.run("run_2").state.value == "CANCELLED"
    assert story.tell(*both).repeated
