"""The law about what callers are told."""

from datetime import UTC, datetime

import pytest

from servo.core.events.envelope import Answer, Batch, Entry, Status
from servo.core.events.quotas import QuotaSet
from servo.core.state.state import State
from servo.errors import Fenced, ServoError, Unavailable
from simulation.kernel import Violation
from simulation.told_law import ToldLaw

BATCH = Batch(id="b", events=(QuotaSet(max_concurrent_tasks=1),))
APPLIED = Answer(status=Status.APPLIED, seq=3)
NO = Unavailable("the disk is full", may_have_applied=False)
UNKNOWN = Unavailable("no answer", may_have_applied=True)
STATE = State("t", "w")


def law(copies: int = 1) -> ToldLaw:
    made = ToldLaw()
    for _ in range(copies):
        made.delivered(BATCH)
    return made


def commit(told: ToldLaw, seq: int = 3) -> None:
    entry = Entry(
        seq=seq,
        epoch=1,
        owner="o",
        nonce="n",
        ts=datetime(2026, 3, 1, tzinfo=UTC),
        prev_hash="",
        fold_version=1,
        batches=(BATCH,),
    )
    told.committed(entry, [APPLIED], STATE)


def test_what_was_told_as_no_is_never_applied() -> None:
    told = law()
    told.failed(BATCH, NO)
    with pytest.raises(Violation, match="told that it was not: Unavailable: the disk is full"):
        commit(told)


def test_what_was_applied_is_not_told_as_no() -> None:
    told = law()
    commit(told)
    with pytest.raises(Violation, match="told that it was not"):
        told.answered(BATCH, Answer(status=Status.REJECTED, seq=3, reason="unknown_run"))


@pytest.mark.parametrize("error", [UNKNOWN, Fenced("another process leads")])
def test_what_is_unknown_may_be_either(error: ServoError) -> None:
    told = law()
    told.failed(BATCH, error)
    told.ended(STATE)
    commit(told)
    told.ended(STATE)


def test_another_copy_may_be_applied_although_one_was_told_as_no() -> None:
    told = law(copies=2)
    told.failed(BATCH, NO)
    commit(told)


def test_what_was_told_as_applied_is_in_the_ledger() -> None:
    told = law()
    told.answered(BATCH, APPLIED)
    with pytest.raises(Violation, match="it never was"):
        told.ended(STATE)


def test_nothing_is_applied_twice() -> None:
    told = law()
    commit(told)
    with pytest.raises(Violation, match="entry 3 and again by entry 4"):
        commit(told, seq=4)
