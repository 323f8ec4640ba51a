"""What the fold refuses: entries out of order, batches it cannot take, intents too early."""

from datetime import timedelta
from typing import Any, cast

import pytest
from msgspec.structs import replace

from servo.core.events.dispatch import (
    CancelGraceExpired,
    DispatchAckTimedOut,
    DispatchEnqueued,
    ExecutionTimedOut,
    Handover,
    LeaseExpired,
)
from servo.core.events.envelope import Batch, Entry, Event, Status, Verdict
from servo.core.events.quotas import LaneWeightSet, PoolLimitSet, QuotaSet
from servo.core.events.runs import RunCancelRequested
from servo.core.fold.apply import apply_entry
from servo.core.fold.limits import ANSWERS_KEPT_FOR, FOLD_VERSION, MAX_DELIVERIES
from servo.core.state.states import OutboxStatus, TaskState, TransitionReason
from servo.errors import Corrupt
from servo.testing.builders import START, Story, dump

MOMENT = timedelta(microseconds=1)
Loss = type[LeaseExpired] | type[ExecutionTimedOut] | type[CancelGraceExpired]


def following(story: Story, **changes: object) -> Entry:
    """The entry that continues a story, with a limit of nine tasks."""
    entry = Entry(
        seq=story.state.seq + 1,
        epoch=story.state.epoch,
        owner="owner",
        nonce="nonce",
        ts=story.now + timedelta(seconds=1),
        prev_hash=story.state.last_hash,
        fold_version=FOLD_VERSION,
        batches=(Batch(id="nine", events=(QuotaSet(max_concurrent_tasks=9),)),),
    )
    return replace(entry, **changes)


def limit_of(story: Story) -> int | None:
    return story.state.quotas.rows["workspace", ""].max_concurrent_tasks


def running(timeout_ms: int = 0) -> Story:
    """A story in which task `a` runs."""
    story = Story()
    story.plan({"a": ()}, timeout_ms=timeout_ms)
    story.start("a")
    return story


def loss(story: Story, kind: Loss, **changes: str) -> Event:
    """The intent to give up the execution that holds task `a`."""
    row = story.task("a")
    event = kind(
        run_id=row.run_id, task_key=row.task_key, attempt_id=row.attempt_id, exec_id=row.exec_id
    )
    return replace(event, **changes)


# --- entries --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        pytest.param({"seq": 3}, "entry 3 follows entry 1", id="a number is left out"),
        pytest.param({"seq": 1}, "entry 1 follows entry 1", id="a number comes twice"),
        pytest.param({"prev_hash": "other"}, "chain of hashes", id="another entry before it"),
    ],
)
def test_an_entry_that_does_not_continue_the_ledger_is_corrupt(
    changes: dict[str, object], why: str
) -> None:
    story = Story()
    story.tell(QuotaSet(max_concurrent_tasks=5))
    before, digest = dump(story.state), story.state.last_hash
    with pytest.raises(Corrupt, match=why):
        apply_entry(story.state, following(story, **changes), "digest")
    assert dump(story.state) == before
    assert (story.state.seq, story.state.last_hash) == (1, digest)


def test_an_entry_of_an_older_epoch_only_takes_up_its_number() -> None:
    story = Story()
    story.commit(story.batch(QuotaSet(max_concurrent_tasks=5)), epoch=2)
    before, ts = dump(story.state), story.state.ts
    assert apply_entry(story.state, following(story, epoch=1), "dead") == []
    assert dump(story.state) == before
    state = story.state
    assert (state.seq, state.epoch, state.ts, state.last_hash) == (2, 2, ts, "dead")
    (answer,) = apply_entry(state, following(story), "alive")
    assert answer.applied
    assert limit_of(story) == 9


# --- batches --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("age", "status"),
    [(ANSWERS_KEPT_FOR, Status.APPLIED), (ANSWERS_KEPT_FOR + MOMENT, Status.REJECTED)],
)
def test_a_batch_sent_longer_ago_than_answers_are_kept_is_refused(
    age: timedelta, status: Status
) -> None:
    story = Story()
    assert story.tell(QuotaSet(max_concurrent_tasks=5), sent_at=START - age).status is status
    assert len(story.state.quotas) == (status is Status.APPLIED)


@pytest.mark.parametrize(
    ("request_", "other"),
    [
        (QuotaSet(max_concurrent_tasks=5), QuotaSet(max_concurrent_tasks=6)),
        (RunCancelRequested(run_id="run_1"), RunCancelRequested(run_id="run_2")),
    ],
    ids=["command", "fact"],
)
def test_a_key_used_for_another_request_is_a_conflict(request_: Event, other: Event) -> None:
    story = Story()
    for run_id in ("run_1", "run_2"):
        story.plan({"a": ()}, run_id)
    first = story.tell(request_, request_id="mine")
    before = dump(story.state)
    answer = story.tell(other, request_id="mine")
    assert (answer.status, answer.seq) == (Status.CONFLICT, first.seq)
    assert (
        answer.reason
        == "idempotency_conflict: the key was used for a different request; use a new key"
    )
    assert story.tell(request_, request_id="mine") == replace(first, repeated=True)
    assert dump(story.state) == before


def test_a_command_sent_again_after_another_does_not_take_that_one_back() -> None:
    story = Story()
    five = story.batch(QuotaSet(max_concurrent_tasks=5))
    (first,) = story.commit(five)
    story.tell(QuotaSet(max_concurrent_tasks=9))
    assert story.commit(five) == [replace(first, repeated=True)]
    assert limit_of(story) == 9


def test_what_makes_a_rule_fail_is_set_aside_whole_and_what_follows_goes_on() -> None:
    story = Story()
    unheard_of = QuotaSet(max_concurrent_tasks=cast("int", "many"))
    broken = story.batch(PoolLimitSet(pool="db", limit=1), unheard_of, id="broken")
    sound = story.batch(QuotaSet(max_concurrent_tasks=5))
    first, second = story.commit(broken, sound)
    assert (first.status, second.status) == (Status.QUARANTINED, Status.APPLIED)
    assert list(story.state.quotas.rows) == [("workspace", "")]
    (letter,) = story.state.dead_letter.rows.values()
    assert (letter.batch_id, letter.status) == ("broken", Status.QUARANTINED)
    assert (letter.code, letter.reason) == ("rule_failed", first.reason)
    assert letter.reason.startswith("TypeError: ")


def test_a_batch_is_set_aside_once() -> None:
    story = Story()
    verdict = Verdict(status=Status.QUARANTINED, code="rule_failed", reason="it failed")
    (first,) = story.commit(Batch(id="b", verdict=verdict))
    before = dump(story.state)
    assert [row.batch_id for row in story.state.dead_letter.rows.values()] == ["b"]
    (second,) = story.commit(Batch(id="b", verdict=replace(verdict, reason="in another way")))
    assert (first.status, second.status) == (Status.QUARANTINED, Status.QUARANTINED)
    assert dump(story.state) == before


# --- limits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "limit",
    [
        QuotaSet(max_daily_runs=-1),
        PoolLimitSet(pool="db", limit=-1),
        LaneWeightSet(lane="bulk", weight=0),
        LaneWeightSet(lane="bulk", weight=1_000_001),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(limit: Event) -> None:
    story = Story()
    assert story.tell(limit).reason.startswith("invalid_quota: ")
    assert not story.state.quotas.rows


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        (QuotaSet(max_concurrent_tasks=1), "no free task slot"),
        (PoolLimitSet(pool="db", limit=1), "no free slot in the pool db"),
    ],
)
def test_what_is_full_takes_no_more_until_a_task_ends(limit: Event, reason: str) -> None:
    story = Story()
    story.tell(limit)
    story.plan({"a": (), "b": ()}, pool="db")
    story.start("a")
    assert story.dispatch("b").reason == reason
    assert story.task("b").state is TaskState.READY
    story.finish("a")
    assert story.dispatch("b").applied


# --- deliveries and executions --------------------------------------------------------------------


def test_a_delivery_is_acknowledged_once_and_only_if_it_was_sent() -> None:
    story = Story()
    story.plan({"a": ()})
    story.dispatch("a")
    row = story.task("a")
    sent = DispatchEnqueued(
        run_id=row.run_id, task_key=row.task_key, attempt_id=row.attempt_id, delivery=1
    )
    assert story.tell(replace(sent, delivery=2)).reason == "the delivery is not pending"
    assert story.tell(sent).applied
    assert story.tell(sent).reason == "the delivery is not pending"
    assert story.state.outbox.rows[row.attempt_id, 1].status is OutboxStatus.CREATED


def test_an_attempt_is_made_only_after_the_one_before_it() -> None:
    story = Story()
    story.plan({"a": ()})
    assert story.dispatch("a", attempt=2).reason == "the task is not ready for this attempt"
    assert story.task("a").state is TaskState.READY


def test_a_worker_that_is_there_needs_no_place_in_the_queue() -> None:
    story = Story()
    story.tell(QuotaSet(max_queued_tasks=0))
    story.plan({"a": ()})
    assert story.dispatch("a").reason == "quota: too many tasks are waiting for a worker"
    assert story.dispatch("a", handover=Handover(exec_id="e")).applied


@pytest.mark.parametrize("changes", [{"attempt_id": "att_other"}, {"delivery": 2}])
def test_only_the_delivery_that_waits_can_be_overdue(changes: dict[str, object]) -> None:
    story = Story()
    story.plan({"a": ()})
    story.dispatch("a")
    row = story.task("a")
    overdue = DispatchAckTimedOut(
        run_id=row.run_id, task_key=row.task_key, attempt_id=row.attempt_id, delivery=1
    )
    story.wait(hours=1)
    assert story.tell(replace(overdue, **changes)).reason == "the delivery is not overdue"
    assert story.task("a") == row


def test_an_attempt_that_nobody_claims_is_lost_after_its_last_delivery() -> None:
    story = Story()
    story.plan({"a": ()})
    story.dispatch("a")
    row = story.task("a")
    waits = [30, 60, 120, 240, 480, 480, 480, 480]
    assert len(waits) == MAX_DELIVERIES
    for number, seconds in enumerate(waits, start=1):
        assert story.task("a").delivery == number
        overdue = DispatchAckTimedOut(
            run_id=row.run_id, task_key=row.task_key, attempt_id=row.attempt_id, delivery=number
        )
        story.wait(seconds=seconds - 2)
        assert story.tell(overdue).reason == "the delivery is not overdue"
        story.wait(seconds=3)
        assert story.tell(overdue).applied
    lost = story.task("a")
    assert (lost.state, lost.reason) == (
        TaskState.RETRY_WAIT,
        TransitionReason.DISPATCH_ACK_TIMEOUT,
    )
    assert (lost.user_failures, lost.infra_losses) == (0, 1)
    statuses = [sent.status for sent in story.state.outbox.values()]
    assert statuses == [OutboxStatus.FAILED] * MAX_DELIVERIES


@pytest.mark.parametrize("silence", [{"stall": True}, {"epoch": 2}], ids=["stall", "takeover"])
def test_a_delivery_gets_its_time_again_after_a_silence_of_the_leader(silence: Any) -> None:
    story = Story()
    story.plan({"a": ()})
    story.dispatch("a")
    row = story.task("a")
    story.wait(minutes=10)
    story.commit(**silence)
    assert story.task("a").dispatch_deadline == story.now + timedelta(seconds=30)
    overdue = DispatchAckTimedOut(
        run_id=row.run_id, task_key=row.task_key, attempt_id=row.attempt_id, delivery=1
    )
    assert story.tell(overdue).reason == "the delivery is not overdue"


@pytest.mark.parametrize(
    ("kind", "deadline", "reason"),
    [
        (LeaseExpired, "lease_expires_at", "the lease has not expired"),
        (ExecutionTimedOut, "execution_deadline", "the execution has not timed out"),
        (CancelGraceExpired, "cancel_deadline", "the grace period has not ended"),
    ],
)
def test_an_execution_is_given_up_at_its_deadline_and_not_before(
    kind: Loss, deadline: str, reason: str
) -> None:
    story = running(timeout_ms=60_000)
    if kind is CancelGraceExpired:
        story.tell(RunCancelRequested(run_id="run_1"))
    event, due = loss(story, kind), getattr(story.task("a"), deadline)
    story.now = due - MOMENT
    assert story.tell(event).reason == reason
    assert story.task("a").state is TaskState.RUNNING
    story.now = due
    assert story.tell(event).applied
    assert story.task("a").state is not TaskState.RUNNING


def test_there_is_no_grace_to_end_before_a_cancel() -> None:
    story = running()
    story.wait(days=1)
    assert story.tell(loss(story, CancelGraceExpired)).reason == "the grace period has not ended"


@pytest.mark.parametrize("changes", [{"exec_id": "other"}, {"attempt_id": "att_other"}])
def test_only_the_execution_that_holds_a_task_can_lose_it(changes: dict[str, str]) -> None:
    story = running()
    story.wait(days=1)
    stranger = loss(story, LeaseExpired, **changes)
    assert story.tell(stranger).reason == "the execution no longer holds the task"
    assert story.task("a").state is TaskState.RUNNING


def test_an_execution_that_has_ended_can_no_longer_be_lost() -> None:
    story = running()
    event = loss(story, LeaseExpired)
    story.finish("a")
    story.wait(days=1)
    assert story.tell(event).reason == "the execution no longer holds the task"
    assert story.task("a").state is TaskState.SUCCEEDED


@pytest.mark.parametrize("kind", [LeaseExpired, ExecutionTimedOut])
def test_an_attempt_lost_after_the_cancel_is_not_tried_again(kind: Loss) -> None:
    story = running(timeout_ms=60_000)
    story.tell(RunCancelRequested(run_id="run_1"))
    story.wait(days=1)
    assert story.tell(loss(story, kind)).applied
    row = story.task("a")
    assert (row.state, row.reason) == (TaskState.CANCELLED, TransitionReason.USER_CANCELLED)
    assert not story.state.timers.rows
    assert story.run().state.value == "CANCELLED"
