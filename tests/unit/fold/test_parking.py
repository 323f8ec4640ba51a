"""Rules of parking: who waits for what, how long, how many, and what becomes of it."""

from datetime import timedelta

from msgspec.structs import replace

from servo.controllers import timers
from servo.core.events.codec import decode_batch
from servo.core.events.envelope import Batch, Status
from servo.core.events.parking import ParkedBatchExpired
from servo.core.events.runs import PlanCreated, RunCancelRequested, RunRequested
from servo.core.fold.apply import needs_now
from servo.core.fold.letters import letter_key
from servo.core.fold.limits import MAX_PARKED_PER_RUN, PARK_FOR
from servo.testing.builders import START, Story, dump, specs

MOMENT = timedelta(microseconds=1)
EXPIRED = ParkedBatchExpired(batch_id="early")


def early(name: str = "early", run_id: str = "run_1") -> Batch:
    """A batch that nobody waits for an answer to, about a run that may not exist yet."""
    return Batch(id=name, events=(RunCancelRequested(run_id=run_id),), parkable=True)


def test_a_batch_that_comes_too_early_waits_for_its_run() -> None:
    story = Story()
    (answer,) = story.commit(early())
    assert (answer.status, answer.reason) == (Status.PARKED, "unknown_run")
    row = story.state.parked.rows["early"]
    assert replace(decode_batch(row.batch.encode()), parkable=True) == early()
    story.plan({"a": ()}, "run_2")
    assert list(story.state.parked.rows) == ["early"]
    story.plan({"a": ()}, "run_1")
    assert not story.state.parked.rows
    assert story.run("run_1").state.value == "CANCELLED"


def test_a_batch_that_somebody_waits_for_is_refused_and_not_parked() -> None:
    story = Story()
    (answer,) = story.commit(replace(early(), parkable=False))
    assert answer.status is Status.REJECTED
    assert not story.state.parked.rows
    assert not story.state.dead_letter.rows


def test_a_batch_is_parked_once() -> None:
    story = Story()
    story.commit(early())
    before = dump(story.state)
    story.wait(hours=1)
    (again,) = story.commit(early())
    assert again.status is Status.PARKED
    assert dump(story.state) == before


def test_too_many_that_wait_for_one_run_become_dead_letters() -> None:
    story = Story()
    numbers = range(MAX_PARKED_PER_RUN + 1)
    answers = story.commit(*(early(f"batch-{number}") for number in numbers))
    assert answers.pop().status is Status.REJECTED
    assert {answer.status for answer in answers} == {Status.PARKED}
    (letter,) = story.state.dead_letter.rows.values()
    assert (letter.batch_id, letter.code) == (f"batch-{MAX_PARKED_PER_RUN}", "too_many_parked")
    (other,) = story.commit(early("other", "run_2"))
    assert other.status is Status.PARKED


def test_a_batch_that_nothing_can_make_good_is_a_dead_letter_once() -> None:
    story = Story()
    story.plan({})
    (first,) = story.commit(early())
    before = dump(story.state)
    (second,) = story.commit(early())
    assert (first.status, second.status) == (Status.REJECTED, Status.REJECTED)
    (letter,) = story.state.dead_letter.rows.values()
    assert (letter.code, letter.reason) == ("precondition_failed", "the run has already ended")
    assert dump(story.state) == before


def test_what_waited_in_vain_is_a_dead_letter_after_its_time_and_not_before() -> None:
    story = Story()
    story.commit(early())
    parked = story.state.parked.rows["early"]
    story.now = START + PARK_FOR - MOMENT
    assert timers.expire_parked(story.state, story.now) == []
    assert story.tell(EXPIRED).reason == "the batch is not parked, or its time has not expired"
    story.now = START + PARK_FOR
    (action,) = timers.expire_parked(story.state, story.now)
    assert action.events == (EXPIRED,)
    assert story.tell(*action.events).applied
    assert not story.state.parked.rows
    (letter,) = story.state.dead_letter.rows.values()
    assert (letter.code, letter.original) == ("expired_while_waiting", parked.batch)


def test_what_no_longer_waits_does_not_expire() -> None:
    story = Story()
    story.commit(early())
    story.plan({"a": ()})
    story.wait(days=2)
    assert story.tell(EXPIRED).reason == "the batch is not parked, or its time has not expired"
    assert not story.state.dead_letter.rows


def test_a_dead_letter_is_not_replaced_by_a_later_batch_of_the_same_name() -> None:
    story = Story()
    story.plan({}, "run_2")
    story.commit(early(run_id="run_2"))
    (letter,) = story.state.dead_letter.rows.values()
    story.commit(early(run_id="run_1"))
    story.wait(days=2)
    assert story.tell(EXPIRED).applied
    assert not story.state.parked.rows
    first, second = story.state.dead_letter.rows.values()
    assert (first, second.batch_id, second.run_id) == (letter, "early", "run_1")


def test_what_may_be_buried_when_it_expires_looks_up_its_dead_letter() -> None:
    story = Story()
    story.commit(early())
    wanted = needs_now(story.state, Batch(id="b", events=(EXPIRED,)))
    assert wanted == [("dead_letter", letter_key(early()))]


def test_a_chain_of_batches_that_wait_for_each_other_is_released_whatever_its_length() -> None:
    story = Story()
    length = 1_500
    for number in range(length, 0, -1):
        (waits,) = specs({"a": ()})
        chained = (
            RunCancelRequested(run_id=f"run_{number - 1}"),
            RunRequested(run_id=f"run_{number}", run_key=f"key-{number}", request_fingerprint="fp"),
            PlanCreated(run_id=f"run_{number}", fingerprint="plan", tasks=(waits,)),
        )
        story.commit(Batch(id=f"b{number}", events=chained, parkable=True))
    assert len(story.state.parked.rows) == length
    story.plan({"a": ()}, "run_0")
    assert not story.state.parked.rows
    assert not story.state.dead_letter.rows
    assert story.run(f"run_{length}").state.value == "RUNNING"
    places = [key for key in story.state.ledger_index.rows if key[0] == story.state.seq]
    assert len(places) == length + 1
